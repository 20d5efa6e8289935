package fleet

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"chatclub/internal/queue"
)

// link is one dispatcher's connection to a broker in memory, so that it can be
// cut as the broker sees it when a process dies: what was held returns, and
// nothing more is published or settled. Safe for concurrent use.
type link struct {
	queue.Broker

	mu   sync.Mutex
	dead bool
	subs []queue.Subscription
}

// Consume implements queue.Broker.
func (l *link) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
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

// Publish implements queue.Publisher. To publish nothing never fails: who only
// has deliveries to move that are stale is done with them.
func (l *link) Publish(ctx context.Context, msgs ...queue.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	if l.isDead() {
		return fmt.Errorf("publish: %w", queue.ErrClosed)
	}
	return l.Broker.Publish(ctx, msgs...)
}

// Inspect implements queue.Broker.
func (l *link) Inspect(ctx context.Context, name string) (queue.Info, error) {
	if l.isDead() {
		return queue.Info{}, fmt.Errorf("inspect %q: %w", name, queue.ErrClosed)
	}
	return l.Broker.Inspect(ctx, name)
}

// Close leaves the broker to the others.
func (l *link) Close() error { return nil }

func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// cut ends the connection.
func (l *link) cut() {
	l.mu.Lock()
	l.dead = true
	subs := l.subs
	l.mu.Unlock()
	for _, s := range subs {
		_ = s.Close() // never fails
	}
}

// over makes a dead dispatcher's calls fail before they are made. Those
// in flight stay made.
func (l *link) over(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if l.isDead() {
			return nil, queue.ErrClosed
		}
		return rt.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
