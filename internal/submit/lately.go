package submit

import (
	"slices"
	"sync"

	"chatclub/internal/queue"
)

// maxLately is how many ids are remembered: half a minute of 2,000 messages a second, in
// some 10 MB.
const maxLately = 1 << 16

// lately remembers the ids that were confirmed last, and those that are being published.
type lately struct {
	mu        sync.Mutex
	confirmed map[string]bool // false: it is being published
	ring      []string        // of those that are confirmed, the oldest at next once it is full
	next      int
}

func newLately() *lately { return &lately{confirmed: make(map[string]bool)} }

// begin returns which of the ids are to be published, and notes that they are. It notes
// none, and returns the id, if one is being published already.
func (l *lately) begin(ids []string) (fresh []int, busy string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, id := range ids {
		switch done, known := l.confirmed[id]; {
		case !known:
			fresh = append(fresh, i)
		case !done:
			return nil, id
		}
	}
	for _, i := range fresh {
		l.confirmed[ids[i]] = false
	}
	return fresh, ""
}

// end notes which were confirmed, in place of the oldest, and forgets the others.
func (l *lately) end(msgs, unconfirmed []queue.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range msgs {
		if slices.ContainsFunc(unconfirmed, func(u queue.Message) bool { return u.ID == m.ID }) {
			delete(l.confirmed, m.ID)
			continue
		}
		l.confirmed[m.ID] = true
		if len(l.ring) < maxLately {
			l.ring = append(l.ring, m.ID)
			continue
		}
		delete(l.confirmed, l.ring[l.next])
		l.ring[l.next] = m.ID
		l.next = (l.next + 1) % maxLately
	}
}
