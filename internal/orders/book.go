package orders

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// prefetch is the number of orders that are read at a time.
	prefetch = 1000
	// markPrefix begins the id of a mark, by which a reader sees that it has read all
	// orders before it. To ask for the stream's length does not do: a broker that is
	// starting answers 0.
	markPrefix = "mark/"
	// markAgain is the pause before a mark is published once more.
	markAgain = time.Second
)

// Book holds the orders about each page. Make one with NewBook. Safe for concurrent
// use.
type Book struct {
	known chan struct{}
	peers peers

	mu    sync.RWMutex
	pages map[string]*Page
}

// NewBook returns a Book without orders.
func NewBook() *Book {
	return &Book{known: make(chan struct{}), pages: make(map[string]*Page), peers: peers{others: make(map[Settings]*heard)}}
}

// Page returns the orders about a page, nil if there are none.
func (b *Book) Page(page string) *Page {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.pages[page]
}

// Pages returns a copy of all pages about which something is ordered.
func (b *Book) Pages() map[string]*Page {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return maps.Clone(b.pages)
}

// Limits returns the limits of a page that are ordered.
func (b *Book) Limits(page string) message.Limits {
	if p := b.Page(page); p != nil {
		return p.Limits
	}
	return message.Limits{}
}

// IsPaused reports whether a page is paused by an order, or may be: orders are not read yet.
func (b *Book) IsPaused(page string) bool {
	select {
	case <-b.known:
	default:
		return true
	}
	_, paused := b.Page(page).Paused(time.Now())
	return paused
}

// Known is closed once the orders are read that there were when Follow began.
func (b *Book) Known() <-chan struct{} { return b.known }

// Follow reads the orders until ctx ends, and calls changed after each. Call it once.
func (b *Book) Follow(ctx context.Context, broker queue.Broker, log *slog.Logger, changed func(Order)) error {
	sub, err := broker.Consume(broker.Topology().Orders(), queue.ConsumeOptions{Prefetch: prefetch})
	if err != nil {
		return fmt.Errorf("follow orders: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer stop()
	id, top := markPrefix+rand.Text(), broker.Topology()
	if b.peers.ask, err = (mark{b.peers.own, true}).message(top, id); err != nil {
		return err
	}
	if b.peers.answer, err = (mark{b.peers.own, false}).message(top, id); err != nil {
		return err
	}
	var marking sync.WaitGroup
	defer marking.Wait()
	marking.Go(func() { putMark(ctx, broker, log, b.peers.ask) })
	marking.Go(func() { b.keepAsking(ctx, broker, log) })
	known := false
	for d := range sub.Deliveries() {
		switch o, err := decode(d.Body); {
		case d.ID == id:
			if !known {
				close(b.known)
			}
			known = true
		case strings.HasPrefix(d.ID, markPrefix): // another reader's; what is older than ours is history
			if known {
				b.hear(ctx, broker, d.Body, log, &marking)
			}
		case err != nil: // of a later version, or somebody else's
			log.WarnContext(ctx, "order cannot be read; it has no effect", "id", d.ID, "err", err)
		default:
			b.Apply(o)
			changed(o)
		}
		_ = d.Ack() // a stream's: it makes room for more
	}
	return nil
}

// putMark publishes a mark. It waits for the broker, which on a first start declares its
// queues for some seconds.
func putMark(ctx context.Context, broker queue.Broker, log *slog.Logger, mark queue.Message) {
	for {
		err := broker.Publish(ctx, mark)
		if err == nil || ctx.Err() != nil {
			return
		}
		log.WarnContext(ctx, "orders may not all be read yet; asking again", "err", err)
		backoff.Sleep(ctx, markAgain)
	}
}

// Apply has an order counted.
func (b *Book) Apply(o Order) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages[o.Page] = b.pages[o.Page].with(o)
}
