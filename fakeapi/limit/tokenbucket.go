package limit

import "time"

// tokenBucket holds at most `burst` tokens and gains limit/W of them evenly. A
// call takes one or is refused. Over any time t it admits at most
// burst + t × limit/W calls. After a pause a burst passes at once, and then an
// even flow (the rule of golang.org/x/time/rate and of most gateways).
//
// With refused calls counting, a refused call takes a token that is not there,
// down to a debt of one burst.
type tokenBucket struct {
	width        int64 // µs; the price of a call in units of credit
	limit        int64 // units gained per µs
	burst        int64 // calls
	countRefused bool
	credit       int64 // tokens × width, so that everything is a whole number
	last         int64

	burstOf func(limit int64) int64 // the burst that follows from a limit; nil: Config.Burst fixes it
}

func newTokenBucket(c Config) *tokenBucket {
	return newBucket(c, func(limit int64) int64 { return limit })
}

// newBucket makes a full bucket. Its burst is burstOf(limit) unless c sets one.
func newBucket(c Config, burstOf func(int64) int64) *tokenBucket {
	b := &tokenBucket{
		width: c.Window.Microseconds(), limit: int64(c.Limit), burst: int64(c.Burst), countRefused: c.CountRefused,
	}
	if c.Burst == 0 {
		b.burstOf, b.burst = burstOf, burstOf(b.limit)
	}
	b.credit = b.burst * b.width
	return b
}

// at returns the credit at t.
func (b *tokenBucket) at(t int64) int64 {
	full := b.burst * b.width
	// After this time the bucket is full, and the product below could overflow.
	if t-b.last > ceilDiv(full-b.credit, b.limit) {
		return full
	}
	return min(full, b.credit+max(0, t-b.last)*b.limit)
}

func (b *tokenBucket) Allow(now time.Time) bool {
	t := max(b.last, now.UnixMicro())
	b.credit, b.last = b.at(t), t
	ok := b.credit >= b.width
	if ok || b.countRefused {
		b.credit = max(b.credit-b.width, -b.burst*b.width)
	}
	return ok
}

func (b *tokenBucket) Usage(now time.Time) float64 {
	full := b.burst * b.width
	return float64(full-b.at(now.UnixMicro())) / float64(full)
}

func (b *tokenBucket) Wait(now time.Time) time.Duration {
	short := b.width - b.at(now.UnixMicro())
	if short <= 0 {
		return 0
	}
	return micros(ceilDiv(short, b.limit))
}

func (b *tokenBucket) SetLimit(now time.Time, limit int) {
	t := max(b.last, now.UnixMicro())
	b.credit, b.last = b.at(t), t
	b.limit = int64(limit)
	if b.burstOf != nil {
		b.burst = b.burstOf(b.limit)
	}
	b.credit = min(b.credit, b.burst*b.width)
}
