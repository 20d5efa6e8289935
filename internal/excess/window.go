package excess

import (
	"math"
	"time"
)

const (
	// burstTime is over which a burst counts, and slotTime how finely: the
	// present slot and slots before it are a second at least.
	burstTime = time.Second
	slotTime  = 200 * time.Millisecond
	slots     = int(burstTime / slotTime)
)

// window counts the sends of the last second.
type window struct {
	epoch time.Time // so that the monotonic clock counts
	at    int64     // the present slot
	sent  [slots + 1]int
}

// advance forgets what was sent in slots that have passed.
func (w *window) advance(now time.Time) {
	to := int64(now.Sub(w.epoch) / slotTime)
	for i := max(w.at+1, to-int64(slots)); i <= to; i++ {
		w.sent[i%int64(len(w.sent))] = 0
	}
	w.at = max(w.at, to)
}

// wait is how long until a send is one of at most most in the last second.
func (w *window) wait(now time.Time, most int) time.Duration {
	if most <= 0 {
		return math.MaxInt64
	}
	w.advance(now)
	n := 0
	for _, sent := range w.sent {
		n += sent
	}
	begun := now.Sub(w.epoch) % slotTime
	for i := range len(w.sent) { // when the i-th oldest slot has passed
		if n < most {
			return max(0, time.Duration(i)*slotTime-begun)
		}
		n -= w.sent[(w.at+1+int64(i))%int64(len(w.sent))]
	}
	return max(0, time.Duration(len(w.sent))*slotTime-begun)
}

func (w *window) count(now time.Time) {
	w.advance(now)
	w.sent[w.at%int64(len(w.sent))]++
}

// How bursts are learned to be harmless, or not.
const (
	// burstGrowth is what each accepted call of a burst adds to the length of
	// bursts, and burstCut the part of it that a refusal takes, but not twice in
	// burstRest: refusals come together. So there is about one such event in a
	// thousand calls where bursts are refused at all.
	burstGrowth = burstTime / 2000
	burstCut    = 0.5
	burstRest   = 100 * time.Millisecond
)

// bursts is how much of a second's limit a page that is new here may send at
// once. The platform's limiter decides: one that looks at whole seconds takes
// all of it, a leaky bucket next to nothing. It is likely the same for all pages,
// but one that was refused may only have a lower limit: two must agree.
type bursts struct {
	longest time.Duration
	cut     time.Time
	by      Key
}

// ended tells how a call went that was sent ahead of the pace. length is that
// of the page's own bursts.
func (b *bursts) ended(now time.Time, k Key, length *burst, r Result) {
	switch r {
	case Accepted:
		*length = min(burstTime, *length+burstGrowth)
		b.longest = min(burstTime, b.longest+burstGrowth/10)
	case Refused:
		if now.Sub(b.cut) < burstRest && b.by == k {
			return
		}
		if b.by != k && b.by != (Key{}) {
			b.longest = min(b.longest, max(*length, b.longest/2))
		}
		*length = time.Duration(float64(*length) * (1 - burstCut))
		b.cut, b.by = now, k
	case Other:
	}
}

type burst = time.Duration

// most is how many messages may be sent at once ahead of the pace: a few more
// than the tolerance at least, so that it can be learned that more would be well.
func (p *pace) most() int {
	every := seconds(1 / p.rate)
	length := min(burstTime, max(tolerance+2*every, p.burst))
	return int(float64(length) / float64(time.Second) * headroom * p.limit)
}
