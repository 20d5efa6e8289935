package dispatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// The valve, told of calls at given times: for which pages it is shut then.
func TestValve(t *testing.T) {
	t.Parallel()
	type step struct {
		at    time.Duration
		times int // 0: once
		call  call
		ids   int // the messages that the calls are for, in turn; 0: one
		shut  string
	}
	const s = time.Second
	fail := func(page string) call { return call{page: page, how: apiFails, coded: true} }
	lost := func(page string) call { return call{page: page, how: apiFails} }
	sent := func(page string) call { return call{page: page} }
	probe := func(c call) call { c.probe = true; return c }
	throttled := call{page: "p", how: appThrottled}
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
			{0, 1, throttled, 0, "pqr"}, {2 * s, 1, probe(call{page: "p", how: noCall}), 0, "pqr"},
		}},
		{"no call is no answer", []step{{0, 29, fail("p"), 0, ""}, {0, 5, call{page: "q", how: noCall}, 0, ""}, {0, 1, fail("p"), 0, "p"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v := &valve{random: half}
			begin := time.Unix(1000, 0)
			for i, st := range tc.steps {
				for n := range max(1, st.times) {
					c := st.call
					c.id = fmt.Sprint(n % max(1, st.ids))
					v.result(begin.Add(st.at), c)
				}
				got := ""
				for _, page := range []string{"p", "q", "r"} {
					if v.shutLocked(page) {
						got += page
					}
				}
				if got != st.shut {
					t.Errorf("after step %d shut for %q, want %q", i, got, st.shut)
				}
			}
		})
	}
}

// A failed probe makes the wait longer, whatever shut the valve.
func TestProbeOfAThrottledAppThatFails(t *testing.T) {
	t.Parallel()
	v := &valve{random: half}
	now := time.Unix(1000, 0)
	v.result(now, call{page: "p", how: appThrottled})
	now = now.Add(time.Second)
	if wait, probe := v.enter(now, "p"); wait != 0 || !probe {
		t.Fatalf("enter() after a second = %v, %v, want a probe", wait, probe)
	}
	v.result(now, call{page: "p", how: apiFails, probe: true})
	if wait, _ := v.enter(now, "p"); wait < 2*time.Second {
		t.Errorf("enter() after a failed probe = %v, want 2 s or more", wait)
	}
}

// What a fault costs that was found without a call: nothing is learned from it.
func TestCalled(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		res  sender.Result
		want bool
	}{
		{sender.Result{Outcome: sender.Sent, Status: 200}, true},
		{sender.Result{Outcome: sender.Transient, Err: context.DeadlineExceeded}, true},
		{sender.Result{Outcome: sender.PageStopped, Status: 400, Code: 190}, true},
		{sender.Result{Outcome: sender.BadMessage, Status: 400, Code: 100}, true},
		{sender.Result{Outcome: sender.PageStopped, Err: sender.ErrNoToken}, false},
		{sender.Result{Outcome: sender.BadMessage, Err: errors.New("page is not a page id")}, false},
		{sender.Result{Outcome: sender.Canceled, Err: context.Canceled}, false},
	} {
		if got := called(tc.res); got != tc.want {
			t.Errorf("called(%+v) = %v, want %v", tc.res, got, tc.want)
		}
	}
}

// A message for which no call was made, because its page has no token, does not
// open the valve nor count as an answer.
func TestNoCallIsNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, callerFunc(func(_ context.Context, out message.Outbound) sender.Result {
			if out.Page != "p" {
				return sender.Result{Outcome: sender.PageStopped, Err: sender.ErrNoToken}
			}
			time.Sleep(40 * time.Millisecond)
			return sender.Result{Outcome: sender.Transient, Err: errors.New("connection refused")}
		}), nil)
		time.Sleep(3 * time.Second)
		for i := range 40 {
			r.publish(t, msg("p", fmt.Sprintf("u%d", i), i))
		}
		for i := range 200 { // a page each, so that none is stopped already
			time.Sleep(100 * time.Millisecond)
			r.publish(t, msg(fmt.Sprintf("q%d", i), "u", i))
			if i > 0 && r.Ready() == nil {
				t.Fatalf("Ready() after %d messages without a call = nil, want an error", i)
			}
		}
		r.stop(t)
	})
}

// An outage at low traffic uses up no message's attempts, and readiness says
// that there is one, though too few calls fail for a row of thirty.
func TestQuietOutageUsesUpNoAttempts(t *testing.T) {
	t.Parallel()
	for _, people := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d messages", people), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				a := callerFunc(func(context.Context, message.Outbound) sender.Result {
					time.Sleep(40 * time.Millisecond)
					if time.Since(begin) < 10*time.Minute {
						return sender.Result{Outcome: sender.Transient, Err: errors.New("connection refused")}
					}
					return sender.Result{Outcome: sender.Sent, Status: 200}
				})
				r := start(t, a, func(c *Config) { c.MaxAttempts, c.Random = 8, half })
				time.Sleep(3 * time.Second)
				for i := range people {
					r.publish(t, msg("p", fmt.Sprintf("u%d", i), i))
				}
				time.Sleep(9 * time.Minute)
				if r.Ready() == nil {
					t.Error("Ready() in an outage = nil, want an error")
				}
				time.Sleep(3 * time.Minute)
				if err := r.Ready(); err != nil {
					t.Errorf("Ready() after the outage = %v, want nil", err)
				}
				r.stop(t)
				if got := r.givenUpFor("stuck"); got != 0 {
					t.Errorf("lanes given up = %v, want 0: none was held", got)
				}
				if got := len(r.drain(t, "t.dead")); got != 0 {
					t.Errorf("dead letters = %d, want 0", got)
				}
			})
		})
	}
}

// The oldest message, whose own fault it is that it fails, does not keep the
// valve shut: the next probe is of another.
func TestProbeIsNotAlwaysTheSameMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		a := &api{latency: 40 * time.Millisecond}
		bad := msg("p", "bad", 0)
		a.answer = func(out message.Outbound, _ int) sender.Outcome {
			if out.ID == bad.ID || time.Since(begin) < time.Minute {
				return sender.Transient
			}
			return sender.Sent
		}
		r := start(t, a, nil)
		time.Sleep(3 * time.Second)
		r.publish(t, bad)
		for i := range 100 {
			r.publish(t, msg("p", fmt.Sprintf("u%d", i), i))
		}
		time.Sleep(4 * time.Minute)
		r.stop(t)
		if got := len(a.accepted()); got != 100 {
			t.Errorf("accepted = %d, want 100", got)
		}
	})
}

// A stopped page's probe that is answered about its recipient, or refused by a
// limit, shows that the page works.
func TestAnsweredProbeResumesThePage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		outcome sender.Outcome
		resumes bool
	}{
		{sender.Sent, true},
		{sender.RecipientGone, true},
		{sender.WindowClosed, true},
		{sender.PageThrottled, true},
		{sender.RecipientThrottled, true},
		{sender.BadMessage, false},
		{sender.Transient, false},
		{sender.PageStoppedForATime, false},
	} {
		t.Run(tc.outcome.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				outcome := sender.PageStopped
				a := &api{answer: func(message.Outbound, int) sender.Outcome { return outcome }}
				r := start(t, a, nil)
				r.publish(t, msg("p", "u", 1))
				time.Sleep(31 * time.Minute)
				synctest.Wait()
				outcome = tc.outcome
				r.publish(t, msg("p", "v", 2))
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				if got := r.stops.len() == 0; got != tc.resumes {
					t.Errorf("page resumed by a probe's %v = %v, want %v", tc.outcome, got, tc.resumes)
				}
				r.stop(t)
			})
		})
	}
}

// A page that nothing is sent to any more does not count as stopped for ever.
func TestStoppedPageWithoutMessagesIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{answer: func(message.Outbound, int) sender.Outcome { return sender.PageStopped }}
		r := start(t, a, nil)
		r.publish(t, msg("p", "u", 1))
		time.Sleep(4 * time.Hour)
		if got := r.stops.len(); got != 1 {
			t.Errorf("stopped pages after 4 h = %d, want 1", got)
		}
		time.Sleep(time.Hour)
		if got := r.stops.len(); got != 0 {
			t.Errorf("stopped pages after 5 h = %d, want 0", got)
		}
		r.stop(t)
	})
}
