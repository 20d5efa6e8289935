package dispatch

import (
	"testing"
	"time"

	"chatclub/internal/message"
)

// TestSinceTurn: an engine that stands still is seen, and a well one makes a turn every two
// seconds, whether there is anything to do or not.
func TestSinceTurn(t *testing.T) {
	t.Parallel()
	var block chan struct{}
	change := func(c *Config) {
		block = make(chan struct{})
		c.Limits = func(page string) message.Limits {
			if page == "stuck" {
				<-block
			}
			return message.Limits{Text: 300, Media: 10}
		}
	}
	inBubble(t, 1, change, func(t *testing.T, r *rig) {
		d := r.replicas[0]
		for range 20 {
			r.sleep(700 * time.Millisecond)
			if got := d.SinceTurn(); got > lookEvery {
				t.Errorf("SinceTurn() of an idle engine = %v, want %v at most", got, lookEvery)
			}
		}
		r.text("stuck", "1")
		r.sleep(time.Minute)
		if got := d.SinceTurn(); got < time.Minute-lookEvery {
			t.Errorf("SinceTurn() of an engine that stands still = %v, want a minute", got)
		}
		close(block)
		r.sleep(lookEvery)
		if got := d.SinceTurn(); got > lookEvery {
			t.Errorf("SinceTurn() of an engine that goes on = %v, want %v at most", got, lookEvery)
		}
		r.stop(d)
		if got := d.SinceTurn(); got != 0 {
			t.Errorf("SinceTurn() after the end = %v, want 0", got)
		}
	})
}
