package dispatch

import (
	"slices"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// Answers pass the copies of their page, wherever these wait: here, or in a lane
// that holds more than a dispatcher does. What one person gets keeps its order,
// among answers and among copies.
func TestAnswersPassCopies(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{DefaultPrefetch, 64} { // held here; in a lane
		inBubble(t, 1, func(c *Config) { c.Prefetch, c.LanePrefetch, c.JoinTexts = prefetch, MinLanePrefetch, 1 }, func(t *testing.T, r *rig) {
			r.limits = func(string, message.Class) int { return 300 }
			for range 20 { // seven seconds
				r.text("page0", guests("u", 100)...)
			}
			r.sleep(time.Second)
			var ids []string
			for range 3 { // to people with copies, and to one without
				ids = append(ids, r.answerTo("page0", "u-1", "u-99", "new")...)
				r.sleep(200 * time.Millisecond)
			}
			r.with(func() {
				for _, id := range ids {
					if n := r.accepted[id]; n != 1 {
						t.Errorf("prefetch %d: answer %s was accepted %d times before the copies that wait, want once", prefetch, id, n)
					}
				}
				if len(r.order) > 1000 {
					t.Errorf("prefetch %d: %d messages were accepted, want that most wait", prefetch, len(r.order))
				}
			})
			r.sleep(time.Minute)
			r.checkSentOnce()
		})
	}
}

// The answers of a page that takes no calls leave the partition's room to its
// neighbours, and keep their order.
func TestAnswersOfASickPageHoldUpNobody(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		pages := r.peers(2)
		shut, cold := pages[0], pages[1]
		open := false
		r.script(func(o message.Outbound, _ int) sender.Result {
			if o.Page == shut && !open {
				return fail(sender.PageThrottled)
			}
			return sender.Result{}
		})
		for range 40 {
			r.answerTo(shut, guests("a", 10)...)
		}
		r.sleep(10 * time.Second)
		every(100*time.Millisecond, 5*time.Second, func(i int) { r.text(cold, guests("c", 20)[i%20]) })
		r.sleep(time.Second)
		waits := r.waits(cold)
		if len(waits) != 50 || quantile(waits, 1) > 100*time.Millisecond {
			t.Errorf("%d of 50 messages of a neighbour were accepted, the last after %v, want all at once", len(waits), slices.Max(append(waits, 0)))
		}
		r.with(func() { open = true })
		r.sleep(10 * time.Minute)
		r.checkSentOnce()
	})
}
