package orders

import (
	"context"
	"errors"
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
	// inspectTimeout bounds the question how many orders there are, and inspectPause is the
	// pause until it is asked again, where the broker is away.
	inspectTimeout = 2 * time.Second
	inspectPause   = 100 * time.Millisecond
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

// count returns how many orders there are, as soon as the broker is there. When the broker
// does not say, that is more than will come, and Known stays open.
func count(ctx context.Context, broker queue.Broker, log *slog.Logger) int {
	for {
		asking, cancel := context.WithTimeout(ctx, inspectTimeout)
		info, err := broker.Inspect(asking, broker.Topology().Orders())
		cancel()
		switch {
		case err == nil:
			return info.Ready
		case !errors.Is(err, queue.ErrUnavailable):
			log.WarnContext(ctx, "it is not known how many orders there are; taking them as they come", "err", err)
			return math.MaxInt
		}
		select {
		case <-ctx.Done():
			return math.MaxInt
		case <-time.After(inspectPause):
		}
	}
}

// Apply has an order counted. Call it from one goroutine.
func (b *Book) Apply(o Order) {
	pages := maps.Clone(*b.pages.Load())
	pages[o.Page] = pages[o.Page].with(o)
	b.pages.Store(&pages)
}
