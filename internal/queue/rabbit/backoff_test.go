package rabbit

import (
	"testing"
	"time"
)

func TestPauseAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		failures int
		low, top time.Duration
	}{
		{1, 100 * time.Millisecond, 200 * time.Millisecond},
		{2, 200 * time.Millisecond, 400 * time.Millisecond},
		{4, 800 * time.Millisecond, 1600 * time.Millisecond},
		{5, time.Second, 2 * time.Second},
		{6, time.Second, 2 * time.Second},
		{1 << 40, time.Second, 2 * time.Second},
	} {
		seen := make(map[time.Duration]bool)
		for range 100 {
			d := pauseAfter(c.failures)
			if d < c.low || d > c.top {
				t.Errorf("pauseAfter(%d) = %s, want %s to %s", c.failures, d, c.low, c.top)
			}
			seen[d] = true
		}
		if len(seen) < 50 {
			t.Errorf("pauseAfter(%d) gave %d different pauses in 100, want them spread", c.failures, len(seen))
		}
	}
}
