package limit

import "time"

// leakyBucket is a bucket of `burst` calls that leaks limit/W of them evenly; a
// call that would make it overflow is refused (the bucket as a meter, ITU-T
// I.371; the same rule as GCRA). It is the token bucket seen from the other
// side, and differs in its purpose: the default burst is a tenth of the limit,
// so what passes is even within a tenth of W, and a pause saves up nothing
// beyond that.
//
// With refused calls counting, what overflows is kept, up to one more bucket.
type leakyBucket struct {
	width        int64 // µs; what a call pours in
	limit        int64 // leaks per µs
	burst        int64 // calls
	ownBurst     bool
	countRefused bool
	level        int64 // calls × width, so that everything is a whole number
	last         int64
}

func newLeakyBucket(c Config) *leakyBucket {
	b := &leakyBucket{
		width: c.Window.Microseconds(), limit: int64(c.Limit), burst: int64(c.Burst),
		ownBurst: c.Burst > 0, countRefused: c.CountRefused,
	}
	if !b.ownBurst {
		b.burst = defaultLeakyBurst(b.limit)
	}
	return b
}

func defaultLeakyBurst(limit int64) int64 { return max(1, limit/10) }

// at returns the level at t.
func (b *leakyBucket) at(t int64) int64 {
	if t-b.last > ceilDiv(b.level, b.limit) {
		return 0
	}
	return max(0, b.level-max(0, t-b.last)*b.limit)
}

func (b *leakyBucket) Allow(now time.Time) bool {
	t := max(b.last, now.UnixMicro())
	b.level, b.last = b.at(t), t
	ok := b.level+b.width <= b.burst*b.width
	if ok || b.countRefused {
		b.level = min(b.level+b.width, 2*b.burst*b.width)
	}
	return ok
}

func (b *leakyBucket) Usage(now time.Time) float64 {
	return float64(b.at(now.UnixMicro())) / float64(b.burst*b.width)
}

func (b *leakyBucket) Wait(now time.Time) time.Duration {
	over := b.at(now.UnixMicro()) + b.width - b.burst*b.width
	if over <= 0 {
		return 0
	}
	return micros(ceilDiv(over, b.limit))
}

func (b *leakyBucket) SetLimit(now time.Time, limit int) {
	t := max(b.last, now.UnixMicro())
	b.level, b.last = b.at(t), t
	b.limit = int64(limit)
	if !b.ownBurst {
		b.burst = defaultLeakyBurst(b.limit)
	}
}
