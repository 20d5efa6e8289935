package backoff

import (
	"context"
	"time"
)

// Sleep waits for d and reports whether it did so to the end. It returns false
// as soon as ctx ends, and at once when ctx has ended before, whatever d is.
func Sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil || d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
