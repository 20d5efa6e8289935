package excess

import (
	"math/rand/v2"
	"testing"
	"time"

	"chatclub/fakeapi/limit"
)

// saturate sends as fast as the map lets it to a platform that answers after
// latency by admit, and returns how many were admitted and refused.
func saturate(m *Map, from time.Time, length, latency time.Duration, admit func(time.Time) bool) (accepted, refused int) {
	type call struct {
		p  Permit
		ok bool
	}
	var flying []call
	land := func(now time.Time) {
		c := flying[0]
		flying = flying[1:]
		if c.ok {
			accepted++
			m.Done(now, c.p, Accepted)
		} else {
			refused++
			m.Done(now, c.p, Refused)
		}
	}
	now := from
	for next := from; next.Before(from.Add(length)); {
		now = next
		for len(flying) > 0 && now.Sub(flying[0].p.at) >= latency {
			land(now)
		}
		for {
			d := m.Offer(now, Request{Key: room})
			if d.Wait > 0 {
				next = now.Add(max(d.Wait, time.Millisecond)) // as timers are late
				break
			}
			flying = append(flying, call{d.Permit, admit(now)})
		}
		if len(flying) > 0 && flying[0].p.at.Add(latency).Before(next) {
			next = flying[0].p.at.Add(latency)
		}
	}
	for len(flying) > 0 {
		land(now)
	}
	return accepted, refused
}

// fixedWindow is a fixed window of a second that admits n.
func fixedWindow(n int) func(time.Time) bool {
	l, err := limit.New(limit.Config{Algorithm: limit.FixedWindow, Limit: n})
	if err != nil {
		panic(err)
	}
	return l.Allow
}

func TestSaturatedPageUsesItsLimit(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{10 * time.Millisecond, 40 * time.Millisecond, 700 * time.Millisecond} {
		accepted, refused := saturate(newMap(300), begin(), time.Minute, latency, fixedWindow(300))
		if quota := float64(accepted) / (60 * 300); quota < 0.975 || refused > 10 {
			t.Errorf("latency %v: quota used %.1f %%, %d refusals, want at least 97.5 %% and at most 10", latency, 100*quota, refused)
		}
	}
}

// Under each of the usual limiters a saturated page uses most of its limit and
// is hardly refused.
func TestEveryLimiter(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		algorithm limit.Algorithm
		quota     float64
	}{
		{limit.FixedWindow, 0.97},
		{limit.SlidingWindow, 0.95},
		{limit.SlidingLog, 0.95},
		{limit.TokenBucket, 0.97},
		{limit.LeakyBucket, 0.95},
	} {
		for _, count := range []bool{false, true} {
			l, err := limit.New(limit.Config{Algorithm: row.algorithm, Limit: 300, CountRefused: count})
			if err != nil {
				t.Fatal(err)
			}
			m := newMap(300)
			saturate(m, begin(), 20*time.Second, 40*time.Millisecond, l.Allow)
			accepted, refused := saturate(m, at(20*time.Second), 20*time.Second, 40*time.Millisecond, l.Allow)
			if quota := float64(accepted) / (20 * 300); quota < row.quota || float64(refused) > 0.015*float64(accepted) {
				t.Errorf("%s, refused calls count %v: after 20 s quota used %.1f %%, %d refusals, want at least %.0f %% and 1.5 %%",
					row.algorithm, count, 100*quota, refused, 100*row.quota)
			}
		}
	}
}

// Where the limiter lets it a page finds 99 % by itself. Where it does not, a
// refusal or two send it back to 98 % for five minutes.
func TestReach(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		admits   int
		min, max float64 // of 300/s, in the minute from 30 s on
	}{
		{"the limiter admits 300", 300, 0.985, 0.994},
		{"the limiter admits 295", 295, 0.965, 0.984},
	} {
		m := newMap(300)
		_, before := saturate(m, begin(), 30*time.Second, 40*time.Millisecond, fixedWindow(row.admits))
		accepted, after := saturate(m, at(30*time.Second), time.Minute, 40*time.Millisecond, fixedWindow(row.admits))
		if quota := float64(accepted) / (60 * 300); quota < row.min || quota > row.max {
			t.Errorf("%s: quota used %.2f %%, want %.1f to %.1f %%", row.name, 100*quota, 100*row.min, 100*row.max)
		}
		if before > 10 || after > 10 {
			t.Errorf("%s: %d refusals in 30 s, then %d, want at most 10 each", row.name, before, after)
		}
	}
}

// A limit that is halved costs few refusals and is found; one that is restored
// is found again, within seconds.
func TestLimitChange(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{40 * time.Millisecond, 700 * time.Millisecond} {
		m := newMap(300)
		a, r1 := saturate(m, begin(), 10*time.Second, latency, fixedWindow(300))
		b, r2 := saturate(m, at(10*time.Second), 10*time.Second, latency, fixedWindow(150))
		c, r3 := saturate(m, at(20*time.Second), 20*time.Second, latency, fixedWindow(300))
		quota := float64(a+b+c) / (300*10 + 150*10 + 300*20)
		refused := float64(r1+r2+r3) / float64(a+b+c+r1+r2+r3)
		most := 0.02
		if latency > 100*time.Millisecond {
			most = 0.03 // what is in flight when the limit falls is refused
		}
		if quota < 0.92 || refused > most {
			t.Errorf("latency %v: quota used %.1f %% (%d, %d, %d), refused %.2f %%, want 92 %% and at most %.1f %%", latency, 100*quota, a, b, c, 100*refused, 100*most)
		}
	}
}

// A limit far below the configured one is found from nothing, and kept. Where refused
// calls count, each try costs what may be sent in an answer's time.
func TestRealLimit(t *testing.T) {
	t.Parallel()
	type bounds struct{ quota, refused float64 }
	for _, row := range []struct {
		truth           int
		usual, counting bounds // counting: refused calls count
	}{
		{10, bounds{0.8, 0.04}, bounds{0.3, 0.12}},
		{50, bounds{0.93, 0.02}, bounds{0.8, 0.05}},
		{150, bounds{0.94, 0.015}, bounds{0.85, 0.05}},
	} {
		for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog, limit.TokenBucket} {
			if a == limit.TokenBucket && row.truth < 50 {
				continue // what a bucket saved lets every try pass
			}
			for _, latency := range []time.Duration{40 * time.Millisecond, 700 * time.Millisecond} {
				for _, counts := range []bool{false, true} {
					want := row.usual
					if counts {
						want = row.counting
					}
					quota, refused := keeps(t, limit.Config{Algorithm: a, Limit: row.truth, Burst: max(1, row.truth/10), CountRefused: counts}, latency)
					if quota < want.quota || refused > want.refused {
						t.Errorf("real limit %d, %s, refused calls count %v, latency %v: quota used %.1f %%, %.1f %% refused, want %.0f %% and %.1f %%",
							row.truth, a, counts, latency, 100*quota, 100*refused, 100*want.quota, 100*want.refused)
					}
				}
			}
		}
	}
}

// keeps is what share of a limit that is not the configured one of 300 is used from
// 20 s on, and how many calls are refused for each accepted one, in five phases of the
// limiter's window.
func keeps(t *testing.T, c limit.Config, latency time.Duration) (quota, refused float64) {
	t.Helper()
	const runs = 5
	var accepted, refusals int
	for run := range runs {
		c.Phase = time.Duration(run) * time.Second / runs
		l, err := limit.New(c)
		if err != nil {
			t.Fatal(err)
		}
		m := New(Config{Limit: func(string) float64 { return 300 }, Random: rand.New(rand.NewPCG(uint64(run), 0)).Float64})
		saturate(m, begin(), 20*time.Second, latency, l.Allow)
		ok, no := saturate(m, at(20*time.Second), 2*time.Minute, latency, l.Allow)
		accepted, refusals = accepted+ok, refusals+no
	}
	return float64(accepted) / (runs * 120 * float64(c.Limit)), float64(refusals) / float64(accepted)
}

// What an outage did to a page's pace is not remembered once the page is idle.
func TestIdleAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{300, 150} {
		m := newMap(300)
		saturate(m, begin(), 20*time.Second, 700*time.Millisecond, fixedWindow(limit))
		before := m.View(room).Pace
		saturate(m, at(20*time.Second), 5*time.Second, 700*time.Millisecond, func(time.Time) bool { return false })
		if during := m.View(room).Pace; during > before/2 {
			t.Errorf("limit %d: pace after the outage = %.1f, want less than half of %.1f, or nothing is tested", limit, during, before)
		}
		m.Sweep(at(time.Minute))
		m.Offer(at(time.Minute), Request{Key: room})
		if after := m.View(room).Pace; after < 0.9*before {
			t.Errorf("limit %d: pace a minute later = %.1f, want %.1f as before the outage", limit, after, before)
		}
	}
}

// Where a page takes next to nothing it is not asked for much more.
func TestNextToNothing(t *testing.T) {
	t.Parallel()
	for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog, limit.TokenBucket} {
		for _, latency := range []time.Duration{40 * time.Millisecond, 700 * time.Millisecond} {
			l, err := limit.New(limit.Config{Algorithm: a, Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			m := newMap(300)
			saturate(m, begin(), 20*time.Second, latency, l.Allow)
			accepted, refused := saturate(m, at(20*time.Second), 2*time.Minute, latency, l.Allow)
			if accepted < 50 || refused > 120 {
				t.Errorf("%s, latency %v: %d accepted and %d refused in two minutes at one a second, want 50 at least and 120 at most", a, latency, accepted, refused)
			}
		}
	}
}

// A bucket that saved a whole second's calls lets a try pass, and what follows.
// That must not make every next try come as soon as the first.
func TestFullBucketAtHalfTheLimit(t *testing.T) {
	t.Parallel()
	l, err := limit.New(limit.Config{Algorithm: limit.TokenBucket, Limit: 150})
	if err != nil {
		t.Fatal(err)
	}
	m := newMap(300)
	saturate(m, begin(), 20*time.Second, 700*time.Millisecond, l.Allow)
	accepted, refused := saturate(m, at(20*time.Second), 2*time.Minute, 700*time.Millisecond, l.Allow)
	if quota := float64(accepted) / (120 * 150); quota < 0.97 || float64(refused) > 0.04*float64(accepted) {
		t.Errorf("quota used %.1f %%, %d refusals for %d calls, want 97 %% and 4 %%", 100*quota, refused, accepted)
	}
}

// The refusal of a call whose second is forgotten says nothing of the limit.
func TestRefusalAfterTheSecondIsForgotten(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	saturate(m, begin(), 10*time.Second, 40*time.Millisecond, fixedWindow(150))
	d := m.Offer(at(12*time.Second), Request{Key: room})
	if d.Wait > 0 {
		t.Fatalf("a call after two idle seconds waits %v", d.Wait)
	}
	saturate(m, at(12*time.Second), 10*time.Second, 40*time.Millisecond, fixedWindow(150))
	before := m.pages[room].ceiling
	m.Done(at(22*time.Second), d.Permit, Refused)
	if after := m.pages[room].ceiling; after < before {
		t.Errorf("ceiling after the refusal of a call from 10 s before = %.1f, want still %.1f", after, before)
	}
}

// While a page is shut one probe at a time is sent, some three a second at first;
// when it opens it is back within seconds.
func TestWhileShut(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	never := func(time.Time) bool { return false }
	saturate(m, begin(), 10*time.Second, 40*time.Millisecond, fixedWindow(300))
	_, refused := saturate(m, at(10*time.Second), 30*time.Second, 40*time.Millisecond, never)
	if refused > 30*4+20 {
		t.Errorf("refusals in 30 s = %d, want at most 140", refused)
	}
	saturate(m, at(40*time.Second), 15*time.Second, 40*time.Millisecond, fixedWindow(300))
	accepted, _ := saturate(m, at(55*time.Second), 10*time.Second, 40*time.Millisecond, fixedWindow(300))
	if quota := float64(accepted) / (10 * 300); quota < 0.85 {
		t.Errorf("15 s after it opened: quota used %.1f %%, want 85 %%", 100*quota)
	}
}

// A page that took nothing for a while, or next to nothing because another app took
// it all, is back soon afterwards, however long answers take.
func TestAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		passes int // a second
		lasts  time.Duration
		back   time.Duration
	}{
		{0, 3 * time.Second, 4 * time.Second},
		{0, 10 * time.Second, 4 * time.Second},
		{0, time.Minute, 10 * time.Second},
		{1, 3 * time.Second, 13 * time.Second},
		{1, time.Minute, 30 * time.Second},
		{5, 10 * time.Second, 15 * time.Second},
	} {
		for _, latency := range []time.Duration{40 * time.Millisecond, 700 * time.Millisecond} {
			well, few := fixedWindow(300), fixedWindow(max(1, row.passes))
			begins, ends, back := at(10*time.Second), at(10*time.Second+row.lasts), at(10*time.Second+row.lasts+row.back)
			passed := 0
			saturate(newMap(300), begin(), back.Add(10*time.Second).Sub(begin()), latency, func(now time.Time) bool {
				switch {
				case now.Before(begins):
					return well(now)
				case now.Before(ends):
					return row.passes > 0 && few(now)
				}
				ok := well(now)
				if ok && !now.Before(back) {
					passed++
				}
				return ok
			})
			if quota := float64(passed) / (10 * 300); quota < 0.95 {
				t.Errorf("%d a second for %v, latency %v: in the 10 s from %v after it %.1f %% of the quota were used, want 95 %%",
					row.passes, row.lasts, latency, row.back, 100*quota)
			}
		}
	}
}

// A page that is shut for hours, as by a quota of a day, is hardly asked, and is
// open again a tenth of that time later at most.
func TestWhileShutForLong(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	never := func(time.Time) bool { return false }
	saturate(m, begin(), 10*time.Second, 40*time.Millisecond, fixedWindow(300))
	saturate(m, at(10*time.Second), 15*time.Minute, 40*time.Millisecond, never)
	_, later := saturate(m, at(910*time.Second), 20*time.Minute, 40*time.Millisecond, never)
	if later < 14 || later > 25 {
		t.Errorf("refusals in 20 minutes later = %d, want one a minute", later)
	}
	accepted, _ := saturate(m, at(2110*time.Second), 90*time.Second, 40*time.Millisecond, fixedWindow(300))
	if accepted < 10*300/2 {
		t.Errorf("accepted in the 90 s after it opened = %d, want 1500 at least", accepted)
	}
}

// An idle page gets no credit beyond its burst; a sender that was late itself
// makes up for a tenth of a second.
func TestLateness(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		late time.Duration
		want int
	}{{0, 1}, {20 * time.Millisecond, 6}, {50 * time.Millisecond, 15}, {time.Second, 30}} {
		m := newMap(300)
		r := Request{Key: room, Since: begin()} // so that nothing goes ahead
		now := at(100 * time.Millisecond)
		take(m, now, r)
		now = now.Add(m.Offer(now, r).Wait + row.late)
		m.pages[room].began = now // still
		if n := len(take(m, now, r)); n != row.want {
			t.Errorf("at once when %v late = %d, want %d", row.late, n, row.want)
		}
	}
}

// After two refusals in a row one message probes, and no second one beside it.
func TestLoneProbe(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	r := Request{Key: room}
	now := begin()
	first := take(m, now, r)
	done(m, now, first[:2], Refused) // the second was under way already: says nothing new
	if d := m.ShutFor(now, room); d != 0 {
		t.Fatalf("ShutFor() after refusals that came together = %v, want 0", d)
	}
	done(m, now, first[2:], Other)
	now = now.Add(time.Second)
	next := take(m, now, r)
	if len(next) != 1 || next[0].Probe() {
		t.Fatalf("%d calls after the pause, want one that is no probe", len(next))
	}
	done(m, now, next, Refused)
	now = now.Add(time.Second)
	next = take(m, now, r)
	if len(next) != 1 || !next[0].Probe() {
		t.Fatalf("%d calls after two refusals in a row, want a lone probe", len(next))
	}
	if d := m.Offer(now, r); d.Wait <= 0 {
		t.Error("a second probe beside the first")
	}
	if d := m.Offer(now.Add(maxPause), r); d.Wait > 0 {
		t.Error("no further probe though the first is not answered for long")
	}
	done(m, now, next, Accepted)
	if d := m.ShutFor(now, room); d != 0 {
		t.Errorf("ShutFor() after a probe that passed = %v, want 0", d)
	}
}
