package excess

import (
	"math"
	"time"
)

const (
	// burstTime is the time over which a burst counts, and slotTime its
	// resolution. The present slot and those before it are a second at least.
	burstTime = time.Second
	slotTime  = 200 * time.Millisecond
	slots     = int(burstTime / slotTime)
)

// bucket is what is known of a free page: 32 bytes without a pointer.
type bucket struct {
	tat  int64  // theoretical arrival time: when the next send is due at the share's pace, in Unix nanoseconds
	at   uint32 // the present slot
	calm uint32 // no bursts before this one
	sent [slots + 1]uint16
}

// slot numbers the slots of time. It wraps every 27 years, so only differences
// mean something.
func slot(now time.Time) uint32 {
	return uint32(now.UnixNano() / int64(slotTime)) //nolint:gosec // wraps
}

func newBucket(now time.Time) bucket { return bucket{at: slot(now), calm: slot(now)} }

// advance forgets what was sent in slots that have passed.
func (t *bucket) advance(now time.Time) {
	to := slot(now)
	for i := min(int32(to-t.at), int32(len(t.sent))); i > 0; i-- { //nolint:gosec // a difference that wraps as it should
		t.sent[(to-uint32(i)+1)%uint32(len(t.sent))] = 0
	}
	t.at = to
	if int32(to-t.calm) > 0 { //nolint:gosec // a difference that wraps as it should
		t.calm = to
	}
}

// burst returns how long until a send is one of at most most in the last second,
// math.MaxInt64 while there are no bursts. advance must have been called.
func (t *bucket) burst(now time.Time, most int) time.Duration {
	if most == 0 || int32(t.at-t.calm) < 0 { //nolint:gosec // a difference that wraps as it should
		return math.MaxInt64
	}
	n := 0
	for _, sent := range t.sent {
		n += int(sent)
	}
	for i := 0; n >= most; i++ { // when the i-th oldest slot has passed
		oldest := (t.at + 1 + uint32(i)) % uint32(len(t.sent))
		n -= int(t.sent[oldest])
		if n < most {
			begun := time.Duration(now.UnixNano() % int64(slotTime))
			return time.Duration(i+1)*slotTime - begun
		}
	}
	return 0
}

// count counts a send.
func (t *bucket) count() {
	if n := &t.sent[t.at%uint32(len(t.sent))]; *n < math.MaxUint16 {
		*n++
	}
}

// bucketLocked returns a page's bucket, advanced to now. A caller that changes it
// puts it into s.current.
func (s *shard) bucketLocked(h uint64, now time.Time) bucket {
	t, ok := s.current[h]
	if !ok {
		if t, ok = s.previous[h]; ok {
			delete(s.previous, h)
			s.current[h] = t
		} else {
			t = newBucket(now)
		}
	}
	t.advance(now)
	return t
}

// takeLocked is one step of the GCRA: it returns 0 and moves the TAT, or returns
// how long to wait. ahead reports whether the send is part of a burst.
func (m *Map) takeLocked(s *shard, h uint64, now time.Time, class string) (wait time.Duration, ahead bool) {
	t := s.bucketLocked(h, now)
	every := seconds(1 / m.share(now, class))
	t.tat = max(t.tat, now.UnixNano())
	if wait = time.Duration(t.tat-now.UnixNano()) - m.cfg.Burst; wait > 0 {
		if sooner := t.burst(now, m.most(now, every)); sooner > 0 {
			s.current[h] = t
			return min(wait, sooner), false
		}
		ahead = true
	}
	t.tat += int64(every)
	t.count()
	s.current[h] = t
	return 0, ahead
}

// tatLocked returns when the next send of a free page would be due.
func (s *shard) tatLocked(h uint64) time.Time {
	t, ok := s.current[h]
	if !ok {
		t = s.previous[h]
	}
	return time.Unix(0, t.tat)
}
