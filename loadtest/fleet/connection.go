package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"chatclub/internal/queue"
)

// connection is one program's way over a network to the broker. Safe for
// concurrent use.
type connection struct {
	net  *network
	gone chan struct{} // closed when the connection ends

	mu     sync.Mutex
	killed bool
	subs   map[*netSubscription]struct{} // nil when the connection has ended
}

var _ queue.Broker = (*connection)(nil)

func (n *network) connect() *connection {
	return &connection{net: n, gone: make(chan struct{}), subs: make(map[*netSubscription]struct{})}
}

// alive reports whether the connection stands.
func (c *connection) alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// post publishes without waiting for the confirmation. It calls done when that
// has arrived.
func (c *connection) post(msgs []queue.Message, done func(error)) {
	n := c.net
	n.wire.after(n.Hop, func() {
		left := len(msgs)
		faults := make([]error, len(msgs))
		for i, m := range msgs {
			at := m.Queue
			if m.Delay > 0 {
				at = n.inner.Topology().Retry(m.Delay)
			}
			n.perform(at, 1, func() {
				faults[i] = n.take(m)
				if left--; left == 0 {
					n.wire.after(n.Hop, func() { done(queue.NewPublishError(faults)) })
				}
			})
		}
	})
}

// Publish implements queue.Publisher.
func (c *connection) Publish(ctx context.Context, msgs ...queue.Message) error {
	if err := queue.ValidateAll(c.Topology(), msgs); err != nil {
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
	c.post(msgs, func(err error) { confirmed <- err }) //nolint:contextcheck // what is on the wire arrives, whoever still waits
	select {
	case err := <-confirmed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("publish: %w: %w", queue.ErrUnavailable, ctx.Err())
	case <-c.gone:
		return fmt.Errorf("publish: %w", c.why())
	}
}

// why returns the error of a connection that has ended.
func (c *connection) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return queue.ErrUnavailable
	}
	return queue.ErrClosed
}

// Inspect implements queue.Broker.
func (c *connection) Inspect(ctx context.Context, name string) (info queue.Info, err error) {
	answered := make(chan queue.Info, 1)
	err = c.ask(ctx, "inspect", name, func() error {
		info, err := c.net.inner.Inspect(ctx, name)
		answered <- info
		return err
	})
	if err == nil {
		info = <-answered
	}
	return info, err
}

// Declare implements queue.Broker.
func (c *connection) Declare(ctx context.Context, spec queue.Spec) error {
	return c.ask(ctx, "declare", spec.Name, func() error { return c.net.inner.Declare(ctx, spec) })
}

// Delete implements queue.Broker.
func (c *connection) Delete(ctx context.Context, name, rescue string) error {
	return c.ask(ctx, "delete", name, func() error { return c.net.inner.Delete(ctx, name, rescue) })
}

// ask has the broker do something with a queue, and waits for the answer.
func (c *connection) ask(ctx context.Context, verb, name string, do func() error) error {
	if !c.alive() {
		return fmt.Errorf("%s %q: %w", verb, name, c.why())
	}
	answered := make(chan error, 1)
	c.net.wire.after(c.net.Hop, func() {
		c.net.perform(name, 0, func() {
			err := do()
			c.net.wire.after(c.net.Hop, func() { answered <- err })
		})
	})
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s %q: %w: %w", verb, name, queue.ErrUnavailable, ctx.Err())
	case <-c.gone:
		return fmt.Errorf("%s %q: %w", verb, name, c.why())
	}
}

// Topology implements queue.Broker.
func (c *connection) Topology() queue.Topology { return c.net.inner.Topology() }

// Ready implements queue.Broker.
func (c *connection) Ready() error {
	if !c.alive() {
		return c.why()
	}
	return nil
}

// IsSilent implements queue.Broker: this network loses nothing on its way.
func (c *connection) IsSilent() bool { return false }

// Close implements queue.Broker.
func (c *connection) Close() error {
	c.end(false)
	return nil
}

// Cut ends the connection as the death of its process does. Nothing that the
// process does from now on has an effect, and what it held is delivered again.
func (c *connection) Cut() { c.end(true) }

// IsDead reports whether the connection was cut.
func (c *connection) IsDead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed
}

func (c *connection) end(killed bool) {
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
func (c *connection) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	if opts.Prefetch < 1 {
		return nil, fmt.Errorf("consume %q: prefetch %d must be at least 1", name, opts.Prefetch)
	}
	s := &netSubscription{connection: c, name: name, out: make(chan *queue.Delivery, opts.Prefetch), cancelled: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subs == nil {
		return nil, fmt.Errorf("consume %q: %w", name, queue.ErrClosed)
	}
	if _, err := c.net.inner.Inspect(context.Background(), name); err != nil {
		return nil, err
	}
	c.subs[s] = struct{}{}
	c.net.wire.after(c.net.Hop, func() { c.net.perform(name, 0, func() { s.begin(opts) }) })
	return s, nil
}

// netSubscription is one consumer.
type netSubscription struct {
	connection *connection
	name       string
	out        chan *queue.Delivery // as many places as prefetch: a send to it never blocks
	cancelled  chan struct{}        // closed when out is

	mu         sync.Mutex
	inner      queue.Subscription // nil until the broker has heard of it
	cancelling bool
	ended      bool // out is closed
	closed     bool
}

// begin runs at the broker.
func (s *netSubscription) begin(opts queue.ConsumeOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	n := s.connection.net
	inner, err := n.inner.Consume(s.name, opts)
	if err != nil {
		return // the broker was closed meanwhile
	}
	s.inner = inner
	n.enlist(s)
	n.pumps.Go(func() {
		for d := range inner.Deliveries() {
			n.wire.at(n.work(s.name, 1).Add(n.Hop), func() { s.deliver(d) })
		}
		n.wire.at(n.work(s.name, 0).Add(n.Hop), s.endDeliveries)
	})
}

// deliver runs where the delivery arrives.
func (s *netSubscription) deliver(d *queue.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.out <- queue.NewDelivery(s.connection, &settler{s, d}, 0, d.Message, d.Redelivered)
}

// Deliveries implements queue.Subscription.
func (s *netSubscription) Deliveries() <-chan *queue.Delivery { return s.out }

// endDeliveries closes out, once.
func (s *netSubscription) endDeliveries() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endDeliveriesLocked()
}

func (s *netSubscription) endDeliveriesLocked() {
	if !s.ended {
		s.ended = true
		close(s.out)
		close(s.cancelled)
	}
}

// Cancel implements queue.Subscription. What is on its way still arrives.
func (s *netSubscription) Cancel() error {
	s.mu.Lock()
	first := !s.cancelling && !s.closed
	s.cancelling = true
	s.mu.Unlock()
	if n := s.connection.net; first {
		n.wire.after(n.Hop, func() {
			n.perform(s.name, 0, func() {
				n.strike(s)
				s.mu.Lock()
				inner := s.inner
				s.mu.Unlock()
				if inner == nil {
					n.wire.after(n.Hop, s.endDeliveries)
					return
				}
				_ = inner.Cancel() // package memory's never fails
			})
		})
	}
	<-s.cancelled
	return nil
}

// Return implements queue.Subscription. Each batch is followed by a question whether
// the broker has it.
func (s *netSubscription) Return(deliveries []*queue.Delivery) error {
	n := s.connection.net
	for batch := range slices.Chunk(deliveries, queue.ReturnBatch) {
		for _, d := range batch {
			if err := d.Requeue(); err != nil {
				return err
			}
		}
		answered := make(chan struct{})
		n.wire.after(n.Hop, func() {
			n.perform(s.name, 0, func() { n.wire.after(n.Hop, func() { close(answered) }) })
		})
		<-answered
	}
	return nil
}

// Close implements queue.Subscription.
func (s *netSubscription) Close() error {
	s.connection.mu.Lock()
	delete(s.connection.subs, s)
	s.connection.mu.Unlock()
	s.end()
	return nil
}

func (s *netSubscription) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for len(s.out) > 0 { // no more is sent to it
		select {
		case <-s.out:
		default:
		}
	}
	s.endDeliveriesLocked()
	n := s.connection.net
	n.wire.after(n.Hop, func() {
		s.mu.Lock()
		inner := s.inner
		s.mu.Unlock()
		if inner == nil {
			return
		}
		n.perform(s.name, 0, func() { // after the acknowledgements sent before
			n.strike(s)
			_ = inner.Close() // package memory's never fails
		})
	})
}

// settler sends what becomes of one delivery to the broker.
type settler struct {
	sub   *netSubscription
	inner *queue.Delivery
}

// Ack implements queue.Settler.
func (s *settler) Ack(uint64) error { return s.settle(s.inner.Ack) }

func (s *settler) settle(do func() error) error {
	if !s.Live() {
		return queue.ErrStale
	}
	n := s.sub.connection.net
	n.wire.after(n.Hop, func() {
		n.perform(s.sub.name, 1, func() {
			_ = do() // stale when the connection ended meanwhile; then it is delivered again
		})
	})
	return nil
}

// Requeue implements queue.Settler.
func (s *settler) Requeue(uint64) error { return s.settle(s.inner.Requeue) }

func (s *settler) Live() bool {
	s.sub.mu.Lock()
	defer s.sub.mu.Unlock()
	return !s.sub.closed
}
