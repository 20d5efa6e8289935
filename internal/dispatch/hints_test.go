package dispatch

import (
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/sender"
)

// A page whose limit asks for an hour's pause waits a minute, and then for one call's answer.
// The log says so once a minute, and GET /pages until when. An order ends the wait, and
// nothing that was learned about the limit.
func TestHintHoldsAPage(t *testing.T) {
	t.Parallel()
	const gap = 2 * time.Second // between events
	for _, row := range []struct {
		name     string
		refusals int           // calls that are refused with the hint, one after another
		resume   int           // the event before which an order ends the wait; 0: none
		within   time.Duration // of the first refusal a call is accepted again
		warnings int
	}{
		{"once", 1, 0, 61 * time.Second, 1},
		{"resumed", 1, 5, 11*time.Second + 100*time.Millisecond, 1},
		{"resumed, and refused again", 2, 5, 72 * time.Second, 1},
		{"five times", 5, 0, 301 * time.Second, 5},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var log logged
			inBubble(t, 1, func(c *Config) { c.Log = log.log() }, func(t *testing.T, r *rig) {
				left, last := row.refusals, time.Time{}
				r.script(func(message.Outbound, int) sender.Result {
					if left == 0 || time.Since(last) < gap { // of several calls at once it is the first
						return sender.Result{}
					}
					left, last = left-1, time.Now()
					hinted := fail(sender.PageThrottled)
					hinted.RetryAfter = time.Hour
					return hinted
				})
				r.text("page0", guests("u", 30)...)
				r.sleep(time.Second)
				refused := r.callsOf("page0")[0].at
				s, err := r.only().status(t.Context())
				if err != nil || len(s.Pages) != 1 || s.Pages[0].HintUntil == nil {
					t.Fatalf("status = %+v, %v, want one page that waits", s, err)
				}
				if held := s.Pages[0].HintUntil.Sub(refused); held < time.Minute || held > time.Minute+time.Second {
					t.Errorf("hint_until is %v after the refused call, want a minute", held)
				}
				for i := range 150 {
					if i > 0 && i == row.resume {
						r.give(orders.Resume, "page0", nil)
					}
					r.text("page0", guests("u", 30)...)
					r.sleep(gap)
				}
				if s, err = r.only().status(t.Context()); err != nil || len(s.Pages) != 1 || s.Pages[0].HintUntil != nil {
					t.Errorf("status = %+v, %v, want one page that does not wait", s, err)
				}
				r.sleep(time.Minute)
				r.checkSentOnce()
				var again time.Duration
				held := 0 // calls between the refusal's second and the accepted one
				for _, c := range r.callsOf("page0") {
					since := c.at.Sub(refused)
					if c.result.Outcome == sender.Sent && since > time.Second {
						again = since
						break
					}
					if since > time.Second {
						held++
					}
				}
				if again == 0 || again > row.within || held != row.refusals-1 {
					t.Errorf("accepted again %v after the refusal, after %d other calls, want within %v and after %d", again, held, row.within, row.refusals-1)
				}
				if n := len(log.with("level=WARN", "page waits as the platform asked", "page=page0", "class=text", "until=")); n != row.warnings {
					t.Errorf("%d lines of the log say that the page waits, want %d", n, row.warnings)
				}
			})
		})
	}
}
