package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// While every call is taken, a page with a thousand messages and one with a
// single message take turns.
func TestPagesTakeTurnsWhenEveryCallIsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 100 * time.Millisecond}
		r := start(t, a, func(c *Config) { c.MaxInFlight, c.Prefetch = 2, 2000 })
		for i := range 1000 {
			r.publish(t, msg("busy", fmt.Sprintf("u%d", i), i))
		}
		time.Sleep(5*time.Second + 50*time.Millisecond)
		quiet := msg("quiet", "q", 0)
		r.publish(t, quiet)
		time.Sleep(250 * time.Millisecond) // the call that ends first, and its own
		synctest.Wait()
		if got := a.callsFor(quiet.ID); got != 1 {
			t.Errorf("calls for the quiet page's message = %d, want 1", got)
		}
		time.Sleep(time.Minute)
		r.stop(t)
		if got := len(a.accepted()); got != 1001 {
			t.Errorf("accepted = %d, want 1001", got)
		}
	})
}
