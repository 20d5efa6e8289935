package strategy

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

// Article is the excess map as ChatClub published it. A page that is not in the
// map is free: its messages are sent at once. A refusal puts the page into the
// map with a counter of its refused and not yet sent messages. While the page is
// there its further messages go back to the queue. The refused ones are tried
// again, each after a short pause, until the API takes them. Each then counts the
// page down, and at zero it is free again. Every replica does so alone, and no
// limit is configured. Safe for concurrent use.
type Article struct {
	laneless
	random func() float64 // [0, 1)

	mu    sync.Mutex
	pages map[excess.Key]int // refused and not yet sent; never zero
}

// NewArticle returns an empty map. random spreads the pauses; nil means
// math/rand/v2. It must be safe for concurrent use.
func NewArticle(random func() float64) *Article {
	if random == nil {
		random = rand.Float64
	}
	return &Article{random: random, pages: make(map[excess.Key]int)}
}

// Offer lets messages of free pages through, and those refused before.
func (a *Article) Offer(_ time.Time, k excess.Key, retry bool) excess.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pages[k] > 0 && !retry {
		return excess.Decision{Action: excess.Return}
	}
	return excess.Decision{Action: excess.Send, Permit: excess.Permit{Key: k, Retry: retry}}
}

// OfferLane treats a lane's message as any other: this algorithm has no lanes.
func (a *Article) OfferLane(now time.Time, k excess.Key) excess.Decision {
	return a.Offer(now, k, false)
}

// Done counts a refused message up and, once it leaves, down.
func (a *Article) Done(_ time.Time, p excess.Permit, r excess.Result) excess.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case r == excess.Refused && !p.Retry:
		a.pages[p.Key]++
	case r != excess.Refused && p.Retry:
		a.leaveLocked(p.Key)
	}
	return excess.Decision{Action: excess.Wait, Wait: spread(pause, a.random)}
}

// Drop counts a refused message down that will not be tried again.
func (a *Article) Drop(k excess.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaveLocked(k)
}

func (a *Article) leaveLocked(k excess.Key) {
	if a.pages[k]--; a.pages[k] <= 0 {
		delete(a.pages, k)
	}
}

// Counts counts the pages in the map.
func (a *Article) Counts() excess.Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return excess.Counts{Excess: len(a.pages)}
}

// Overflow cannot happen: no message ever waits for its page.
func (*Article) Overflow(time.Time, excess.Key, int) {}
