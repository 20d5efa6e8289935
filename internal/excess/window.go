package excess

import (
	"math"
	"time"
)

const (
	// burstTime is over which a burst counts, and slotTime how finely: the
	// present slot and slots before it are a second at least.
	burstTime = time.Second
	slotTime  = 50 * time.Millisecond
	slots     = int(burstTime / slotTime)
	// sendsKept is for how long sends are remembered: an answer's time and a second.
	sendsKept = 4 * time.Second
)

// sends counts the calls of the last seconds by when they were sent, less those
// that were refused.
type sends struct {
	epoch time.Time // so that the monotonic clock counts
	at    int64     // the present slot
	kept  [sendsKept / slotTime]uint16
}

func (s *sends) slot(t time.Time) int64 { return int64(t.Sub(s.epoch) / slotTime) }

func (s *sends) of(slot int64) *uint16 { return &s.kept[slot%int64(len(s.kept))] }

// advance forgets what was sent in slots that have passed.
func (s *sends) advance(now time.Time) {
	to := s.slot(now)
	for i := max(s.at+1, to-int64(len(s.kept))+1); i <= to; i++ {
		*s.of(i) = 0
	}
	s.at = max(s.at, to)
}

func (s *sends) count(now time.Time) {
	s.advance(now)
	if n := s.of(s.at); *n < math.MaxUint16 {
		*n++
	}
}

// refused takes back a call that was sent then.
func (s *sends) refused(at time.Time) {
	if slot := s.slot(at); slot >= 0 && slot > s.at-int64(len(s.kept)) && *s.of(slot) > 0 {
		*s.of(slot)--
	}
}

// second is how many calls of the second before a time passed, as far as is
// known: to the end of its slot.
func (s *sends) second(t time.Time) float64 {
	n := 0
	to := min(s.slot(t), s.at)
	for i := max(0, to-int64(slots), s.at-int64(len(s.kept))+1); i <= to; i++ {
		n += int(*s.of(i))
	}
	return float64(n)
}

// wait is how long until a send is one of at most most in the last second.
func (s *sends) wait(now time.Time, most int) time.Duration {
	s.advance(now)
	n := int(s.second(now))
	begun := now.Sub(s.epoch) % slotTime
	for i := range slots + 1 { // when the i-th oldest slot has passed
		if n < most {
			return max(0, time.Duration(i)*slotTime-begun)
		}
		if slot := s.at - int64(slots-i); slot >= 0 {
			n -= int(*s.of(slot))
		}
	}
	return max(0, time.Duration(slots+1)*slotTime-begun)
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
	last    time.Duration // what was left to it
}

// ended tells how a call went that was sent ahead of the pace. length is that
// of the page's own bursts, and passed what may have gone through of this one.
func (b *bursts) ended(now time.Time, k Key, length *time.Duration, passed time.Duration, r Result) {
	switch r {
	case Accepted:
		*length = min(burstTime, *length+burstGrowth)
		b.longest = min(burstTime, b.longest+burstGrowth/10)
	case Refused:
		*length = min(*length, passed)
		if now.Sub(b.cut) < burstRest && b.by == k {
			return
		}
		*length = time.Duration(float64(*length) * (1 - burstCut))
		if b.by != k && b.by != (Key{}) {
			b.longest = min(b.longest, max(*length, b.last))
		}
		b.cut, b.by, b.last = now, k, *length
	case Other:
	}
}

// most is how many messages may be sent at once ahead of the pace: a few more
// than the tolerance at least, so that it can be learned that more would be well.
func (p *pace) most(longest time.Duration) int {
	every := seconds(1 / p.rate)
	length := min(burstTime, max(tolerance+2*every, min(p.burst, longest)))
	return int(math.Ceil(float64(length) / float64(time.Second) * headroom * p.limit))
}
