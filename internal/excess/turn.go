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
