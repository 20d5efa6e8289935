package orders

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync/atomic"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// prefetch is how many orders are read at a time.
	prefetch = 1000
	// askAgain is the pause before the next question how many orders there are.
	askAgain = time.Second
)

// Book has what is ordered about each page. Make one with NewBook. Safe for concurrent
// use: orders are few, and each makes a new map.
type Book struct {
	pages atomic.Pointer[map[string]*Page]
	known chan struct{}
}

// NewBook returns a Book without orders.
func NewBook() *Book {
	b := &Book{known: make(chan struct{})}
	b.pages.Store(&map[string]*Page{})
	return b
}

// Page returns what is ordered about a page, nil if nothing is.
func (b *Book) Page(page string) *Page { return (*b.pages.Load())[page] }

// Pages returns all pages about which something is ordered.
func (b *Book) Pages() map[string]*Page { return *b.pages.Load() }

// Limits returns the limits of a page that are ordered.
func (b *Book) Limits(page string) message.Limits {
	if p := b.Page(page); p != nil {
		return p.Limits
	}
	return message.Limits{}
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
	before := make(chan int, 1)
	go func() { before <- count(ctx, broker, log) }()
	read, first, known := 0, math.MaxInt, false // of those that there were when it began
	for deliveries := sub.Deliveries(); ; {
		select {
		case first = <-before:
		case d, ok := <-deliveries:
			if !ok {
				return nil
			}
			read++
			if o, err := decode(d.Body); err != nil { // of a later version, or somebody else's
				log.WarnContext(ctx, "order cannot be read; it has no effect", "id", d.ID, "err", err)
			} else {
				b.Apply(o)
				changed(o)
			}
			_ = d.Ack() // a stream's: it makes room for more
		}
		if !known && read >= first {
			close(b.known)
			known = true
		}
	}
}

// count returns how many orders there are. It waits for the broker, which on a first start
// declares its queues for some seconds. When ctx ends before, that is more than will come.
func count(ctx context.Context, broker queue.Broker, log *slog.Logger) int {
	for {
		info, err := broker.Inspect(ctx, broker.Topology().Orders())
		if err == nil {
			return info.Ready
		}
		if ctx.Err() == nil {
			log.WarnContext(ctx, "it is not known how many orders there are; asking again", "err", err)
		}
		select {
		case <-ctx.Done():
			return math.MaxInt
		case <-time.After(askAgain):
		}
	}
}

// Apply has an order counted. Call it from one goroutine.
func (b *Book) Apply(o Order) {
	pages := maps.Clone(*b.pages.Load())
	pages[o.Page] = pages[o.Page].with(o)
	b.pages.Store(&pages)
}
