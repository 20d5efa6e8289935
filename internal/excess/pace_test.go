package excess

import (
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
			wait, p := m.Offer(now, room, time.Time{})
			if wait > 0 {
				next = now.Add(max(wait, time.Millisecond)) // as timers are late
				break
			}
			flying = append(flying, call{p, admit(now)})
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

// A limit far below the configured one is found from nothing, and kept. Where answers
// are slow, or refused calls count, growth costs what is sent in an answer's time.
func TestRealLimit(t *testing.T) {
	t.Parallel()
	type bounds struct{ quota, refused float64 }
	for _, row := range []struct {
		truth             int
		latency           time.Duration
		usual, whereCount bounds // whereCount: refused calls count
	}{
		{10, 40 * time.Millisecond, bounds{0.8, 0.045}, bounds{0.3, 0.12}},
		{50, 40 * time.Millisecond, bounds{0.93, 0.02}, bounds{0.8, 0.05}},
		{150, 40 * time.Millisecond, bounds{0.94, 0.015}, bounds{0.85, 0.05}},
		{10, 700 * time.Millisecond, bounds{0.8, 0.04}, bounds{0.3, 0.12}},
		{50, 700 * time.Millisecond, bounds{0.93, 0.035}, bounds{0.7, 0.1}},
		{150, 700 * time.Millisecond, bounds{0.94, 0.035}, bounds{0.7, 0.1}},
	} {
		for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog, limit.TokenBucket} {
			if a == limit.TokenBucket && row.truth < 50 {
				continue // a bucket's savings let the pace grow
			}
			for _, counts := range []bool{false, true} {
				want := row.usual
				if counts {
					want = row.whereCount
				}
				quota, refused := keeps(t, limit.Config{Algorithm: a, Limit: row.truth, Burst: max(1, row.truth/10), CountRefused: counts}, row.latency)
				if quota < want.quota || refused > want.refused {
					t.Errorf("real limit %d, %s, refused calls count %v, latency %v: quota used %.1f %%, %.1f %% refused, want %.0f %% and %.1f %%",
						row.truth, a, counts, row.latency, 100*quota, 100*refused, 100*want.quota, 100*want.refused)
				}
			}
		}
	}
}

// keeps returns the used share of a limit that is not the configured one of 300, from
// 20 s on, and the refused calls for each accepted one, in five phases of the limiter's
// window.
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
		m := newMap(300)
		saturate(m, begin(), 20*time.Second, latency, l.Allow)
		ok, no := saturate(m, at(20*time.Second), 2*time.Minute, latency, l.Allow)
		accepted, refusals = accepted+ok, refusals+no
	}
	return float64(accepted) / (runs * 120 * float64(c.Limit)), float64(refusals) / float64(accepted)
}

// An outage's lower pace is not remembered once the page is idle.
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
		m.Offer(at(time.Minute), room, time.Time{})
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

// A bucket that saved a whole second's calls lets the pace grow far beyond its limit.
// That must not make it grow as fast every time.
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
	wait, p := m.Offer(at(12*time.Second), room, time.Time{})
	if wait > 0 {
		t.Fatalf("a call after two idle seconds waits %v", wait)
	}
	saturate(m, at(12*time.Second), 10*time.Second, 40*time.Millisecond, fixedWindow(150))
	before := m.pages[room].pace
	m.Done(at(22*time.Second), p, Refused)
	if after := m.pages[room].pace; after.limit < before.limit || after.rate() < before.rate() {
		t.Errorf("limit after the refusal of a call from 10 s before = %.1f, want still %.1f", after.limit, before.limit)
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
		{1, time.Minute, 45 * time.Second},
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

// An idle page gets no credit beyond its burst; a sender that was late itself makes up
// for the tolerance.
func TestLateness(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		late time.Duration
		want int
	}{{0, 1}, {3 * time.Millisecond, 1}, {10 * time.Millisecond, 3}, {15 * time.Millisecond, 5}, {100 * time.Millisecond, 5}} {
		m := newMap(300)
		now := at(100 * time.Millisecond) // in another's second, so that nothing goes ahead
		takeSince(m, now, room, begin())
		wait, _ := m.Offer(now, room, begin())
		now = now.Add(wait + row.late)
		if n := len(takeSince(m, now, room, begin())); n != row.want {
			t.Errorf("at once when %v late = %d, want %d", row.late, n, row.want)
		}
	}
}

// The calls of a closed page come a tenth of its time apart, and the first one that
// passes opens it, whatever comes of those that were sent before.
func TestClosedPage(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	_, first := m.Offer(at(0), room, time.Time{})
	rest := take(m, at(0), room)
	m.Done(at(40*time.Millisecond), first, Refused)
	if m.pages[room].open() {
		t.Fatal("the page is open after a refusal of its pace")
	}
	done(m, at(40*time.Millisecond), rest, Other)
	next := take(m, at(20*time.Second), room)
	if len(next) != 1 || !next[0].Probe() {
		t.Fatalf("%d calls after 20 s in which nothing passed, want one, which is a probe", len(next))
	}
	if wait, _ := m.Offer(at(20*time.Second), room, time.Time{}); wait < 1900*time.Millisecond || wait > 2*time.Second {
		t.Errorf("wait beside a probe that is not answered = %v, want a tenth of 20 s", wait)
	}
	m.Done(at(20*time.Second+40*time.Millisecond), next[0], Accepted)
	if d := m.ShutFor(at(20*time.Second+40*time.Millisecond), room); d != 0 || !m.pages[room].open() {
		t.Errorf("ShutFor() after a probe that passed = %v, open %v, want 0 and true", d, m.pages[room].open())
	}
	if wait, p := m.Offer(at(21*time.Second), room, time.Time{}); wait != 0 || p.Probe() {
		t.Errorf("the next call a second later waits %v and is a probe: %v, want neither", wait, p.Probe())
	}
}

// The curve begins below the limit, reaches it after more than a second, and its double
// after 3.2 s more. After a dear refusal it is slower past the limit, not below it.
func TestCurve(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		cost  float64
		after time.Duration
		want  float64
	}{
		{0, 0, 98.5},
		{0, 1120 * time.Millisecond, 100},
		{0, 4320 * time.Millisecond, 200},
		{20, 6750 * time.Millisecond, 200}, // a fifth of the limit's calls: 5 s in place of 3.2
		{1000, 27 * time.Second, 200},      // 20 s at most
	} {
		p := pace{top: 1000, limit: 100, cost: row.cost}
		p.restart()
		for range row.after / time.Millisecond {
			p.grow(time.Millisecond)
		}
		if got := p.rate(); got < row.want-0.5 || got > row.want+0.5 {
			t.Errorf("pace %v after a refusal of %v calls = %.2f, want %.1f", row.after, row.cost, got, row.want)
		}
	}
}
