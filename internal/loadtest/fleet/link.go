package fleet

import (
	"context"
	"fmt"
	"sync"

	"chatclub/internal/queue"
)

// link is one dispatcher's connection to the broker in memory. It can be cut as
// the broker sees it when a process dies: what was held returns, and nothing more
// is published or settled.
type link interface {
	queue.Broker
	cut()
	isDead() bool
}

// direct is a link without a network. Safe for concurrent use.
type direct struct {
	queue.Broker

	mu   sync.Mutex
	dead bool
	subs []queue.Subscription
}

// Consume implements queue.Broker.
func (l *direct) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
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
func (l *direct) Publish(ctx context.Context, msgs ...queue.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	if l.isDead() {
		return fmt.Errorf("publish: %w", queue.ErrClosed)
	}
	return l.Broker.Publish(ctx, msgs...)
}

// Inspect implements queue.Broker.
func (l *direct) Inspect(ctx context.Context, name string) (queue.Info, error) {
	if l.isDead() {
		return queue.Info{}, fmt.Errorf("inspect %q: %w", name, queue.ErrClosed)
	}
	return l.Broker.Inspect(ctx, name)
}

// Declare implements queue.Broker.
func (l *direct) Declare(ctx context.Context, spec queue.Spec) error {
	if l.isDead() {
		return fmt.Errorf("declare %q: %w", spec.Name, queue.ErrClosed)
	}
	return l.Broker.Declare(ctx, spec)
}

// Delete implements queue.Broker.
func (l *direct) Delete(ctx context.Context, name string) error {
	if l.isDead() {
		return fmt.Errorf("delete %q: %w", name, queue.ErrClosed)
	}
	return l.Broker.Delete(ctx, name)
}

// Close leaves the broker to the others.
func (l *direct) Close() error { return nil }

func (l *direct) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// cut ends the connection.
func (l *direct) cut() {
	l.mu.Lock()
	l.dead = true
	subs := l.subs
	l.mu.Unlock()
	for _, s := range subs {
		_ = s.Close() // never fails
	}
}
