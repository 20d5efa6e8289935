// Package wait waits in a way that a context can end.
package wait

import (
	"context"
	"time"
)

// For waits for d, and tells whether it waited to the end rather than to ctx's.
// A context that has ended is waited for by nobody, whatever d is.
func For(ctx context.Context, d time.Duration) bool {
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
