package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/excess"
)

// newAlone runs a dispatcher that is alone and whose bursts are allowed.
func newAlone(t *testing.T, a *api) *rig {
	t.Helper()
	r := start(t, a, func(c *Config) {
		c.Gate = excess.New(excess.Config{Limit: func(string) float64 { return 300 }, LaneHold: 512}, time.Now())
		c.Prefetch, c.MaxInFlight = 1024, 4096
	})
	time.Sleep(time.Second)
	return r
}

// crowd publishes n messages of a page to as many people.
func (r *rig) crowd(t *testing.T, page string, n int) {
	t.Helper()
	for i := range n {
		r.publish(t, msg(page, fmt.Sprintf("%s%d", page, i), i))
	}
}

// A page that is ahead of its limit by less than a second's worth waits in the
// hands of a replica that is alone, and not in its lane; but no more of it than
// is left for other pages: a quarter of the prefetch of 1,024.
func TestAloneKeepsWhatWaitsShortly(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		messages, overflowed int
	}{{294 + 250, 0}, {294 + 280, 1}} {
		synctest.Test(t, func(t *testing.T) {
			a := &api{latency: 10 * time.Millisecond}
			r := newAlone(t, a)
			r.crowd(t, "p", row.messages)
			time.Sleep(3 * time.Second)
			if got := testutil.ToFloat64(r.metrics.overflowed); min(got, 1) != float64(row.overflowed) {
				t.Errorf("%d at once: overflowed = %v, want some: %v", row.messages, got, row.overflowed > 0)
			}
			if got := len(a.accepted()); got != row.messages {
				t.Errorf("%d at once: accepted after 3 s = %d, want all", row.messages, got)
			}
			r.stop(t)
		})
	}
}

// However many pages wait, the deliveries that a dispatcher may hold are never
// used up by them: another page's message comes at once.
func TestWhatWaitsLeavesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 10 * time.Millisecond}
		r := newAlone(t, a)
		for i := range 8 {
			r.crowd(t, fmt.Sprintf("hot%d", i), 294+200)
		}
		time.Sleep(40 * time.Millisecond)
		if got := testutil.ToFloat64(r.metrics.waiting); got > 512+1 {
			t.Errorf("messages that wait = %v, want at most half the prefetch of 1,024, and one", got)
		}
		before := len(a.accepted())
		r.publish(t, msg("cold", "c", 0))
		time.Sleep(10*time.Millisecond + time.Microsecond)
		all := a.accepted()
		found := false
		for _, id := range all[before:] {
			found = found || id == msg("cold", "c", 0).ID
		}
		if !found {
			t.Error("another page's message was not sent at once")
		}
		time.Sleep(time.Minute)
		r.stop(t)
		if got := len(a.accepted()); got != 8*494+1 {
			t.Errorf("accepted = %d, want %d", got, 8*494+1)
		}
	})
}
