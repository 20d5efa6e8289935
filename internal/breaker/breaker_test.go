package breaker

import (
	"fmt"
	"testing"
	"time"
)

func half() float64 { return 0.5 }

// The breaker, told of calls at given times: for which pages it is open then.
func TestBreaker(t *testing.T) {
	t.Parallel()
	type step struct {
		at    time.Duration
		times int // 0: once
		call  Call
		ids   int // the messages that the calls are for, in turn; 0: one
		open  string
	}
	const s = time.Second
	fail := func(page string) Call { return Call{Page: page, Verdict: Fails, Coded: true} }
	lost := func(page string) Call { return Call{Page: page, Verdict: Fails} }
	sent := func(page string) Call { return Call{Page: page} }
	probe := func(c Call) Call { c.Probe = true; return c }
	throttled := Call{Page: "p", Verdict: Throttled}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"many failures of two pages", []step{{0, 28, fail("p"), 0, ""}, {0, 1, fail("q"), 0, ""}, {0, 1, fail("p"), 0, "pqr"}}},
		{"many failures of one page, no other called", []step{{0, 29, fail("p"), 0, ""}, {0, 1, fail("p"), 0, "p"}}},
		{"many failures of one page, another is answered", []step{
			{0, 1, sent("q"), 0, ""}, {s, 1000, fail("p"), 9, ""}, {4 * s, 1, sent("q"), 0, ""}, {8 * s, 1000, fail("p"), 9, ""},
		}},
		{"of one page, then another page fails", []step{{0, 30, fail("p"), 0, "p"}, {s, 1, fail("q"), 0, "pqr"}}},
		{"of one page, then another page is answered", []step{{0, 30, fail("p"), 0, "p"}, {s, 1, sent("q"), 0, ""}}},
		{"few failures for 5 s of two messages", []step{{0, 2, fail("p"), 2, ""}, {4 * s, 1, fail("p"), 0, ""}, {5 * s, 1, fail("p"), 0, "p"}}},
		{"few failures for 5 s of one message", []step{{0, 1, fail("p"), 0, ""}, {6 * s, 1, fail("p"), 0, ""}, {12 * s, 9, fail("p"), 0, ""}}},
		{"no answer for 5 s to one message", []step{{0, 1, lost("p"), 0, ""}, {10 * s, 1, lost("p"), 0, "p"}}},
		{"failures far apart", []step{{0, 1, lost("p"), 0, ""}, {90 * s, 1, lost("p"), 0, ""}, {180 * s, 1, lost("q"), 0, ""}}},
		{"an answer in between", []step{{0, 29, fail("p"), 2, ""}, {0, 1, sent("q"), 0, ""}, {0, 29, fail("q"), 2, ""}}},
		{"a throttled app", []step{{0, 1, throttled, 0, "pqr"}, {s, 1, sent("p"), 0, "pqr"}, {2 * s, 1, probe(sent("p")), 0, ""}}},
		{"a call from before an outage is answered", []step{
			{0, 30, fail("p"), 0, "p"}, {0, 1, fail("q"), 0, "pqr"}, {s, 1, sent("r"), 0, "pqr"}, {2 * s, 1, probe(sent("r")), 0, ""},
		}},
		{"the probe found that there was no call to make", []step{
			{0, 1, throttled, 0, "pqr"}, {2 * s, 1, probe(Call{Page: "p", Verdict: NoCall}), 0, "pqr"},
		}},
		{"no call is no answer", []step{{0, 29, fail("p"), 0, ""}, {0, 5, Call{Page: "q", Verdict: NoCall}, 0, ""}, {0, 1, fail("p"), 0, "p"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := New(half)
			begin := time.Unix(1000, 0)
			for i, st := range tc.steps {
				for n := range max(1, st.times) {
					c := st.call
					c.ID = fmt.Sprint(n % max(1, st.ids))
					b.Observe(begin.Add(st.at), c)
				}
				got := ""
				for _, page := range []string{"p", "q", "r"} {
					if b.isOpenLocked(page) {
						got += page
					}
				}
				if got != st.open {
					t.Errorf("after step %d open for %q, want %q", i, got, st.open)
				}
			}
		})
	}
}

// A failed probe makes the wait longer, whatever opened the breaker.
func TestProbeOfAThrottledAppThatFails(t *testing.T) {
	t.Parallel()
	b := New(half)
	now := time.Unix(1000, 0)
	b.Observe(now, Call{Page: "p", Verdict: Throttled})
	now = now.Add(time.Second)
	if wait, probe := b.Acquire(now, "p"); wait != 0 || !probe {
		t.Fatalf("Acquire() after a second = %v, %v, want a probe", wait, probe)
	}
	b.Observe(now, Call{Page: "p", Verdict: Fails, Probe: true})
	if wait, _ := b.Acquire(now, "p"); wait < 2*time.Second {
		t.Errorf("Acquire() after a failed probe = %v, want 2 s or more", wait)
	}
}
