package strategy

import (
	"sync"
	"time"

	"chatclub/internal/article"
	"chatclub/internal/excess"
)

// paced is the gate of a strategy that knows at which pace a page may be sent
// to. It is what all of them share, so that a comparison is one of the paces:
//
//   - A message that must wait is held until then. When more of one page wait
//     than the dispatcher will hold, half of them go back to the tail of the
//     queue they came from, as those of a page in excess do in ChatClub's article.
//     Otherwise the first page with many messages fills every replica's prefetch:
//     behind 30,000 messages of one page those of others took more than twice
//     as long in package flow. The price is order, and operations of the
//     broker.
//   - A refused message is tried again by the replica that has it after the
//     article's pause, and asks for a call again.
//
// P is the strategy's state of a page; its zero value is that of a page not
// seen before. Safe for concurrent use.
type paced[P any] struct {
	random func() float64
	// take answers how long the page's next call must wait; 0 means that it was
	// counted and is made. It must not block. It is called under the lock.
	take func(now time.Time, k excess.Key, p *P) time.Duration
	// result is told how a call went, under the lock; nil: does not matter.
	result func(now time.Time, p *P, r excess.Result)

	mu    sync.Mutex
	pages map[excess.Key]*page[P]
}

type page[P any] struct {
	over  int // messages to give back when they are next offered
	state P
}

// pageLocked returns the state of a page, which it makes if there is none.
func (g *paced[P]) pageLocked(k excess.Key) *page[P] {
	if g.pages[k] == nil {
		g.pages[k] = new(page[P])
	}
	return g.pages[k]
}

// Offer lets a message through when its page's pace allows it.
func (g *paced[P]) Offer(now time.Time, k excess.Key, retry bool) article.Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pageLocked(k)
	wait := g.take(now, k, &p.state)
	switch {
	case wait == 0:
		return article.Decision{Action: article.Send}
	case p.over > 0:
		p.over--
		return article.Decision{Action: article.Return}
	}
	return article.Decision{Action: article.Wait, Wait: wait}
}

// Overflow has half of what waits given back.
func (g *paced[P]) Overflow(_ time.Time, k excess.Key, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pageLocked(k).over = waiting / 2
}

// Done keeps a refused message for a while.
func (g *paced[P]) Done(now time.Time, k excess.Key, _ bool, r excess.Result) time.Duration {
	if g.result != nil {
		g.mu.Lock()
		g.result(now, &g.pageLocked(k).state, r)
		g.mu.Unlock()
	}
	return article.Pause(g.random)
}

// Drop has no meaning here: calls are counted, not messages.
func (*paced[P]) Drop(excess.Key) {}

// newPaced returns a gate without pages.
func newPaced[P any](random func() float64) *paced[P] {
	return &paced[P]{random: random, pages: make(map[excess.Key]*page[P])}
}
