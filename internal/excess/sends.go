package excess

import "time"

const (
	// slotTime is the unit in which sends are counted: a twentieth of the published
	// second.
	slotTime = 50 * time.Millisecond
	// sendsKept is the time for which they are kept: an answer's, which is 1.9 s and
	// now and then three, and the second before the call.
	sendsKept = 4 * time.Second

	slots = int64(time.Second / slotTime)
	kept  = int64(sendsKept / slotTime)
)

// sends counts the calls of the last seconds by when they were sent.
type sends struct {
	epoch      time.Time // of slot 0, so that the monotonic clock counts
	last       int64     // the present slot
	calls, bad [kept]uint16
}

func (s *sends) slot(t time.Time) int64 { return int64(t.Sub(s.epoch) / slotTime) }

func (s *sends) advance(now time.Time) {
	to := s.slot(now)
	for i := max(s.last+1, to-kept+1); i <= to; i++ {
		s.calls[i%kept], s.bad[i%kept] = 0, 0
	}
	s.last = max(s.last, to)
}

func (s *sends) count(now time.Time, calls float64) {
	s.advance(now)
	s.calls[s.last%kept] += uint16(calls)
}

func (s *sends) refused(at time.Time) {
	if i := s.slot(at); i > s.last-kept {
		s.bad[i%kept]++
	}
}

// second returns how many calls of the second before a time passed, as far as is known.
func (s *sends) second(t time.Time) (n float64) {
	to := s.slot(t)
	for i := max(0, to-slots+1, s.last-kept+1); i <= to; i++ {
		n += float64(s.calls[i%kept]) - float64(s.bad[i%kept])
	}
	return n
}

// room returns how long it takes until fewer than most calls were sent in the last
// second.
func (s *sends) room(now time.Time, most float64) time.Duration {
	s.advance(now)
	n := 0.0
	for i := s.last; i >= max(0, s.last-slots); i-- {
		if n += float64(s.calls[i%kept]); n >= most {
			return s.epoch.Add(time.Duration(i+slots+1) * slotTime).Sub(now)
		}
	}
	return 0
}
