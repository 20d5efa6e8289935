package excess

import "time"

// maxWaitingTime is how long messages of a free page may wait for the share of a
// replica that is alone. A message that waits longer waits better on disk.
const maxWaitingTime = time.Second

// alone reports whether no other replica sends for any page. What this one has
// sent is then all that the platform's limiter has seen. So it loses nothing by
// keeping its messages, and bursts from a lane and of the free page count
// against the same second.
func (m *Map) alone() bool { return m.replicas.Load() == 1 }

// maxWaiting returns how many messages of a free page may wait here. With other
// replicas it is the caller's few. One that waits while another's messages are
// in the lane adds its share to the owner's pace, the more often the longer it
// waits.
func (m *Map) maxWaiting(now time.Time, class string) int {
	if !m.alone() {
		return 0
	}
	return int(m.share(now, class) * maxWaitingTime.Seconds())
}

// freedLocked returns the bucket of a page that leaves excess.
func (m *Map) freedLocked(s *shard, h uint64, e *entry, now time.Time) bucket {
	t := newBucket(now)
	if m.alone() && e.pace != nil && e.pace.calm(now) {
		t = s.bucketLocked(h, now) // it knows what the owner sent
	} else {
		t.calm = slot(now.Add(noBurst))
	}
	t.tat = now.UnixNano()
	if e.pace != nil {
		t.tat = max(t.tat, e.pace.tat.UnixNano())
	}
	return t
}
