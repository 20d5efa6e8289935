package dispatch

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// When Meta blocks a page it tells core by a policy_enforcement event, and
// refuses every send. The dispatchers need no word of the first: each learns
// of the block from its own next call, and makes none for half an hour then.
// Other pages are sent to as before, and nothing gets lost.
func TestBlockedPageStopsOnEveryReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const replicas = 4
		b := newBroker(t, 1)
		var blocked atomic.Bool
		var refused atomic.Int64
		a := &api{latency: 40 * time.Millisecond}
		a.answer = func(out message.Outbound, _ int) sender.Outcome {
			if out.Page == "p" && blocked.Load() {
				refused.Add(1)
				return sender.PageStoppedForATime
			}
			return sender.Sent
		}
		var rigs []*rig
		for range replicas {
			rigs = append(rigs, startOn(t, b, a, nil))
		}
		time.Sleep(3 * time.Second)
		for i := range 400 { // for 20 s, blocked after 5; three messages at a time, so that each replica gets some of both pages
			if i == 100 {
				blocked.Store(true)
			}
			rigs[0].publish(t, msg("p", fmt.Sprintf("u%d", i), i), msg("q", fmt.Sprintf("u%d", i), i), msg("q", fmt.Sprintf("v%d", i), i))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		// One call in flight when the block came, one of each replica to learn of it.
		if got := refused.Load(); got < replicas || got > replicas+1 {
			t.Errorf("calls refused because the page is blocked = %d, want %d or %d", got, replicas, replicas+1)
		}
		dead := 0.0
		for i, r := range rigs {
			if got := testutil.ToFloat64(r.metrics.dead.WithLabelValues(string(message.ReasonPageStopped))); got == 0 {
				t.Errorf("replica %d has stopped no message", i)
			} else {
				dead += got
			}
			r.stop(t)
		}
		if got := len(a.accepted()) + int(dead); got != 1200 {
			t.Errorf("sent %d and dead %g of 1200", len(a.accepted()), dead)
		}
		if got := len(a.accepted()); got < 800+98 {
			t.Errorf("sent = %d, want all 800 of the other page and those from before the block", got)
		}
	})
}
