// Package aimd is a limit on calls in flight that follows the latency of their
// answers. It settles where a percentile of the latency is at its target, and
// never leaves its bounds.
//
// Algorithm. The limit grows slowly while the calls are fast enough, and is
// cut by a share when they are not:
//
//	sample   the last Window results of calls begun after the last cut
//	slow     a result above Target. The percentile is above Target exactly when
//	         more than Window − ⌈Percentile × Window⌉ of a full sample are slow
//	cut      when the sample is full and its percentile above Target:
//	         limit = max(Min, Backoff × min(limit, 2 × the most in flight));
//	         the sample starts again, empty
//	grow     when the sample is full, its percentile is not above Target, and
//	         2 × in flight ≥ limit: limit = min(Max, limit + 1/max(limit, Window))
//	         with each result, so by one in Window results or in a round trip,
//	         whichever is longer
//
// Where it comes from. Additive increase and multiplicative decrease is how TCP
// steers its congestion window (RFC 5681). It grows by one in a round trip,
// spread over the acknowledgements. It is cut once at most for what was sent
// before the cut, and from what is really in flight. Senders that share a
// receiver and know nothing of each other come to equal shares that way (Chiu
// and Jain, 1989). The cut to 0.9, where TCP halves, is that of Netflix'
// concurrency-limits. So is the growth only while half of the limit is used,
// because the latency at a load that was not tried is unknown. That library
// takes each call above a fixed time for overload. To judge by a percentile over
// a sliding sample, so that one straggler is none, is Mindbox' way. The tests
// repeat its experiment.
//
// The estimator. Only whether the percentile is above the target matters, never
// what it is. So the sample is a ring of Window marks, slow or not, and their
// count: exact, and a few instructions a result. A sorted window costs more, and
// a histogram or sketch is less exact as well.
//
// Details that matter. A call begun before a cut tells of the load before it;
// counted, it would cut again for the same overload. Growth does not start a new
// sample. At a high rate the fast calls alone would fill it before the first
// slow one could end, again and again. The limit keeps its fraction: with steps
// of a whole call, a limit of 3 shared by three would swing between 6 and 9. A
// window is counted in one's own results, so N limiters that share the calls
// grow together no faster than a single one.
package aimd

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// The defaults of Config.
const (
	// One call in twenty may be slow for reasons of its own.
	defaultPercentile = 0.95
	// At the 95th percentile five slow calls of these pass. With fewer, chance
	// would decide. With more, the 75 calls/s of the public experiment would
	// take longer than a second or two for one verdict.
	defaultWindow = 100
	// Netflix' ratio.
	defaultBackoff = 0.9
)

// maxSize bounds Max and Window, and so the memory of a mistyped one: far more
// calls than a process has sockets, and a mark is a byte.
const maxSize = 1 << 20

// Config of a Limiter.
type Config struct {
	Min, Max int // bounds of the limit: 1 ≤ Min ≤ Max
	Start    int // the limit at first: Min to Max

	Target     time.Duration // of the percentile; 0: the limit is always Max
	Percentile float64       // above 0 and below 1; 0: 0.95
	Window     int           // results in the sample; 0: 100
	Backoff    float64       // the share that a cut leaves, above 0 and below 1; 0: 0.9
}

// Validate names every fault.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	must(c.Min >= 1, "Min %d must be above 0", c.Min)
	must(c.Max >= c.Min && c.Max <= maxSize, "Max %d must be Min %d to %d", c.Max, c.Min, maxSize)
	must(c.Start >= c.Min && c.Start <= c.Max, "Start %d must be Min %d to Max %d", c.Start, c.Min, c.Max)
	must(c.Target >= 0, "Target %s must not be negative", c.Target)
	// Written so that NaN fails, too.
	must(c.Percentile > 0 && c.Percentile < 1, "Percentile %g must be above 0 and below 1", c.Percentile)
	must(c.Window >= 1 && c.Window <= maxSize, "Window %d must be 1 to %d", c.Window, maxSize)
	must(c.Backoff > 0 && c.Backoff < 1, "Backoff %g must be above 0 and below 1", c.Backoff)
	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	if c.Percentile == 0 {
		c.Percentile = defaultPercentile
	}
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	if c.Backoff == 0 {
		c.Backoff = defaultBackoff
	}
	return c
}

// Limiter is the limit. Make one with New; the zero value is not useful. It has
// no clock, no goroutine and no lock, and is not safe for concurrent use. It
// belongs to one owner, such as an event loop. The owner asks Limit before each
// call and tells Observe each result.
type Limiter struct {
	cfg   Config
	limit float64

	ring    []bool    // whether each result of the sample was slow
	next    int       // where the next one goes
	filled  int       // how many there are
	slow    int       // how many of them are slow
	allowed int       // how many may be, in a full sample
	peak    int       // the most in flight since the last cut
	cut     time.Time // when that was
}

// New checks the configuration; the error names every fault.
func New(c Config) (*Limiter, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("new limiter: %w", err)
	}
	c = c.withDefaults()
	if c.Target == 0 {
		return &Limiter{cfg: c, limit: float64(c.Max)}, nil
	}
	return &Limiter{
		cfg: c, limit: float64(c.Start),
		ring: make([]bool, c.Window), allowed: allowed(c.Percentile, c.Window),
	}, nil
}

// allowed returns how many of window results may be slow: all that come after
// the percentile. That is the one of rank ⌈percentile × window⌉ from the
// fastest.
func allowed(percentile float64, window int) int {
	// 0.07 × 100 is 7.000000000000001 to a computer, and its ceiling must be 7.
	const rounding = 1e-9
	return window - int(math.Ceil(percentile*float64(window)-rounding))
}

// Limit returns how many calls may be in flight now: Min to Max. When it is
// below the number that is in flight, no call may begin until enough have ended.
func (l *Limiter) Limit() int { return int(l.limit) }

// Observe learns that a call ended at now, latency after it began, with inFlight
// calls in flight, itself included. The caller leaves out calls that were
// refused for a quota, because their early answers say nothing about the load.
// It tells those that it gave up with the time that it waited. If now goes
// backwards, the last cut counts as made at now.
func (l *Limiter) Observe(now time.Time, latency time.Duration, inFlight int) {
	if l.cfg.Target == 0 {
		return
	}
	if now.Before(l.cut) {
		l.cut = now
	}
	if now.Add(-latency).Before(l.cut) {
		return
	}
	l.mark(latency > l.cfg.Target)
	l.peak = max(l.peak, inFlight)
	switch {
	case l.filled < len(l.ring):
	case l.slow > l.allowed:
		used := min(l.limit, 2*float64(l.peak))
		l.limit = max(float64(l.cfg.Min), l.cfg.Backoff*used)
		l.filled, l.slow, l.peak, l.cut = 0, 0, 0, now
	case 2*inFlight >= l.Limit():
		step := 1 / max(l.limit, float64(len(l.ring)))
		l.limit = min(float64(l.cfg.Max), l.limit+step)
	}
}

// mark puts a result into the sample, in place of the oldest when it is full.
func (l *Limiter) mark(slow bool) {
	if l.filled < len(l.ring) {
		l.filled++
	} else if l.ring[l.next] {
		l.slow--
	}
	l.ring[l.next] = slow
	if slow {
		l.slow++
	}
	if l.next++; l.next == len(l.ring) {
		l.next = 0
	}
}
