// Package chaos makes the connections of a dispatcher fail that runs in this
// process: to the broker, as when the process is killed, and to the platform. The
// load test and the demonstration do so.
package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"chatclub/internal/queue"
)

// Link is one dispatcher's connection to a broker that stays open. It can be cut as
// the broker sees it when a process dies: held messages return, and nothing more is
// published or settled. NewLink makes one. Safe for concurrent use.
type Link struct {
	queue.Broker

	mu   sync.Mutex
	dead bool
	subs []queue.Subscription
}

// NewLink returns a connection over a broker.
func NewLink(b queue.Broker) *Link { return &Link{Broker: b} }

// Consume implements queue.Broker.
func (l *Link) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, fmt.Errorf("consume %q: %w", name, queue.ErrClosed)
	}
	s, err := l.Broker.Consume(name, opts)
	if err == nil {
		l.subs = append(l.subs, s)
	}
	return s, err
}

// Publish implements queue.Publisher. To publish nothing never fails: a mover
// whose deliveries are all stale is done with them.
func (l *Link) Publish(ctx context.Context, msgs ...queue.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	if l.IsDead() {
		return fmt.Errorf("publish: %w", queue.ErrClosed)
	}
	return l.Broker.Publish(ctx, msgs...)
}

// Inspect implements queue.Broker.
func (l *Link) Inspect(ctx context.Context, name string) (queue.Info, error) {
	if l.IsDead() {
		return queue.Info{}, fmt.Errorf("inspect %q: %w", name, queue.ErrClosed)
	}
	return l.Broker.Inspect(ctx, name)
}

// Close leaves the broker to the others.
func (l *Link) Close() error { return nil }

// IsDead reports whether it was cut.
func (l *Link) IsDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Has reports whether a subscription was made on it.
func (l *Link) Has(s queue.Subscription) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.subs, s)
}

// Cut cuts it.
func (l *Link) Cut() {
	l.mu.Lock()
	l.dead = true
	subs := l.subs
	l.mu.Unlock()
	// First all at once, because the dead settles nothing while Close gives its queues to
	// others one by one. RabbitMQ's deliveries become stale a moment later.
	for _, s := range subs {
		if s, ok := s.(interface{ Sever() }); ok {
			s.Sever()
		}
	}
	for _, s := range subs {
		if s, ok := s.(interface{ Lose() }); ok {
			s.Lose()
			continue
		}
		_ = s.Close() // never fails
	}
}
