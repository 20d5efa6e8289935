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
// close the breaker nor count as an answer.
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
// breaker open: the next probe is of another.
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

// A suspended page's probe that is answered about its recipient, or refused by a
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
				if got := r.suspended.len() == 0; got != tc.resumes {
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
		if testing.Short() { // as if it had been suspended five hours ago; make test-long lives through them
			now := time.Now()
			r.suspended.suspend("old", "190", now.Add(-minProbe-forgetSuspended-time.Second))
			r.suspended.suspend("new", "190", now.Add(-minProbe-forgetSuspended+time.Minute))
			time.Sleep(2 * time.Second)
			if left := r.suspended.list(2); len(left) != 1 || left[0].Page != "new" {
				t.Errorf("suspended pages = %v, want the new one", left)
			}
			r.stop(t)
			return
		}
		r.publish(t, msg("p", "u", 1))
		time.Sleep(4 * time.Hour)
		if got := r.suspended.len(); got != 1 {
			t.Errorf("suspended pages after 4 h = %d, want 1", got)
		}
		time.Sleep(time.Hour)
		if got := r.suspended.len(); got != 0 {
			t.Errorf("suspended pages after 5 h = %d, want 0", got)
		}
		r.stop(t)
	})
}
