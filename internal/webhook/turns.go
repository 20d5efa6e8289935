package webhook

import (
	"sync"
	"time"
)

// turns knows since when no request has ended, of those in hand. The zero value has none.
// Safe for concurrent use.
type turns struct {
	mu     sync.Mutex
	inHand int
	last   time.Time // when a request ended, or the first of those in hand began
}

// begin counts a request in.
func (t *turns) begin(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inHand == 0 {
		t.last = now
	}
	t.inHand++
}

// end counts a request out.
func (t *turns) end(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inHand--
	t.last = now
}

// since returns the time since a request ended, 0 while none is in hand.
func (t *turns) since(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inHand == 0 {
		return 0
	}
	return now.Sub(t.last)
}
