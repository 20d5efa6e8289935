package core

import (
	"context"
	"crypto/rand"
	"hash/fnv"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/transfer"
)

const (
	// pageShare is how many times as many events as one page has waiting must be
	// free for more, or it overflows (dynamic thresholds, as of switches that share
	// a buffer: Choudhury and Hahne, 1998). One page alone gets to a fifth of the
	// prefetch, and however many there are some of it stays free.
	pageShare = 4
	// watchEvery is how often it is looked whether the events of a page that
	// overflowed have come out at another core.
	watchEvery = time.Second
	// watchTimes is how often in a row their queue must be found empty for that.
	watchTimes = 2
	// overflowDelay is how long an event waits that no overflow queue takes.
	overflowDelay = 10 * time.Second
)

// inbound is a delivery with its event, or the error of decoding it.
type inbound struct {
	delivery *queue.Delivery
	event    message.Event
	err      error
}

// redelivered reports whether the event was delivered before, perhaps to another
// core.
func (in inbound) redelivered() bool {
	return in.delivery.Redelivered || in.delivery.Headers[message.HeaderRedelivered] != ""
}

// pages holds the events that wait for a worker, by page. A worker takes the next
// page that has one and is in no other worker's hands: round robin.
//
// A page with many overflows: its next events move to an overflow queue, and all
// that come after them, until those that are there have come back. So the order
// stays while one core does it all. The overflow queues are delivered to one core
// at a time. If that is another one, this core sends no more there once the queue
// is empty.
type pages struct {
	cfg     Config
	metrics *metrics
	id      string // of this core, to know its events again
	mover   *transfer.Mover

	mu     sync.Mutex
	wake   *sync.Cond
	closed bool
	pages  map[string]*page
	ready  []*page // those that have an event and no worker
	held   int     // unsettled deliveries of the inbound queue
	users  []int   // pages that use each overflow queue
}

// page is the events of one page.
type page struct {
	waiting  []inbound
	busy     bool // a worker has one of its events
	away     int  // events in an overflow queue, or on their way
	moving   int  // of them on their way, and those that go round by a retry queue
	overflow int  // the queue
	empty    int  // how often in a row that was found empty
}

// moving is an event on its way to another queue.
type moving struct {
	page string
	away bool // that is the page's overflow queue
}

func newPages(cfg Config, m *metrics) *pages {
	p := &pages{
		cfg: cfg, metrics: m, id: rand.Text(), pages: make(map[string]*page), users: make([]int, len(cfg.Broker.Topology().Overflows())),
	}
	p.wake = sync.NewCond(&p.mu)
	p.mover = transfer.New(transfer.Config{Broker: cfg.Broker, Log: cfg.Log, Now: cfg.Now, Random: mathrand.Float64, Notify: p.moved})
	return p
}

// close makes next return false, and moves nothing more.
func (p *pages) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wake.Broadcast()
	p.mover.End()
}

// add puts an event behind those of its page, here or in an overflow queue. It
// does not block. A delivery that could not be decoded has no page, and no order
// to keep.
func (p *pages) add(in inbound) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	g := p.pages[in.event.Page]
	if g == nil {
		g = new(page)
		p.pages[in.event.Page] = g
	}
	if in.delivery.Queue != p.cfg.Broker.Topology().Inbound() {
		if g.away > 0 && in.delivery.Headers[message.HeaderMovedBy] == p.id {
			g.empty = 0
			p.setAway(g, g.away-1)
		}
	} else {
		p.held++
		crowded := len(g.waiting) > max(0, p.cfg.Prefetch-p.held)/pageShare
		if in.err == nil && (crowded || g.away > 0 && !p.isBlocked(g.overflow)) {
			p.move(g, in)
			return
		}
	}
	g.waiting = append(g.waiting, in)
	if !g.busy && len(g.waiting) == 1 {
		p.ready = append(p.ready, g)
		p.wake.Signal()
	}
}

// move sends an event to its page's overflow queue. If that takes nothing the event
// goes round by a retry queue, because it must not hold up other pages here; the
// page's order is lost then.
func (p *pages) move(g *page, in inbound) {
	if g.away == 0 {
		g.overflow = p.choose(in.event.Page)
	}
	to := queue.Message{
		Queue: p.cfg.Broker.Topology().Overflow(g.overflow), ID: in.delivery.ID, Body: in.delivery.Body,
		Headers: message.CarryTrace(map[string]string{message.HeaderMovedBy: p.id}, in.delivery.Headers),
	}
	if in.redelivered() {
		to.Headers[message.HeaderRedelivered] = "1"
	}
	away := !p.isBlocked(g.overflow)
	if !away {
		to.Queue, to.Delay = p.cfg.Broker.Topology().Inbound(), overflowDelay
	} else {
		p.setAway(g, g.away+1)
		g.empty = 0
	}
	g.moving++
	p.mover.Add(&transfer.Item{Transfer: queue.Transfer{Delivery: in.delivery, To: []queue.Message{to}}, Tag: moving{in.event.Page, away}})
}

// isBlocked reports whether an overflow queue takes nothing.
func (p *pages) isBlocked(overflow int) bool {
	return p.mover.Blocked(p.cfg.Broker.Topology().Overflow(overflow)) >= max(1, p.cfg.Prefetch/8)
}

// choose returns the overflow queue that the fewest pages use, the first one
// counted from the page's hash.
func (p *pages) choose(name string) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	n := len(p.users)
	best := int(h.Sum32() % uint32(n)) //nolint:gosec // there are few
	for i := range n {
		if k := (best + i) % n; p.users[k] < p.users[best] {
			best = k
		}
	}
	return best
}

// setAway notes how many events of a page are in its overflow queue.
func (p *pages) setAway(g *page, n int) {
	if g.away == 0 && n > 0 {
		p.users[g.overflow]++
	}
	if g.away > 0 && n == 0 {
		p.users[g.overflow]--
	}
	g.away = n
}

// moved follows an event that was to go to another queue.
func (p *pages) moved(ev transfer.Event) {
	if ev.State == transfer.Blocked {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := ev.Item.Tag.(moving) //nolint:forcetypeassert // move sets it
	g := p.pages[m.page]
	g.moving--
	p.held--
	if ev.State == transfer.Done {
		p.metrics.moved.Inc()
	} else if m.away && g.away > 0 {
		p.setAway(g, g.away-1) // it is still on its queue, and comes again
	}
	p.tidy(m.page, g)
}

// next waits for an event that a worker may handle. ok is false after close.
func (p *pages) next() (in inbound, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.ready) == 0 && !p.closed {
		p.wake.Wait()
	}
	if p.closed {
		return inbound{}, false
	}
	g := p.ready[0]
	p.ready[0] = nil
	p.ready = p.ready[1:]
	in = g.waiting[0]
	g.waiting[0] = inbound{}
	g.waiting = g.waiting[1:]
	g.busy = true
	return in, true
}

// done lets the page of an event have its next one handled, behind other pages.
func (p *pages) done(in inbound) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.pages[in.event.Page]
	g.busy = false
	if in.delivery.Queue == p.cfg.Broker.Topology().Inbound() {
		p.held--
	}
	if len(g.waiting) > 0 {
		p.ready = append(p.ready, g)
		p.wake.Signal()
	}
	p.tidy(in.event.Page, g)
}

// tidy forgets a page without events.
func (p *pages) tidy(name string, g *page) {
	if !g.busy && len(g.waiting) == 0 && g.away == 0 && g.moving == 0 {
		delete(p.pages, name)
	}
}

// watch looks now and then whether what overflowed has come out at another core,
// until ctx ends.
func (p *pages) watch(ctx context.Context) {
	for backoff.Sleep(ctx, watchEvery) {
		for i, name := range p.cfg.Broker.Topology().Overflows() {
			p.mu.Lock()
			used := p.users[i] > 0
			p.mu.Unlock()
			if !used {
				continue
			}
			ask, cancel := context.WithTimeout(ctx, watchEvery)
			info, err := p.cfg.Broker.Inspect(ask, name)
			cancel()
			p.found(i, err == nil && info.Ready == 0)
		}
	}
}

// found notes whether an overflow queue was empty. The pages whose events have
// come out at another core use it no longer.
func (p *pages) found(overflow int, empty bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Collect(maps.Keys(p.pages)) {
		g := p.pages[name]
		if g.away == 0 || g.overflow != overflow {
			continue
		}
		if g.empty++; !empty || g.moving > 0 {
			g.empty = 0
		}
		if g.empty == watchTimes {
			p.setAway(g, 0)
			p.tidy(name, g)
		}
	}
}
