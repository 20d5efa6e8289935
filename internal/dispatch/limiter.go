package dispatch

import (
	"fmt"
	"time"

	"chatclub/internal/aimd"
)

// minCalls is the fewest calls in flight that the limit is cut to. With fewer a
// page at its limit could not be served at any latency seen (300/s × 30 ms).
const minCalls = 8

// newLimiter bounds the calls in flight by most, and holds their latency's 95th
// percentile to target by having fewer; 0: most alone bounds them.
func newLimiter(most int, target time.Duration) (*aimd.Limiter, error) {
	l, err := aimd.New(aimd.Config{Min: min(minCalls, most), Max: most, Start: most, Target: target})
	if err != nil {
		return nil, fmt.Errorf("limit of calls in flight: %w", err)
	}
	return l, nil
}
