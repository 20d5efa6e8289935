package flow

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chatclub/internal/queue"
)

// client is one program's connection to the hub. Safe for concurrent use.
type client struct {
	hub  *hub
	gone chan struct{} // closed when the connection ends

	mu     sync.Mutex
	killed bool
	subs   map[*subscription]struct{} // nil when the connection has ended
}

var _ queue.Broker = (*client)(nil)

func (h *hub) connect() *client {
	return &client{hub: h, gone: make(chan struct{}), subs: make(map[*subscription]struct{})}
}

// alive tells whether the connection stands.
func (c *client) alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// post publishes without waiting for the confirmation; done, if any, is called
// when it has arrived.
func (c *client) post(msgs []queue.Message, done func(error)) {
	h := c.hub
	h.wire.after(hop, func() {
		left := len(msgs)
		faults := make([]error, len(msgs))
		for i, m := range msgs {
			h.perform(m.Queue, 1, func() {
				h.published.Add(1)
				h.seen(m)
				faults[i] = h.inner.Publish(context.Background(), m)
				if left--; left == 0 && done != nil {
					h.wire.after(hop, func() { done(queue.NewPublishError(faults)) })
				}
			})
		}
	})
}

// Publish implements queue.Publisher.
func (c *client) Publish(ctx context.Context, msgs ...queue.Message) error {
	if err := queue.ValidateAll(msgs); err != nil {
		return err
	}
	if !c.alive() {
		return fmt.Errorf("publish: %w", c.why())
	}
	if ctx.Err() != nil {
		return fmt.Errorf("publish: %w: %w", queue.ErrUnavailable, ctx.Err())
	}
	if len(msgs) == 0 {
		return nil
	}
	confirmed := make(chan error, 1)
	c.post(msgs, func(err error) { confirmed <- err })
	select {
	case err := <-confirmed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("publish: %w: %w", queue.ErrUnavailable, ctx.Err())
	case <-c.gone:
		return fmt.Errorf("publish: %w", c.why())
	}
}

// why is the error of a connection that has ended.
func (c *client) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return queue.ErrUnavailable
	}
	return queue.ErrClosed
}

// Inspect implements queue.Broker. It asks and waits for the answer.
func (c *client) Inspect(ctx context.Context, name string) (queue.Info, error) {
	type answer struct {
		info queue.Info
		err  error
	}
	if !c.alive() {
		return queue.Info{}, fmt.Errorf("inspect: %w", c.why())
	}
	answered := make(chan answer, 1)
	c.hub.wire.after(hop, func() {
		c.hub.perform(name, 0, func() {
			info, err := c.hub.inner.Inspect(context.Background(), name)
			c.hub.wire.after(hop, func() { answered <- answer{info, err} })
		})
	})
	select {
	case a := <-answered:
		return a.info, a.err
	case <-ctx.Done():
		return queue.Info{}, fmt.Errorf("inspect: %w: %w", queue.ErrUnavailable, ctx.Err())
	case <-c.gone:
		return queue.Info{}, fmt.Errorf("inspect: %w", c.why())
	}
}

// Topology implements queue.Broker.
func (c *client) Topology() queue.Topology { return c.hub.inner.Topology() }

// Ready implements queue.Broker.
func (c *client) Ready() error {
	if !c.alive() {
		return c.why()
	}
	return nil
}

// Close implements queue.Broker.
func (c *client) Close() error {
	c.end(false)
	return nil
}

// kill ends the connection as the death of its process does: nothing that the
// process does from now on has an effect, and what it held is delivered again.
func (c *client) kill() { c.end(true) }

func (c *client) end(killed bool) {
	c.mu.Lock()
	subs := c.subs
	c.subs = nil
	if subs != nil {
		c.killed = killed
		close(c.gone)
	}
	c.mu.Unlock()
	for s := range subs {
		s.end()
	}
}

// Consume implements queue.Broker. The broker learns of it a hop later.
func (c *client) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	if opts.Prefetch < 1 {
		return nil, fmt.Errorf("consume %q: prefetch %d must be at least 1", name, opts.Prefetch)
	}
	s := &subscription{client: c, name: name, out: make(chan *queue.Delivery, opts.Prefetch)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subs == nil {
		return nil, fmt.Errorf("consume %q: %w", name, queue.ErrClosed)
	}
	if _, err := c.hub.inner.Inspect(context.Background(), name); err != nil {
		return nil, err
	}
	c.subs[s] = struct{}{}
	c.hub.wire.after(hop, func() { c.hub.perform(name, 0, func() { s.begin(opts) }) })
	return s, nil
}

// subscription is one consumer.
type subscription struct {
	client *client
	name   string
	out    chan *queue.Delivery // as many places as prefetch: a send to it never blocks

	mu     sync.Mutex
	inner  queue.Subscription // nil until the broker has heard of it
	closed bool
}

// begin runs at the broker.
func (s *subscription) begin(opts queue.ConsumeOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	h := s.client.hub
	inner, err := h.inner.Consume(s.name, opts)
	if err != nil {
		return // the hub was closed meanwhile
	}
	s.inner = inner
	h.enlist(s)
	h.pumps.Go(func() {
		for d := range inner.Deliveries() {
			h.delivered.Add(1)
			h.wire.at(h.work(s.name, 1).Add(hop), func() { s.deliver(d) })
		}
	})
}

// deliver runs where the delivery arrives.
func (s *subscription) deliver(d *queue.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.out <- queue.NewDelivery(s.client, &settler{s, d}, 0, d.Message, d.Redelivered)
}

// Deliveries implements queue.Subscription.
func (s *subscription) Deliveries() <-chan *queue.Delivery { return s.out }

// Close implements queue.Subscription.
func (s *subscription) Close() error {
	s.client.mu.Lock()
	delete(s.client.subs, s)
	s.client.mu.Unlock()
	s.end()
	return nil
}

func (s *subscription) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for len(s.out) > 0 { // nobody else sends to it any more
		select {
		case <-s.out:
		default:
		}
	}
	close(s.out)
	h := s.client.hub
	h.wire.after(hop, func() {
		s.mu.Lock()
		inner := s.inner
		s.mu.Unlock()
		if inner == nil {
			return
		}
		h.perform(s.name, 0, func() { // after the acknowledgements sent before
			h.strike(s)
			_ = inner.Close() // package memory's never fails
		})
	})
}

// settler sends what becomes of one delivery to the broker.
type settler struct {
	sub   *subscription
	inner *queue.Delivery
}

func (s *settler) Ack(uint64) error { return s.settle(s.inner.Ack) }

func (s *settler) settle(do func() error) error {
	if !s.Live() {
		return queue.ErrStale
	}
	h := s.sub.client.hub
	h.wire.after(hop, func() {
		h.perform(s.sub.name, 1, func() {
			h.acked.Add(1)
			_ = do() // stale when the connection ended meanwhile; then it is delivered again
		})
	})
	return nil
}

func (s *settler) Live() bool {
	s.sub.mu.Lock()
	defer s.sub.mu.Unlock()
	return !s.sub.closed
}

// sleep waits in virtual time.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
