package article

import (
	"math/rand/v2"
	"sync"
	"time"

	"chatclub/internal/excess"
)

// pause is the mean time between a refusal and the next try of the same message.
// It is short against the one-second window of the published limit, and long
// against a call's round trip.
const pause = 100 * time.Millisecond

// Pause returns a time between half of pause and one and a half of it. random
// returns numbers of [0, 1).
func Pause(random func() float64) time.Duration {
	return time.Duration((0.5 + random()) * float64(pause))
}

// Article is the excess map as ChatClub published it. A page that is not in the
// map is free: its messages are sent at once. A refusal puts the page into the
// map with a counter of its refused and not yet sent messages. While the page is
// there its further messages go back to the queue. The refused ones are tried
// again, each after a short pause, until the API takes them. Each then counts the
// page down, and at zero it is free again. Every replica does so alone, and no
// limit is configured. Safe for concurrent use.
type Article struct {
	random func() float64 // [0, 1)

	mu    sync.Mutex
	pages map[excess.Key]int // refused and not yet sent; never zero
}

// New returns an empty map. random spreads the pauses; nil means
// math/rand. It must be safe for concurrent use.
func New(random func() float64) *Article {
	if random == nil {
		random = rand.Float64
	}
	return &Article{random: random, pages: make(map[excess.Key]int)}
}

// Offer lets messages of free pages through, and those refused before.
func (a *Article) Offer(_ time.Time, k excess.Key, retry bool) Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pages[k] > 0 && !retry {
		return Decision{Action: Return}
	}
	return Decision{Action: Send}
}

// Done counts a refused message up and, once it leaves, down.
func (a *Article) Done(_ time.Time, k excess.Key, retry bool, r excess.Result) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case r == excess.Refused && !retry:
		a.pages[k]++
	case r != excess.Refused && retry:
		a.dropLocked(k)
	}
	return Pause(a.random)
}

// Drop counts a refused message down that will not be tried again.
func (a *Article) Drop(k excess.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropLocked(k)
}

func (a *Article) dropLocked(k excess.Key) {
	if a.pages[k]--; a.pages[k] <= 0 {
		delete(a.pages, k)
	}
}

// Overflow cannot happen: no message ever waits for its page.
func (*Article) Overflow(time.Time, excess.Key, int) {}
