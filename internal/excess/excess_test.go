package excess

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func begin() time.Time { return time.Unix(1_000_000, 0) }

func at(d time.Duration) time.Time { return begin().Add(d) }

var room = Key{Page: "p", Class: "text"}

func newMap(limit float64) *Map {
	return New(func(Key) float64 { return limit })
}

// take returns the calls that m allows at once, to a sender that is the only one for
// long.
func take(m *Map, now time.Time, k Key) (permits []Permit) { return takeSince(m, now, k, time.Time{}) }

func takeSince(m *Map, now time.Time, k Key, since time.Time) (permits []Permit) {
	for {
		wait, p := m.Offer(now, k, since)
		if wait != 0 {
			return permits
		}
		permits = append(permits, p)
	}
}

// done tells the same result of all.
func done(m *Map, now time.Time, permits []Permit, r Result) {
	for _, p := range permits {
		m.Done(now, p, r)
	}
}

// The calls that a page may send at once, after it sent all that it may at times before.
func TestBurst(t *testing.T) {
	t.Parallel()
	const s, ms = time.Second, time.Millisecond
	for _, row := range []struct {
		name  string
		limit float64
		since time.Time
		at    []time.Duration
		want  []int
	}{
		{"all of a second at once", 300, time.Time{}, []time.Duration{0}, []int{296}},
		{"a small limit", 30, time.Time{}, []time.Duration{0}, []int{30}},
		{"a limit below one", 0.5, time.Time{}, []time.Duration{0, s, 2031 * ms}, []int{1, 0, 1}},
		{"then its pace", 300, time.Time{}, []time.Duration{0, 1001 * ms, 1002 * ms}, []int{296, 0, 1}},
		{"then all that the last second had not", 300, time.Time{}, []time.Duration{0, 1200 * ms}, []int{296, 296}},
		{"another's second is over", 300, at(0), []time.Duration{999 * ms, 1051 * ms}, []int{1, 295}},
		{"in another's second", 300, at(0), []time.Duration{10 * ms, 20 * ms, 30 * ms}, []int{1, 2, 3}},
		{"after forgetting", 300, time.Time{}, []time.Duration{0, 30 * s}, []int{296, 296}},
	} {
		m := newMap(row.limit)
		for i, d := range row.at {
			m.Sweep(at(d))
			permits := takeSince(m, at(d), room, row.since)
			if len(permits) != row.want[i] {
				t.Errorf("%s: at once at %v = %d, want %d", row.name, d, len(permits), row.want[i])
			}
			done(m, at(d), permits, Other)
		}
	}
}

// A wait that is over allows a call, and an earlier moment does not.
func TestWaitIsExact(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	now := begin()
	take(m, now, room)
	for range 1000 {
		wait, _ := m.Offer(now, room, time.Time{})
		if wait == 0 {
			continue
		}
		if early, _ := m.Offer(now.Add(wait-time.Microsecond), room, time.Time{}); early == 0 {
			t.Fatalf("at %v a call is allowed before its wait of %v is over", now.Sub(begin()), wait)
		}
		now = now.Add(wait)
		if again, _ := m.Offer(now, room, time.Time{}); again != 0 {
			t.Fatalf("at %v no call is allowed after the wait of %v", now.Sub(begin()), wait)
		}
	}
}

// A page that is refused in a burst has shorter ones, as long as the part that passed.
// Accepted ones make them longer again. Other pages have theirs.
func TestRefusedBursts(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	permits := take(m, at(0), room)
	done(m, at(0), permits[:30], Accepted)
	done(m, at(0), permits[30:], Refused)
	if v := m.View(room); v.Pace != 0.985*300 {
		t.Errorf("pace after a refused burst = %v, want still %v", v.Pace, 0.985*300)
	}
	permits = take(m, at(3*time.Second), room)
	if n := len(permits); n < 28 || n > 30 {
		t.Errorf("at once after 30 of a burst had passed = %d, want no more than that", n)
	}
	done(m, at(3*time.Second), permits, Accepted)
	for s := 6 * time.Second; s < 300*time.Second; s += 3 * time.Second {
		done(m, at(s), take(m, at(s), room), Accepted)
	}
	if n := len(take(m, at(300*time.Second), room)); n < 60 {
		t.Errorf("at once after a hundred bursts that passed = %d, want at least 60", n)
	}
	if n := len(take(m, at(300*time.Second), Key{"other", "text"})); n != 296 {
		t.Errorf("burst of another page = %d, want 296", n)
	}
}

// A stray refusal of a page that was idle for long costs it a second, and not a part of that
// time: nobody asked for a call meanwhile.
func TestStrayRefusalAfterIdle(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	permits := take(m, at(0), room)
	done(m, at(0), permits[:30], Accepted)
	done(m, at(0), permits[30:], Refused) // so that the page is remembered
	for s := time.Second; s < 10*time.Minute; s += time.Second {
		m.Sweep(at(s))
	}
	_, p := m.Offer(at(10*time.Minute), room, time.Time{})
	m.Done(at(10*time.Minute), p, Refused)
	if wait, _ := m.Offer(at(10*time.Minute), room, time.Time{}); wait > 1100*time.Millisecond {
		t.Errorf("wait after a stray refusal = %v, want a second", wait)
	}
}

// A page whose limit was lowered by a refusal has no bursts.
func TestNoBurstAfterARefusal(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	saturate(m, begin(), 10*time.Second, 40*time.Millisecond, fixedWindow(150))
	for _, d := range []time.Duration{13 * time.Second, 19 * time.Second} {
		permits := take(m, at(d), room)
		if len(permits) > 4 {
			t.Errorf("at once at %v = %d, want no more than the tolerance of its pace", d, len(permits))
		}
		done(m, at(d), permits, Accepted)
	}
}

// A limit below the configured one is remembered for six hours, and by an owner that
// lost its page.
func TestLearnedLimit(t *testing.T) {
	t.Parallel()
	for _, forgets := range []bool{false, true} {
		m, now := newMap(300), at(30*time.Second)
		saturate(m, begin(), 30*time.Second, 40*time.Millisecond, fixedWindow(50))
		if forgets {
			m.Forget(now, func(page string) bool { return page == "p" })
		}
		now = now.Add(5 * time.Hour)
		m.Sweep(now)
		accepted, refused := saturate(m, now, 10*time.Second, 40*time.Millisecond, fixedWindow(50))
		if refused > 20 || accepted < 430 {
			t.Errorf("after five hours, forgotten %v: %d accepted and %d refused in 10 s at a real limit of 50, want 430 and at most 20",
				forgets, accepted, refused)
		}
		m.Sweep(now.Add(10*time.Second + 6*time.Hour + time.Second))
		if n, _ := m.Len(); n != 0 {
			t.Errorf("after more than six hours %d pages are remembered, want none", n)
		}
	}
}

// A call that began before its page was given up teaches nothing of a page that is
// taken over again.
func TestForgottenCallsTeachNothing(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	before := take(m, at(2*time.Second), room)
	m.Forget(at(2*time.Second), func(string) bool { return true })
	_, p := m.Offer(at(3*time.Second), room, time.Time{})
	m.Done(at(3*time.Second), p, Accepted)
	done(m, at(3*time.Second), before, Refused)
	if v := m.View(room); v.InFlight != 0 || v.Pace != 0.985*300 {
		t.Errorf("View() = %+v, want nothing in flight and the full pace", v)
	}
	if n := len(take(m, at(5*time.Second), room)); n != 296 {
		t.Errorf("the page may send %d at once, want 296", n)
	}
}

func TestExcessAndView(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	a, b, c := Key{"a", "text"}, Key{"b", "text"}, Key{"c", "media"}
	m.Enter(at(0), a)
	m.Enter(at(time.Second), a) // is in excess already
	m.Enter(at(time.Second), c)
	_, p := m.Offer(at(2*time.Second), b, time.Time{})
	permits := append(take(m, at(2*time.Second), b), p)
	m.Done(at(2*time.Second), p, Refused)
	done(m, at(2*time.Second), permits[:3], Other)
	if !m.InExcess(a) || m.InExcess(b) || m.InExcess(Key{"d", "text"}) {
		t.Errorf("InExcess() = %v, %v, %v, want true, false, false", m.InExcess(a), m.InExcess(b), m.InExcess(Key{"d", "text"}))
	}
	if v := m.View(b); !v.Since.IsZero() || v.InFlight != len(permits)-4 || v.Pace >= 0.985*300 {
		t.Errorf("View(b) = %+v, want no excess, %d in flight, slower than 295.5", v, len(permits)-4)
	}
	if v := m.View(a); !v.Since.Equal(at(0)) || v.Pace != 0.985*300 {
		t.Errorf("View(a) = %+v, want since 0, at 295.5/s", v)
	}
	if v := m.View(Key{"d", "text"}); v != (View{}) {
		t.Errorf("View of an unknown page = %+v, want nothing", v)
	}
	if all, excess := m.Len(); all != 3 || excess != 2 {
		t.Errorf("Len() = %d, %d, want 3 and 2", all, excess)
	}
	m.Sweep(at(time.Hour))
	if all, excess := m.Len(); excess != 2 || all < 2 {
		t.Errorf("Len() after an hour = %d, %d: pages in excess must stay", all, excess)
	}
	m.Forget(at(time.Hour), func(string) bool { return true })
	if all, excess := m.Len(); excess != 2 || all < 2 {
		t.Errorf("Len() after Forget = %d, %d: who gives pages up has left excess for them", all, excess)
	}
	m.Leave(a)
	m.Leave(c)
	if m.InExcess(a) || m.InExcess(c) {
		t.Error("InExcess() after Leave = true")
	}
}

// ShutFor is the rest of the pause of a closed page.
func TestShutFor(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	if d := m.ShutFor(begin(), room); d != 0 {
		t.Errorf("ShutFor() of a page that is not known = %v, want 0", d)
	}
	never := func(time.Time) bool { return false }
	saturate(m, begin(), time.Minute, 40*time.Millisecond, never)
	if d := m.ShutFor(at(time.Minute), room); d > 10*time.Second {
		t.Errorf("ShutFor() after a minute without a call = %v, want at most 10 s", d)
	}
	saturate(m, at(time.Minute), 30*time.Minute, 40*time.Millisecond, never)
	longest := time.Duration(0)
	for s := range 120 {
		longest = max(longest, m.ShutFor(at(30*time.Minute+time.Duration(s)*time.Second), room))
	}
	if longest == 0 || longest > 2*time.Minute {
		t.Errorf("ShutFor() after half an hour = %v, want at most two minutes", longest)
	}
}

// The bound of the package comment holds for any arrivals, results and lateness.
func TestBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]float64{1, 10, 30, 300}).Draw(t, "limit")
		m := newMap(limit)
		var sent []time.Time
		var open []Permit
		now := begin()
		since := time.Time{}
		if rapid.Bool().Draw(t, "new owner") {
			since = now
		}
		idle := rapid.SampledFrom([]int{20, 500, 3000}).Draw(t, "longest gap, ms")
		ok := rapid.IntRange(0, 20).Draw(t, "of 20 calls accepted")
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, idle).Draw(t, "ms")) * time.Millisecond)
			if rapid.IntRange(0, 50).Draw(t, "sweep") == 0 {
				m.Sweep(now)
			}
			for range rapid.IntRange(0, 400).Draw(t, "wanted") {
				wait, p := m.Offer(now, room, since)
				if wait > 0 {
					break
				}
				sent = append(sent, now)
				open = append(open, p)
			}
			for n := rapid.IntRange(0, len(open)).Draw(t, "landing"); n > 0; n-- {
				r := Accepted
				if rapid.IntRange(1, 20).Draw(t, "result") > ok {
					r = Refused
				}
				m.Done(now, open[0], r)
				open = open[1:]
			}
			if p := m.pages[room]; p != nil && (p.rate() > 0.985*limit || p.rate() < 0.49*min(1, limit) || p.inFlight != len(open)) {
				t.Fatalf("pace = %v at a limit of %v, %d calls in flight, want %d", p.rate(), limit, p.inFlight, len(open))
			}
		}
		for _, d := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second} {
			bound := max(0.985*limit*(d.Seconds()+0.015)+1, d.Seconds()*math.Ceil(0.985*limit))
			first := 0
			for i, last := range sent {
				for last.Sub(sent[first]) >= d {
					first++
				}
				if n := i - first + 1; float64(n) > bound {
					t.Fatalf("%d sends in %v from %v, want at most %.1f", n, d, sent[first].Sub(begin()), bound)
				}
			}
		}
	})
}

// Whatever happens, nothing is left once all calls have ended and time has passed.
func TestTheMapEmpties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMap(300)
		now := begin()
		var open []Permit
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			k := Key{fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "page")), "text"}
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				m.Enter(now, k)
			case 1:
				m.Leave(k)
			case 2:
				m.Sweep(now)
			case 3:
				m.Forget(now, func(page string) bool { return page == k.Page })
			default:
				if wait, p := m.Offer(now, k, time.Time{}); wait == 0 {
					open = append(open, p)
				}
			}
			if len(open) > 0 && rapid.Bool().Draw(t, "land") {
				m.Done(now, open[0], rapid.SampledFrom([]Result{Accepted, Refused, Other}).Draw(t, "result"))
				open = open[1:]
			}
		}
		done(m, now, open, Other)
		for i := range 6 {
			m.Leave(Key{fmt.Sprint(i), "text"})
		}
		for _, d := range []time.Duration{time.Minute * 3, 6*time.Hour + time.Minute*4} {
			m.Sweep(now.Add(d))
		}
		if all, excess := m.Len(); all != 0 || excess != 0 {
			t.Fatalf("Len() = %d, %d, want 0 and 0: %+v", all, excess, m.pages)
		}
	})
}

// A page's limit changes while it sends: a second later it sends at most as many as the
// new one in a second, and nearly as many.
func TestRelimit(t *testing.T) {
	t.Parallel()
	for _, to := range []float64{80, 600, 1} {
		limit := 300.0
		m := New(func(Key) float64 { return limit })
		var sent []time.Duration
		const length, change = 30 * time.Second, 10500 * time.Millisecond
		for d := time.Duration(0); d < length; d += time.Millisecond {
			if d == change {
				limit = to
				m.Relimit(at(d), room)
			}
			for _, p := range take(m, at(d), room) {
				m.Done(at(d), p, Accepted)
				sent = append(sent, d)
			}
		}
		after := 0
		for i, d := range sent {
			if d < change {
				continue
			}
			inSecond := 1
			for k := i - 1; k >= 0 && sent[k] > d-time.Second; k-- {
				inSecond++
			}
			if most := max(to, 300); float64(inSecond) > most || d > change+time.Second && float64(inSecond) > to {
				t.Fatalf("limit %v: %d calls in the second before %v", to, inSecond, d)
			}
			if d > change+2*time.Second {
				after++
			}
		}
		if rest := (length - change - 2*time.Second).Seconds(); float64(after) < 0.97*to*rest-to { // a burst may lie before it
			t.Errorf("limit %v: %d calls in the last %v s, want nearly all", to, after, rest)
		}
	}
}

// A limit below that which was ordered, once learned, is kept when the order changes.
func TestRelimitKeepsWhatWasLearned(t *testing.T) {
	t.Parallel()
	limit := 300.0
	m := New(func(Key) float64 { return limit })
	accepted, _ := saturate(m, begin(), 10*time.Second, 40*time.Millisecond, fixedWindow(100))
	limit = 400
	m.Relimit(at(10*time.Second), Key{Page: "p", Class: "text"})
	more, refused := saturate(m, at(10*time.Second), 10*time.Second, 40*time.Millisecond, fixedWindow(100))
	if accepted < 800 || more < 900 || refused > 60 {
		t.Errorf("accepted %d and %d, refused %d, want most of 1,000 each, and few refusals", accepted, more, refused)
	}
}

// A page that was sent nothing yet takes another limit, too.
func TestRelimitBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	limit := 300.0
	m := New(func(Key) float64 { return limit })
	m.Enter(begin(), room)
	limit = 10
	m.Relimit(begin(), room)
	if n := len(take(m, at(time.Second), room)); n != 10 {
		t.Errorf("%d calls at once, want 10", n)
	}
	if wait, _ := m.Offer(at(time.Second), room, time.Time{}); wait <= 0 || wait > 1100*time.Millisecond {
		t.Errorf("the next call waits %v, want some second", wait)
	}
}

// A page that is refused with a hint is sent nothing before, though older calls pass; then
// it goes on.
func TestHint(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	first := take(m, at(0), room)
	done(m, at(500*time.Millisecond), first, Accepted)
	calls := take(m, at(time.Second+100*time.Millisecond), room)
	old, refused := calls[0], calls[1]
	now := at(1200 * time.Millisecond)
	later := take(m, now, room)
	m.Done(now, refused, Refused)
	m.Hint(now, refused, 0, 20*time.Second)
	m.Done(now.Add(time.Millisecond), old, Accepted)
	done(m, now.Add(5*time.Second), later, Accepted)
	if d := m.ShutFor(now.Add(time.Second), room); refused.ahead || d > 0 && d < 18*time.Second {
		t.Errorf("ShutFor() = %v, want 19 s", d)
	}
	for s := 1; s < 20; s++ {
		if n := len(take(m, now.Add(time.Duration(s)*time.Second), room)); n != 0 {
			t.Fatalf("%d calls after %d s, want none for 20 s", n, s)
		}
	}
	probe := take(m, now.Add(20500*time.Millisecond), room)
	done(m, now.Add(20600*time.Millisecond), probe, Accepted)
	if n := len(take(m, now.Add(30*time.Second), room)); len(probe) == 0 || n == 0 {
		t.Errorf("%d calls at the hint's end and %d later, want some", len(probe), n)
	}
}

// A pause that the platform asks for is a minute at most, counted from the first refusal.
// Then one call asks, and nothing else is sent before its answer. After an answer that opens
// nothing the next call asks a tenth of the time later for which nothing passed. An operator
// ends the pause at once.
func TestHintIsBounded(t *testing.T) {
	t.Parallel()
	const s, hour = time.Second, time.Hour
	for _, row := range []struct {
		name   string
		pause  time.Duration // of the first refusal
		late   time.Duration // another call is refused then, with the same pause; 0: none
		ends   time.Duration // the operator ends it; 0: never
		result Result        // of the calls that ask, 700 ms later
		again  time.Duration // the pause of theirs
		want   []time.Duration
	}{
		{"short", 20 * s, 0, 0, Refused, 0, []time.Duration{20 * s, 23 * s, 26200 * time.Millisecond}},
		{"an hour, and then accepted", hour, 0, 0, Accepted, 0, []time.Duration{60 * s}},
		{"an hour each time", hour, 0, 0, Refused, hour, []time.Duration{60 * s, 120700 * time.Millisecond}},
		{"refused without a pause after it", hour, 0, 0, Refused, 0, []time.Duration{60 * s, 66900 * time.Millisecond}},
		{"no answer about the limit", hour, 0, 0, Other, 0, []time.Duration{60 * s, 66200 * time.Millisecond}},
		{"a call under way is refused later", hour, 9 * s, 0, Accepted, 0, []time.Duration{60 * s}},
		{"ended by an operator", hour, 0, 10 * s, Accepted, 0, []time.Duration{10 * s}},
		{"ended, and asked for again", hour, 0, 10 * s, Refused, hour, []time.Duration{10 * s, 70700 * time.Millisecond}},
		{"a second, and the answer comes late", s, 0, 0, Accepted, 0, []time.Duration{s}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := newMap(300)
			done(m, at(500*time.Millisecond), take(m, at(0), room), Accepted)
			under := take(m, at(1100*time.Millisecond), room)[:2]
			begin := at(1800 * time.Millisecond)
			m.Done(begin, under[0], Refused)
			if wait := m.Hint(begin, under[0], 0, row.pause); wait != min(row.pause, time.Minute) {
				t.Errorf("Hint() = %v, want %v and a minute at most", wait, row.pause)
			}
			var calls []time.Duration
			var asking []Permit
			for d := time.Duration(0); d < 130*s; d += 100 * time.Millisecond {
				now := begin.Add(d)
				if row.late > 0 && d == row.late {
					m.Done(now, under[1], Refused)
					m.Hint(now, under[1], 0, row.pause)
				}
				if row.ends > 0 && d == row.ends && (!m.EndHints(now, "p") || m.EndHints(now, "p") || m.View(room).Asked.After(now)) {
					t.Error("EndHints() does not say that the page waited, or the page still does")
				}
				if held := m.View(room).Asked.After(now); len(calls) == 0 && row.ends == 0 && held != (d < min(row.pause, time.Minute)) {
					t.Fatalf("the page waits as asked at %v: %t", d, held)
				}
				if len(asking) > 0 && now.Sub(asking[0].at) >= 700*time.Millisecond {
					m.Done(now, asking[0], row.result)
					m.Hint(now, asking[0], 0, row.again)
					asking = asking[1:]
					if row.result == Accepted {
						break
					}
				}
				for _, p := range take(m, now, room) {
					calls, asking = append(calls, d), append(asking, p)
				}
			}
			if n := len(row.want); len(calls) < n || !slices.Equal(calls[:n], row.want) || row.result == Accepted && len(calls) > n {
				t.Errorf("calls at %v, want %v", calls[:min(len(calls), n+1)], row.want)
			}
		})
	}
}

// Hints end for the page of the order, in each class, and a page without any goes on as it was.
func TestEndHintsOfOthers(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	if m.EndHints(at(0), "p") {
		t.Error("EndHints() of a page that is not known = true")
	}
	_, p := m.Offer(at(0), room, time.Time{})
	m.Done(at(time.Second), p, Accepted)
	_, p = m.Offer(at(2*time.Second), room, time.Time{})
	now := at(3 * time.Second)
	m.Done(now, p, Refused)
	shut := m.ShutFor(now, room)
	if m.EndHints(now, "p") || shut <= 0 || m.ShutFor(now, room) != shut {
		t.Errorf("EndHints() of a page that is closed without a hint changes its pause of %v", shut)
	}
	m.Hint(now, p, 0, time.Hour)
	if m.EndHints(now, "another") || m.ShutFor(now, room) != time.Minute {
		t.Errorf("ShutFor() after the order about another page = %v, want a minute", m.ShutFor(now, room))
	}
}
