package excess

import "time"

// parkTime is how long messages of a free page may wait for the share of a
// replica that is alone. What waits longer waits better on disk.
const parkTime = time.Second

// alone tells whether no other replica sends for any page. What this one has
// sent is then all that a platform's limiter has seen, so it loses nothing by
// keeping its messages, and bursts from a lane and of the free page count
// against the same second.
func (m *Map) alone() bool { return m.replicas.Load() == 1 }

// park is how many messages of a free page may wait here. With other replicas
// it is the caller's few: one that waits while another's messages are in the
// lane adds its share to the owner's pace, and the longer it waits the more
// often it does.
func (m *Map) park(now time.Time, class string) int {
	if !m.alone() {
		return 0
	}
	return int(m.share(now, class) * parkTime.Seconds())
}

// freedLocked is the turn of a page that leaves excess.
func (m *Map) freedLocked(s *shard, h uint64, e *entry, now time.Time) turn {
	t := newTurn(now)
	if m.alone() && e.pace != nil && e.pace.calm(now) {
		t = s.turnLocked(h, now) // it knows what the owner sent
	} else {
		t.calm = slot(now.Add(noBurst))
	}
	t.due = now.UnixNano()
	if e.pace != nil {
		t.due = max(t.due, e.pace.tat.UnixNano())
	}
	return t
}
