package excess

import (
	"sync/atomic"
	"time"
)

// How bursts of free pages are learned to be harmless, or not.
const (
	// burstGrowth is what each accepted call of a burst adds to the length of
	// bursts. burstCut is the part of it that a refusal takes, but not twice in
	// burstRest, because refusals come together. So where bursts are refused at
	// all, one call in about a thousand is.
	burstGrowth = burstTime / 2000
	burstCut    = 0.5
	burstRest   = 100 * time.Millisecond
)

// bursts is how much of a second's share may be sent at once. The platform's
// limiter decides, and is the same for all pages. One that looks at whole
// seconds takes all of it, a leaky bucket next to nothing. Safe for concurrent
// use.
type bursts struct {
	longest atomic.Int64 // in nanoseconds of the share's pace
	cut     atomic.Int64 // when, in Unix nanoseconds
}

func (b *bursts) reset() { b.longest.Store(int64(burstTime)) }

// length returns what may be sent at once, in time at a pace of one in every. It
// is a message more than tolerance at least, to learn whether more would pass.
func (b *bursts) length(tolerance, every time.Duration) time.Duration {
	return min(burstTime, max(tolerance+2*every, time.Duration(b.longest.Load())))
}

// ended learns how a call went that was sent ahead of the share's pace.
func (b *bursts) ended(now time.Time, r Result) {
	switch r {
	case Accepted:
		if l := b.longest.Add(int64(burstGrowth)); l > int64(burstTime) {
			b.longest.Store(int64(burstTime))
		}
	case Refused:
		last, n := b.cut.Load(), now.UnixNano()
		if n-last >= int64(burstRest) && b.cut.CompareAndSwap(last, n) {
			b.longest.Store(int64(float64(b.longest.Load()) * (1 - burstCut)))
		}
	case Other:
	}
}

// most returns how many messages may be sent at once ahead of a pace of one in every.
func (m *Map) most(now time.Time, every time.Duration) int {
	if m.joining(now) {
		return 0
	}
	return int(m.bursts.length(m.cfg.Burst, every) / every)
}
