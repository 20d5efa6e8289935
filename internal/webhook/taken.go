package webhook

import (
	"sync"
	"time"
)

const (
	// takenFor is the time for which a body is remembered. Messenger repeats a body that was
	// answered late within minutes; whoever got hold of one may repeat it for ever.
	takenFor = time.Hour
	// maxTaken bounds the bodies of one period: some 6 MiB, and 18 bodies a second.
	maxTaken = 65_536
)

// taken remembers the bodies whose events the broker has confirmed, by their signatures:
// each for takenFor at least, unless maxTaken others came. A body whose events were not
// confirmed is not in it, so that its repetition is taken. The zero value is empty. Safe for
// concurrent use.
type taken struct {
	mu          sync.Mutex
	since       time.Time // when latest began
	latest, old map[signature]struct{}
}

// has reports whether a body was taken.
func (t *taken) has(s signature, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnLocked(now)
	_, latest := t.latest[s]
	_, old := t.old[s]
	return latest || old
}

// add remembers a body.
func (t *taken) add(s signature, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnLocked(now)
	t.latest[s] = struct{}{}
}

// turnLocked begins a new period when the latest one is over or full, and forgets the
// one before.
func (t *taken) turnLocked(now time.Time) {
	age := now.Sub(t.since)
	if t.latest != nil && age >= 0 && age < takenFor && len(t.latest) < maxTaken {
		return
	}
	t.old = t.latest
	if age >= 2*takenFor || age < 0 { // the clock was set back
		t.old = nil
	}
	t.latest, t.since = make(map[signature]struct{}), now
}
