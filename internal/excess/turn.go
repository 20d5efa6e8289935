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

// turn is what is known of a free page: 32 bytes without a pointer.
type turn struct {
	due  int64  // when the next send is due at the share's pace, in Unix nanoseconds
	at   uint32 // the present slot
	calm uint32 // no bursts before this one
	sent [slots + 1]uint16
}

// slot numbers the slots of time; it wraps every 27 years, so that only
// differences mean something.
func slot(now time.Time) uint32 {
	return uint32(now.UnixNano() / int64(slotTime)) //nolint:gosec // wraps
}

func newTurn(now time.Time) turn { return turn{at: slot(now), calm: slot(now)} }

// advance forgets what was sent in slots that have passed.
func (t *turn) advance(now time.Time) {
	to := slot(now)
	for i := min(int32(to-t.at), int32(len(t.sent))); i > 0; i-- { //nolint:gosec // a difference that wraps as it should
		t.sent[(to-uint32(i)+1)%uint32(len(t.sent))] = 0
	}
	t.at = to
	if int32(to-t.calm) > 0 { //nolint:gosec // a difference that wraps as it should
		t.calm = to
	}
}

// burst tells how long until a send is one of at most most in the last second;
// advance must have been called. It is math.MaxInt64 while there are no bursts.
func (t *turn) burst(now time.Time, most int) time.Duration {
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
func (t *turn) count() {
	if n := &t.sent[t.at%uint32(len(t.sent))]; *n < math.MaxUint16 {
		*n++
	}
}

// turnLocked is what is known of a page's turn, brought up to now; who changes
// it puts it into s.young.
func (s *shard) turnLocked(h uint64, now time.Time) turn {
	t, ok := s.young[h]
	if !ok {
		if t, ok = s.old[h]; ok {
			delete(s.old, h)
			s.young[h] = t
		} else {
			t = newTurn(now)
		}
	}
	t.advance(now)
	return t
}

// takeLocked is one step of the GCRA: it returns 0 and moves the due time, or
// returns how long to wait. ahead tells that the send is part of a burst.
func (m *Map) takeLocked(s *shard, h uint64, now time.Time, class string) (wait time.Duration, ahead bool) {
	t := s.turnLocked(h, now)
	every := seconds(1 / m.share(now, class))
	t.due = max(t.due, now.UnixNano())
	if wait = time.Duration(t.due-now.UnixNano()) - m.cfg.Burst; wait > 0 {
		if sooner := t.burst(now, m.most(now, every)); sooner > 0 {
			s.young[h] = t
			return min(wait, sooner), false
		}
		ahead = true
	}
	t.due += int64(every)
	t.count()
	s.young[h] = t
	return 0, ahead
}

// dueLocked is when the next send of a free page would be due.
func (s *shard) dueLocked(h uint64) time.Time {
	t, ok := s.young[h]
	if !ok {
		t = s.old[h]
	}
	return time.Unix(0, t.due)
}
