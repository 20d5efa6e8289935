package core

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/partitions"
	"chatclub/internal/queue"
)

// inbound is a delivery with its event, or the error of decoding it.
type inbound struct {
	claim    *partitions.Claim
	delivery *queue.Delivery
	event    message.Event
	err      error
}

// page returns the key of its page. Those of no page wait for those of their partition
// alone: takeLocked takes all that wait in one page for one partition's.
func (in *inbound) page() string { return cmp.Or(in.event.Page, "\x00"+in.delivery.Queue) }

// pages holds the events that wait for a worker, by page. A worker takes the next
// page that has one and is in no other worker's hands: round robin. The workers of one
// partition are bounded, because all its pages wait when its queue of copies takes
// nothing.
type pages struct {
	share int // workers that one partition may have at a time

	mu     sync.Mutex
	wake   *sync.Cond
	closed bool
	pages  map[string]*page
	ready  []*page        // those that have an event and no worker
	busy   map[string]int // workers, by the partition's queue
	idle   int            // workers without an event
}

// page is the events of one page.
type page struct {
	waiting []inbound
	busy    bool      // a worker has one of its events
	moved   time.Time // when an event came first, was taken or was done
	odd     time.Time // of check: from when on nothing has explained that it waits
}

// newPages returns an empty one. One of four partitions or more has a quarter of the
// workers at most.
func newPages(workers, partitions int) *pages {
	p := &pages{share: max(1, workers/min(partitions, 4)), pages: make(map[string]*page), busy: make(map[string]int)}
	p.wake = sync.NewCond(&p.mu)
	return p
}

// close makes next return false.
func (p *pages) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wake.Broadcast()
}

// add puts an event behind those of its page. It does not block. A delivery that could
// not be decoded has no page, and no order to keep.
func (p *pages) add(in inbound) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.pages[in.page()]
	if g == nil {
		g = &page{moved: time.Now()}
		p.pages[in.page()] = g
	}
	isReady := !g.busy && len(g.waiting) > 0
	if len(g.waiting) == cap(g.waiting) { // those of claims that ended come again: while nobody handles them they would pile up
		g.waiting = slices.DeleteFunc(g.waiting, func(in inbound) bool {
			stale := !in.delivery.Live()
			if stale {
				in.claim.Handle(func() {})
			}
			return stale
		})
	}
	g.waiting = append(g.waiting, in)
	if !g.busy && !isReady {
		p.ready = append(p.ready, g)
		p.wake.Signal()
	}
}

// next waits for an event that a worker may handle. ok is false after close.
func (p *pages) next() (in inbound, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed {
		if g := p.takeLocked(); g != nil {
			in = g.waiting[0]
			g.waiting[0] = inbound{}
			g.waiting = g.waiting[1:]
			g.busy, g.moved = true, time.Now()
			p.busy[in.delivery.Queue]++
			return in, true
		}
		p.idle++
		p.wake.Wait()
		p.idle--
	}
	return inbound{}, false
}

// takeLocked takes out the first page whose partition may have another worker, nil if
// there is none.
func (p *pages) takeLocked() *page {
	for i, g := range p.ready {
		if p.busy[g.waiting[0].delivery.Queue] < p.share {
			p.ready = slices.Delete(p.ready, i, i+1)
			return g
		}
	}
	return nil
}

// done lets the page of an event have its next one handled, behind other pages.
func (p *pages) done(in inbound) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy[in.delivery.Queue]--
	g := p.pages[in.page()]
	g.moved = time.Now()
	if g.busy = false; len(g.waiting) > 0 {
		p.ready = append(p.ready, g)
	} else {
		delete(p.pages, in.page())
	}
	p.wake.Signal()
}
