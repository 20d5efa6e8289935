package excess

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// saturate lets p send as fast as it may against an API that answers after
// latency by admit, and returns how many were admitted and refused.
func saturate(p *pace, from time.Time, length, latency time.Duration, admit func(time.Time) bool) (accepted, refused int) {
	type call struct {
		Permit
		ok bool
	}
	var flying []call
	for now := from; now.Before(from.Add(length)); now = now.Add(500 * time.Microsecond) {
		for len(flying) > 0 && now.Sub(flying[0].at) >= latency {
			c := flying[0]
			flying = flying[1:]
			if c.ok {
				accepted++
				p.accepted(now, c.Permit)
			} else {
				refused++
				p.refused(now, c.Permit)
			}
		}
		w := p.wait(now)
		for ; w == 0; w = p.wait(now) {
			t := p.send(now)
			flying = append(flying, call{t, admit(now)})
		}
		if w > time.Second { // a page that is refused for long: nothing happens until then
			now = now.Add(w.Truncate(time.Second) - 500*time.Microsecond)
		}
	}
	return accepted, refused
}

// window is a fixed window of a second that admits n.
func window(n int) func(time.Time) bool {
	var second int64
	used := 0
	return func(now time.Time) bool {
		if s := now.Unix(); s != second {
			second, used = s, 0
		}
		if used < n {
			used++
			return true
		}
		return false
	}
}

func half() float64 { return 0.5 }

func TestPaceUsesTheLimit(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{10 * time.Millisecond, 40 * time.Millisecond, 200 * time.Millisecond} {
		p := newPace(begin, 300, half)
		accepted, refused := saturate(p, begin, time.Minute, latency, window(300))
		if quota := float64(accepted) / (60 * 300); quota < 0.975 || refused != 0 {
			t.Errorf("latency %v: quota used %.1f %%, %d refusals, want at least 97.5 %% and none", latency, 100*quota, refused)
		}
	}
}

// Where the limiter lets it, an owner finds 99 % by itself. Where it does not,
// one refusal sends it back to 98 % for five minutes.
func TestPaceReachesFurther(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		admits   int
		min, max float64 // of 300/s, in the minute from 30 s on
		refused  int
	}{
		{"the limiter admits 300", 300, 0.99, 0.994, 0},
		{"the limiter admits 295", 295, 0.975, 0.984, 2},
	} {
		p := newPace(begin, 300, half)
		_, before := saturate(p, begin, 30*time.Second, 40*time.Millisecond, window(row.admits))
		accepted, after := saturate(p, begin.Add(30*time.Second), time.Minute, 40*time.Millisecond, window(row.admits))
		if quota := float64(accepted) / (60 * 300); quota < row.min || quota > row.max {
			t.Errorf("%s: quota used %.2f %%, want %.1f to %.1f %%", row.name, 100*quota, 100*row.min, 100*row.max)
		}
		if before > row.refused || after != 0 {
			t.Errorf("%s: %d refusals in 30 s, then %d, want at most %d, then none", row.name, before, after, row.refused)
		}
	}
}

// A limit that is halved costs few refusals and is found; one that is restored
// is found again.
func TestPaceFindsAnotherLimit(t *testing.T) {
	t.Parallel()
	p := newPace(begin, 300, half)
	saturate(p, begin, 20*time.Second, 40*time.Millisecond, window(300))
	_, refused := saturate(p, begin.Add(20*time.Second), 20*time.Second, 40*time.Millisecond, window(150))
	if refused > 150 {
		t.Errorf("refusals in 20 s after the limit was halved = %d, want at most 150", refused)
	}
	accepted, refused := saturate(p, begin.Add(40*time.Second), 20*time.Second, 40*time.Millisecond, window(150))
	if quota := float64(accepted) / (20 * 150); quota < 0.9 || float64(refused) > 0.012*float64(accepted) {
		t.Errorf("half limit: quota used %.1f %%, %d refusals for %d sends, want 90 %% and 1.2 %%", 100*quota, refused, accepted)
	}
	saturate(p, begin.Add(60*time.Second), 30*time.Second, 40*time.Millisecond, window(300))
	accepted, _ = saturate(p, begin.Add(90*time.Second), 10*time.Second, 40*time.Millisecond, window(300))
	if quota := float64(accepted) / (10 * 300); quota < 0.95 {
		t.Errorf("30 s after the limit was restored: quota used %.1f %%, want 95 %%", 100*quota)
	}
}

// A limit that is halved for six seconds only, wherever in a second that falls,
// costs at most 2.5 s of quota after it is back: growth is fast again as
// soon as the pace is past the one that was refused.
func TestPaceAfterADip(t *testing.T) {
	t.Parallel()
	for phase := range 10 {
		p := newPace(begin, 300, half)
		at := begin.Add(10*time.Second + time.Duration(phase)*100*time.Millisecond)
		saturate(p, begin, at.Sub(begin), 40*time.Millisecond, window(300))
		_, refused := saturate(p, at, 6*time.Second, 40*time.Millisecond, window(150))
		accepted, late := saturate(p, at.Add(6*time.Second), 20*time.Second, 40*time.Millisecond, window(300))
		if lost := 20 - float64(accepted)/300; lost > 2.5 || refused+late > 150 {
			t.Errorf("dip %d00 ms into a second: %.1f s of quota lost after it, %d refusals, want at most 2.5 s and 150", phase, lost, refused+late)
		}
	}
}

// While a page is refused one probe at a time is sent, three a second; when it
// opens it is back within seconds.
func TestPaceWhileRefused(t *testing.T) {
	t.Parallel()
	p := newPace(begin, 300, half)
	saturate(p, begin, 10*time.Second, 40*time.Millisecond, window(300))
	_, refused := saturate(p, begin.Add(10*time.Second), 30*time.Second, 40*time.Millisecond, func(time.Time) bool { return false })
	if refused > 30*4+20 {
		t.Errorf("refusals in 30 s = %d, want at most 140", refused)
	}
	saturate(p, begin.Add(40*time.Second), 15*time.Second, 40*time.Millisecond, window(300))
	accepted, _ := saturate(p, begin.Add(55*time.Second), 10*time.Second, 40*time.Millisecond, window(300))
	if quota := float64(accepted) / (10 * 300); quota < 0.85 {
		t.Errorf("15 s after it opened: quota used %.1f %%, want 85 %%", 100*quota)
	}
}

// A page that is refused for hours, as by a quota of a day, is hardly asked, and is
// open again a tenth of that time later at most.
func TestPaceWhileRefusedForLong(t *testing.T) {
	t.Parallel()
	p := newPace(begin, 300, half)
	never := func(time.Time) bool { return false }
	saturate(p, begin, 10*time.Second, 40*time.Millisecond, window(300))
	_, first := saturate(p, begin.Add(10*time.Second), 5*time.Minute, 40*time.Millisecond, never)
	if first > 80 { // 12 + 16 until the pause is 320 ms and a tenth, then ln(300 / 3.2) × 10
		t.Errorf("refusals in the first 5 minutes = %d, want at most 80", first)
	}
	saturate(p, begin.Add(310*time.Second), 10*time.Minute, 40*time.Millisecond, never)
	_, later := saturate(p, begin.Add(910*time.Second), 20*time.Minute, 40*time.Millisecond, never)
	if later < 16 || later > 25 {
		t.Errorf("refusals in 20 minutes later = %d, want one a minute", later)
	}
	accepted, _ := saturate(p, begin.Add(2110*time.Second), 90*time.Second, 40*time.Millisecond, window(300))
	if accepted < 10*300/2 {
		t.Errorf("accepted in the 90 s after it opened = %d, want 1500 at least", accepted)
	}
}

// An idle page gets no credit, a late process does.
func TestCredit(t *testing.T) {
	t.Parallel()
	burst := func(p *pace, now time.Time) (n int) {
		for p.wait(now) == 0 {
			p.send(now)
			n++
		}
		return n
	}
	p := newPace(begin, 300, half)
	if got := burst(p, begin.Add(time.Minute)); got != 1 {
		t.Errorf("sends at once after idleness = %d, want 1", got)
	}
	// burst ended in a wait: from here the page waits, and the process is late.
	for _, row := range []struct {
		late time.Duration
		want int
	}{{20 * time.Millisecond, 6}, {50 * time.Millisecond, 15}, {time.Second, 30}} {
		p := newPace(begin, 300, half)
		now := begin.Add(time.Minute)
		burst(p, now)
		if got := burst(p, p.tat.Add(row.late)); got != row.want {
			t.Errorf("sends at once %v late = %d, want %d", row.late, got, row.want)
		}
	}
}

func TestRefusalsInARow(t *testing.T) {
	t.Parallel()
	p := newPace(begin, 300, half)
	now := begin.Add(10 * time.Second)
	a, b, c := p.send(now), p.send(now), p.send(now)
	p.refused(now, a)
	if p.streak != 1 || p.resume.Sub(now) != 20*time.Millisecond {
		t.Fatalf("after one refusal: streak %d, pause %v, want 1, 20ms", p.streak, p.resume.Sub(now))
	}
	p.refused(now, b) // was under way already: says nothing new
	p.refused(now, c)
	if p.streak != 1 {
		t.Fatalf("streak after refusals of calls under way = %d, want 1", p.streak)
	}
	if want := 294 * (1 - 0.015) * (1 - 0.015) * (1 - 0.015); math.Abs(p.rate-want) > 0.5 {
		t.Errorf("rate after three refusals = %.1f, want %.1f", p.rate, want)
	}
	now = now.Add(30 * time.Millisecond)
	p.refused(now, p.send(now))
	if p.streak != 2 {
		t.Fatalf("streak after the refusal of a call sent after the pause = %d, want 2", p.streak)
	}
	now = now.Add(100 * time.Millisecond)
	probe := p.send(now)
	if !probe.probe || p.wait(now) != UntilDone {
		t.Errorf("after two refusals in a row: probe %v, wait %v, want a lone probe", probe.probe, p.wait(now))
	}
	p.accepted(now, probe)
	if p.streak != 0 || p.probing {
		t.Errorf("after the probe passed: streak %d, probing %v, want 0, false", p.streak, p.probing)
	}
}

// After a refused probe only what was sent later says something about the pace.
func TestRefusalsFromBeforeTheProbe(t *testing.T) {
	t.Parallel()
	p := newPace(begin, 300, half)
	now := begin.Add(10 * time.Second)
	p.refused(now, p.send(now))
	now = now.Add(25 * time.Millisecond)
	old := p.send(now)
	p.refused(now, p.send(now))
	now = now.Add(50 * time.Millisecond)
	probe := p.send(now)
	p.accepted(now, Permit{at: begin}) // so that a second's successes are not 0
	p.refused(now, probe)
	if rate := p.rate; rate != 1 || !p.starting {
		t.Fatalf("after the probe: rate %v, starting %v, want 1, the successes of a second, and true", rate, p.starting)
	}
	p.refused(now, old)
	if p.rate != 1 || !p.starting {
		t.Errorf("after a refusal from before the probe: rate %v, starting %v, want 1, true", p.rate, p.starting)
	}
}

// The owner's bound of the package comment, for any sequence of results and
// any lateness: no second holds more than 0.993 × limit × 1.1 s and one.
func TestOwnerBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newPace(begin, 300, half)
		var sent []time.Time
		var open []Permit
		now := begin
		for range rapid.IntRange(1, 3000).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "ms")) * time.Millisecond)
			for p.wait(now) == 0 {
				open = append(open, p.send(now))
				sent = append(sent, now)
			}
			for len(open) > 0 && rapid.IntRange(0, 3).Draw(t, "land") > 0 {
				if rapid.IntRange(0, 20).Draw(t, "ok") > 0 {
					p.accepted(now, open[0])
				} else {
					p.refused(now, open[0])
				}
				open = open[1:]
			}
			if p.rate > p.top || p.rate < minPace {
				t.Fatalf("rate = %v, want %v to %v", p.rate, minPace, p.top)
			}
		}
		first := 0
		for i, last := range sent {
			for last.Sub(sent[first]) >= time.Second {
				first++
			}
			if n := i - first + 1; n > 298+30+1 {
				t.Fatalf("%d sends in a second, want at most 329", n)
			}
		}
	})
}
