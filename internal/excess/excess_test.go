package excess

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func half() float64 { return 0.5 }

func begin() time.Time { return time.Unix(1_000_000, 0) }

func at(d time.Duration) time.Time { return begin().Add(d) }

var room = Key{Page: "p", Class: "text"}

func newMap(limit float64) *Map {
	return New(Config{Limit: func(string) float64 { return limit }, Random: half})
}

// take is how many calls m allows at once.
func take(m *Map, now time.Time, r Request) (permits []Permit) {
	for {
		d := m.Offer(now, r)
		if d.Wait != 0 {
			return permits
		}
		permits = append(permits, d.Permit)
	}
}

// done tells the same result of all.
func done(m *Map, now time.Time, permits []Permit, r Result) {
	for _, p := range permits {
		m.Done(now, p, r)
	}
}

// What a page may send at once, after it sent all that it may at times before.
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
		{"all of a second at once", 300, time.Time{}, []time.Duration{0}, []int{294}},
		{"a small limit", 30, time.Time{}, []time.Duration{0}, []int{30}},
		{"a limit below one", 0.5, time.Time{}, []time.Duration{0, s, 2041 * ms}, []int{1, 0, 1}},
		{"then its pace", 300, time.Time{}, []time.Duration{0, 990 * ms, 1001 * ms}, []int{294, 0, 1}},
		{"then what the last second had not", 300, time.Time{}, []time.Duration{0, 1200 * ms}, []int{294, 294}},
		{"another's second is over", 300, at(0), []time.Duration{999 * ms, 1001 * ms}, []int{1, 293}},
		{"in another's second", 300, at(0), []time.Duration{10 * ms, 20 * ms, 30 * ms}, []int{1, 2, 3}},
		{"after forgetting", 300, time.Time{}, []time.Duration{0, 30 * s}, []int{294, 294}},
	} {
		m := newMap(row.limit)
		for i, d := range row.at {
			m.Sweep(at(d))
			permits := take(m, at(d), Request{Key: room, Since: row.since})
			if len(permits) != row.want[i] {
				t.Errorf("%s: at once at %v = %d, want %d", row.name, d, len(permits), row.want[i])
			}
			done(m, at(d), permits, Other)
		}
	}
}

// A wait that was over allows a call, and one that was not does not.
func TestWaitIsExact(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	now := begin()
	take(m, now, Request{Key: room})
	for range 1000 {
		d := m.Offer(now, Request{Key: room})
		if d.Wait == 0 {
			continue
		}
		if early := m.Offer(now.Add(d.Wait-time.Microsecond), Request{Key: room}); early.Wait == 0 {
			t.Fatalf("at %v a call is allowed before its wait of %v is over", now.Sub(begin()), d.Wait)
		}
		now = now.Add(d.Wait)
		if m.Offer(now, Request{Key: room}).Wait != 0 {
			t.Fatalf("at %v no call is allowed after the wait of %v", now.Sub(begin()), d.Wait)
		}
	}
}

// A page that is refused in a burst has shorter ones; others only when a second
// page agrees, and the first one still does.
func TestRefusedBursts(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	now := begin()
	refused := func(page string) int {
		r := Request{Key: Key{page, "text"}}
		now = now.Add(30 * time.Second)
		m.Done(now, m.Offer(now, r).Permit, Accepted)
		now = now.Add(2 * time.Second)
		permits := take(m, now, r)
		done(m, now, permits[:1], Accepted) // its pace is not to blame
		done(m, now, permits[1:], Refused)
		return len(permits)
	}
	fresh := func(page string) int {
		permits := take(m, now, Request{Key: Key{page, "text"}})
		done(m, now, permits, Other)
		return len(permits)
	}
	if n := refused("a"); n != 294 {
		t.Fatalf("first burst = %d, want 294", n)
	}
	if n := fresh("b"); n != 294 {
		t.Errorf("burst of another page after one page's refusals = %d, want 294", n)
	}
	if n := refused("c"); n != 294 {
		t.Errorf("burst of a third page = %d, want 294", n)
	}
	if n := refused("a"); n >= 294 {
		t.Errorf("second burst of the first page = %d, want fewer", n)
	}
	if n := fresh("d"); n >= 294 || n < 1 {
		t.Errorf("burst of another page after two pages' refusals = %d, want fewer than 294", n)
	}
}

// A refusal ends the page's bursts for ten seconds.
func TestNoBurstAfterARefusal(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	first := take(m, at(0), Request{Key: room})
	done(m, at(0), first[:293], Accepted)
	done(m, at(0), first[293:], Refused)
	for _, d := range []time.Duration{3 * time.Second, 9 * time.Second} {
		permits := take(m, at(d), Request{Key: room})
		if len(permits) > 30 {
			t.Errorf("at once %v after a refusal = %d, want no more than lateness explains, 30", d, len(permits))
		}
		done(m, at(d), permits, Accepted)
	}
	if n := len(take(m, at(11*time.Second), Request{Key: room})); n < 100 {
		t.Errorf("at once 11 s after a refusal = %d, want a burst", n)
	}
}

// A limit below the configured one is remembered for six hours.
func TestLearnedLimit(t *testing.T) {
	t.Parallel()
	learn := func() (*Map, time.Time) {
		m := newMap(300)
		saturate(m, begin(), 30*time.Second, 40*time.Millisecond, fixedWindow(50))
		return m, at(30 * time.Second)
	}
	m, now := learn()
	if n, _ := m.Len(); n != 1 {
		t.Fatalf("Len() = %d, want the page", n)
	}
	now = now.Add(5 * time.Hour)
	m.Sweep(now)
	if len(m.pages) != 0 || len(m.learned) != 1 {
		t.Fatalf("after five idle hours %d pages and %d limits are remembered, want 0 and 1", len(m.pages), len(m.learned))
	}
	accepted, refused := saturate(m, now, 10*time.Second, 40*time.Millisecond, fixedWindow(50))
	if refused > 20 || accepted < 430 {
		t.Errorf("after five hours: %d accepted and %d refused in 10 s at a real limit of 50, want 430 and at most 20", accepted, refused)
	}
	m, now = learn()
	m.Sweep(now.Add(20 * time.Second))
	m.Sweep(now.Add(20*time.Second + learnedTime + time.Second))
	if n, _ := m.Len(); n != 0 {
		t.Errorf("after more than six hours %d pages are remembered, want none", n)
	}
	m, now = learn()
	m.Forget(now, func(page string) bool { return page == "p" })
	if len(m.pages) != 0 || len(m.learned) != 1 {
		t.Errorf("after Forget %d pages and %d limits are remembered, want 0 and 1", len(m.pages), len(m.learned))
	}
}

// What calls came to that began before their page was given up says nothing of
// what it may send when it is taken over again, nor of others' bursts.
func TestForgottenCallsTeachNothing(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	all := func(string) bool { return true }
	pages := []Request{{Key: Key{"a", "text"}}, {Key: Key{"b", "text"}}}
	for _, r := range pages {
		before := take(m, at(2*time.Second), r)
		m.Forget(at(2*time.Second), all)
		m.Done(at(3*time.Second), m.Offer(at(3*time.Second), r).Permit, Accepted)
		done(m, at(3*time.Second), before, Refused)
	}
	for _, r := range append(pages, Request{Key: Key{"c", "text"}}) {
		if n := len(take(m, at(5*time.Second), r)); n != 294 {
			t.Errorf("page %s may send %d at once, want 294", r.Page, n)
		}
	}
	for _, r := range pages {
		if v := m.View(r.Key); v.Refused != 0 {
			t.Errorf("page %s was refused %d calls, want none", r.Page, v.Refused)
		}
	}
}

// A page that speaks now and then, at a real limit far below the configured one,
// is refused in its first events alone.
func TestRareEventsAtALowLimit(t *testing.T) {
	t.Parallel()
	m, admit := newMap(300), fixedWindow(50)
	now := begin()
	calls, refused := 0, 0
	for event := range 30 {
		todo := 99
		end := now.Add(20 * time.Second)
		type call struct {
			p  Permit
			ok bool
		}
		var flying []call
		for ; now.Before(end); now = now.Add(time.Millisecond) {
			for len(flying) > 0 && now.Sub(flying[0].p.at) >= 40*time.Millisecond {
				r := Accepted
				if !flying[0].ok {
					r = Refused
					todo++
				}
				m.Done(now, flying[0].p, r)
				flying = flying[1:]
			}
			for todo > 0 {
				d := m.Offer(now, Request{Key: room})
				if d.Wait != 0 {
					break
				}
				todo--
				ok := admit(now)
				flying = append(flying, call{d.Permit, ok})
				if event >= 3 {
					calls++
					if !ok {
						refused++
					}
				}
			}
		}
		if todo > 0 {
			t.Fatalf("event %d: %d of 99 not sent in 20 s", event, todo)
		}
		m.Sweep(now)
	}
	if 50*refused > calls {
		t.Errorf("after three events %d of %d calls were refused, want at most 2 %%", refused, calls)
	}
}

func TestExcessAndView(t *testing.T) {
	t.Parallel()
	m := newMap(300)
	a, b, c := Key{"a", "text"}, Key{"b", "text"}, Key{"c", "media"}
	m.Enter(at(0), a)
	m.Enter(at(time.Second), a) // is in excess already
	m.Enter(at(time.Second), c)
	permits := take(m, at(2*time.Second), Request{Key: b})
	done(m, at(2*time.Second), permits[:3], Refused)
	if !m.InExcess(a) || m.InExcess(b) || m.InExcess(Key{"d", "text"}) {
		t.Errorf("InExcess() = %v, %v, %v, want true, false, false", m.InExcess(a), m.InExcess(b), m.InExcess(Key{"d", "text"}))
	}
	if v := m.View(b); v.Refused != 3 || !v.Since.IsZero() || v.InFlight != len(permits)-3 || v.Pace >= 294 {
		t.Errorf("View(b) = %+v, want 3 refusals, no excess, %d in flight, slower than 294", v, len(permits)-3)
	}
	if v := m.View(a); !v.Since.Equal(at(0)) || v.Pace != 294 {
		t.Errorf("View(a) = %+v, want since 0, at 294/s", v)
	}
	if v := m.View(Key{"d", "text"}); v != (View{}) {
		t.Errorf("View of an unknown page = %+v, want nothing", v)
	}
	if all, excess := m.Len(); all != 3 || excess != 2 {
		t.Errorf("Len() = %d, %d, want 3 and 2", all, excess)
	}
	m.Sweep(at(time.Hour))
	if all, excess := m.Len(); excess != 2 || all < 2 {
		t.Errorf("Len() after an hour = %d, %d: what is in excess must stay", all, excess)
	}
	m.Leave(a)
	m.Leave(c)
	if m.InExcess(a) || m.InExcess(c) {
		t.Error("InExcess() after Leave = true")
	}
}

// ShutFor is the rest of the pause after refusals in a row.
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
	if longest == 0 || longest > 2*dayPause {
		t.Errorf("ShutFor() after half an hour = %v, want at most %v", longest, 2*dayPause)
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
				d := m.Offer(now, Request{Key: room, Since: since})
				if d.Wait > 0 {
					break
				}
				sent = append(sent, now)
				open = append(open, d.Permit)
			}
			for n := rapid.IntRange(0, len(open)).Draw(t, "landing"); n > 0; n-- {
				r := Accepted
				if rapid.IntRange(1, 20).Draw(t, "result") > ok {
					r = Refused
				}
				m.Done(now, open[0], r)
				open = open[1:]
			}
			if p := m.pages[room]; p != nil && (p.rate > reach*limit || p.rate < min(minPace, headroom*limit)) {
				t.Fatalf("rate = %v at a limit of %v", p.rate, limit)
			}
		}
		for _, d := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second} {
			bound := 0.993*limit*(d.Seconds()+0.1) + 1
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
				if d := m.Offer(now, Request{Key: k}); d.Wait == 0 {
					open = append(open, d.Permit)
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
		for _, d := range []time.Duration{time.Minute * 3, learnedTime + time.Minute*4} {
			m.Sweep(now.Add(d))
		}
		if all, excess := m.Len(); all != 0 || excess != 0 {
			t.Fatalf("Len() = %d, %d, want 0 and 0: %+v", all, excess, m.pages)
		}
	})
}
