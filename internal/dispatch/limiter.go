package dispatch

import "time"

// limiter bounds the calls in flight.
type limiter interface {
	Limit() int
	Observe(now time.Time, latency time.Duration, inFlight int)
}

// fixed is a limiter that never changes.
type fixed int

// Limit implements limiter.
func (f fixed) Limit() int { return int(f) }

// Observe implements limiter.
func (fixed) Observe(time.Time, time.Duration, int) {}

func newLimiter(most int, _ time.Duration) limiter { return fixed(most) }
