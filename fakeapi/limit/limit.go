// Package limit holds the five usual rate-limiting algorithms in their exact
// textbook form. Time is a parameter, so a limiter's answers depend on nothing
// but the times at which it was asked. The same sequence of times always gets
// the same answers: in a test, under virtual time and in a server.
//
// All of them count in whole microseconds. A time before the latest one seen
// is taken as that latest one. No limiter is safe for concurrent use: the
// caller's lock guards it.
package limit

import (
	"errors"
	"fmt"
	"time"
)

// Algorithm names a rule.
type Algorithm string

// The algorithms. Which one the real platform uses is not published.
const (
	FixedWindow   Algorithm = "fixed-window"
	SlidingWindow Algorithm = "sliding-window"
	SlidingLog    Algorithm = "sliding-log"
	TokenBucket   Algorithm = "token-bucket"
	LeakyBucket   Algorithm = "leaky-bucket"
)

// Algorithms lists every Algorithm.
func Algorithms() []Algorithm {
	return []Algorithm{FixedWindow, SlidingWindow, SlidingLog, TokenBucket, LeakyBucket}
}

// Limiter decides call by call.
type Limiter interface {
	// Allow asks for one call at now and counts it.
	Allow(now time.Time) bool
	// Usage returns the share of the limit that is taken at now. At 1 or more
	// the next call is refused. It changes nothing.
	Usage(now time.Time) float64
	// Wait returns how long after now a call is admitted if none comes between,
	// 0 when it is admitted now. It changes nothing.
	Wait(now time.Time) time.Duration
	// SetLimit changes the limit from now on. Calls counted so far stay counted.
	SetLimit(now time.Time, limit int)
}

// Config describes a limiter. The zero value is not useful: Algorithm and
// Limit must be set.
type Config struct {
	Algorithm Algorithm
	Limit     int           // calls per Window, at least 1
	Window    time.Duration // default 1 s, at least 1 ms, at most 48 h
	// Burst is the number of calls that a bucket admits at once. Default: Limit for
	// TokenBucket, a tenth of Limit for LeakyBucket, whose purpose is an even flow. The
	// windows and the log ignore it: their burst is Limit.
	Burst int
	// Phase shifts where FixedWindow and SlidingWindow windows begin: at whole
	// multiples of Window since the Unix epoch, plus Phase.
	Phase time.Duration
	// CountRefused makes refused calls count too, so that a caller who does not
	// slow down stays refused. It does not change FixedWindow, because a refused
	// call can only fill a window that is full.
	CountRefused bool
}

// maxLimit keeps limit × window (µs, at most 1.7e11) within an int64.
const maxLimit = 10_000_000

// Validate returns an error that names every fault of c.
func (c Config) Validate() error {
	var faults []error
	known := false
	for _, a := range Algorithms() {
		known = known || a == c.Algorithm
	}
	if !known {
		faults = append(faults, fmt.Errorf("algorithm %.40q is none of %v", c.Algorithm, Algorithms()))
	}
	if c.Limit < 1 || c.Limit > maxLimit {
		faults = append(faults, fmt.Errorf("limit %d must be 1 to %d", c.Limit, maxLimit))
	}
	if c.Window != 0 && (c.Window < time.Millisecond || c.Window > 48*time.Hour) {
		faults = append(faults, fmt.Errorf("window %s must be 1ms to 48h", c.Window))
	}
	if c.Burst < 0 || c.Burst > maxLimit {
		faults = append(faults, fmt.Errorf("burst %d must be 0 to %d", c.Burst, maxLimit))
	}
	return errors.Join(faults...)
}

// New makes a limiter that has counted nothing. The buckets begin with their
// whole burst free.
func New(c Config) (Limiter, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("new limiter: %w", err)
	}
	if c.Window == 0 {
		c.Window = time.Second
	}
	switch c.Algorithm {
	case FixedWindow:
		return &fixedWindow{grid: newGrid(c), limit: int64(c.Limit)}, nil
	case SlidingWindow:
		return &slidingWindow{grid: newGrid(c), limit: int64(c.Limit), countRefused: c.CountRefused}, nil
	case SlidingLog:
		return newSlidingLog(c), nil
	case TokenBucket:
		return newTokenBucket(c), nil
	case LeakyBucket:
		return newLeakyBucket(c), nil
	}
	return nil, fmt.Errorf("new limiter: algorithm %.40q is unknown", c.Algorithm)
}

// grid cuts time into windows that begin at multiples of width plus phase.
type grid struct{ width, phase int64 } // µs

func newGrid(c Config) grid {
	return grid{width: c.Window.Microseconds(), phase: c.Phase.Microseconds()}
}

// at returns the number of the window that t lies in and how far into it.
func (g grid) at(t int64) (index, elapsed int64) {
	t -= g.phase
	index, elapsed = t/g.width, t%g.width
	if elapsed < 0 {
		index, elapsed = index-1, elapsed+g.width
	}
	return index, elapsed
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
