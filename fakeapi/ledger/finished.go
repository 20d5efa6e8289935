package ledger

import "time"

// keptParts is the number of parts that Config.Keep is divided into. The memory is
// given back part by part, so more parts come closer to Keep and cost more look-ups.
const keptParts = 4

// finished holds the ids that need not be waited for any more, each in one of two
// states. The oldest are forgotten together: see Config.Keep. The zero value is
// empty.
type finished struct {
	parts []part    // the newest first; empty before the first id
	began time.Time // the newest part
}

// part holds the ids of one part of Config.Keep.
type part struct {
	accepted map[uint64]bool    // whether the id was announced, before it came or later
	excused  map[uint64]awaited // as they were announced, because they may come all the same
}

// renew forgets ids older than Config.Keep. It must be called before an id is
// added.
func (s *finished) renew(now time.Time, length time.Duration) {
	if len(s.parts) == 0 {
		s.began = now
		s.parts = []part{newPart()}
	}
	for n := 0; length > 0 && now.Sub(s.began) >= length; n++ {
		if n > keptParts { // everything is forgotten
			s.began = now
			return
		}
		s.began = s.began.Add(length)
		s.parts = append([]part{newPart()}, s.parts[:min(len(s.parts), keptParts)]...)
	}
}

func newPart() part {
	return part{accepted: make(map[uint64]bool), excused: make(map[uint64]awaited)}
}

// find returns the part that holds an id, nil if there is none, and whether the id
// is excused there.
func (s *finished) find(h uint64) (in *part, excused bool) {
	for i := range s.parts {
		p := &s.parts[i]
		if _, ok := p.accepted[h]; ok {
			return p, false
		}
		if _, ok := p.excused[h]; ok {
			return p, true
		}
	}
	return nil, false
}
