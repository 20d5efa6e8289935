package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chatclub/internal/queue"
)

const (
	// maxWindow bounds Config.Window: what a session may have to publish again.
	maxWindow = 1 << 16
	// sharers is how many callers can share the window at least: each hands the
	// writer no more than its part at a time.
	sharers = 8
	// maxBody is what RabbitMQ 4 accepts by default. It closes the channel of
	// whoever sends more, and would again at each new try.
	maxBody = 16 << 20
	// maxName is the length of a short string in AMQP 0-9-1, section 4.2.5.3.
	maxName = 255
)

var errNotConfirmed = errors.New("not confirmed")

// Publish queues msgs: see queue.Publisher. A message that RabbitMQ could
// never take is refused before any of them is sent. It returns at most a
// write's time-out after ctx has ended.
func (b *Broker) Publish(ctx context.Context, msgs ...queue.Message) error {
	items := make([]*item, len(msgs))
	for i, m := range msgs {
		if err := validate(m); err != nil {
			return fmt.Errorf("publish message %d of %d: %w", i+1, len(msgs), err)
		}
		items[i] = &item{Message: m}
	}
	if !b.enter() {
		return fmt.Errorf("publish %d messages: %w", len(msgs), queue.ErrClosed)
	}
	defer b.calls.Done()

	var unroutable []*item
	for len(items) > 0 {
		err := ctx.Err()
		if err == nil {
			var s *session
			if s, err = b.publishing.session(ctx, b.closing); err == nil {
				items, err = b.publishOn(ctx, s, items, &unroutable)
			}
		}
		if errors.Is(err, queue.ErrClosed) {
			return fmt.Errorf("publish %d messages: %w", len(items), err)
		}
		if err != nil {
			return fmt.Errorf("publish %d messages: %w: %w", len(items), queue.ErrUnavailable, err)
		}
	}
	var faults []error
	for _, it := range unroutable {
		faults = append(faults, fmt.Errorf("publish to %q: %w", it.Queue, queue.ErrUnroutable))
	}
	return errors.Join(faults...)
}

// validate refuses what would end the session whenever it is published.
func validate(m queue.Message) error {
	switch {
	case m.Queue == "" || len(m.Queue) > maxName:
		return fmt.Errorf("queue name has %d bytes, want 1 to %d", len(m.Queue), maxName)
	case m.ID == "" || len(m.ID) > maxName:
		return fmt.Errorf("id has %d bytes, want 1 to %d", len(m.ID), maxName)
	case len(m.Body) > maxBody:
		return fmt.Errorf("body has %d bytes, want at most %d", len(m.Body), maxBody)
	}
	size := 0
	for k, v := range m.Headers {
		if len(k) > maxName {
			return fmt.Errorf("header name has %d bytes, want at most %d", len(k), maxName)
		}
		size += len(k) + len(v)
	}
	// All headers travel in one frame, of 4096 bytes at the very least; the
	// rest of that is for names and numbers around them.
	if size > 3000 {
		return fmt.Errorf("headers have %d bytes, want at most 3000", size)
	}
	return nil
}

// publishOn publishes items on one session. It returns those to publish again,
// in order, when the session was lost or is blocked, and an error when ctx
// ended.
func (b *Broker) publishOn(ctx context.Context, s *session, items []*item, unroutable *[]*item) ([]*item, error) {
	f := flight{broker: b, session: s}
	rest, err := f.send(ctx, items)
	for err == nil && len(f.open) > 0 {
		err = f.collect(ctx)
	}
	*unroutable = append(*unroutable, f.refused...)
	if err != nil {
		b.abandon(f.open) //nolint:contextcheck // it outlives ctx on purpose: the places come back when the confirms do
		for _, c := range f.open {
			f.lost = append(f.lost, c.items...)
		}
		return append(f.lost, rest...), err
	}
	b.metrics.republished.Add(float64(len(f.lost)))
	return append(f.lost, rest...), nil
}

// flight is one call's messages on one session.
type flight struct {
	broker  *Broker
	session *session
	open    []*chunk // written and not yet collected, in order
	lost    []*item  // collected, and to be published again
	refused []*item  // collected, and unroutable
}

// send writes items as far as the session serves, and returns the rest.
func (f *flight) send(ctx context.Context, items []*item) ([]*item, error) {
	window := f.broker.window
	for len(items) > 0 && len(f.lost) == 0 && !f.session.isLost() {
		n := min(len(items), max(1, f.broker.cfg.Window/sharers))
		if !window.TryAcquire(int64(n)) {
			// Own confirms free places; to wait for others' while holding
			// places could wait for ever.
			if len(f.open) > 0 {
				if err := f.collect(ctx); err != nil {
					return items, err
				}
				continue
			}
			if err := window.Acquire(ctx, int64(n)); err != nil {
				return items, err
			}
		}
		c, err := f.broker.hand(ctx, f.session, items[:n])
		if c == nil {
			window.Release(int64(n))
			return items, err
		}
		f.open, items = append(f.open, c), items[n:]
	}
	return items, nil
}

// collect waits for the oldest open chunk.
func (f *flight) collect(ctx context.Context) error {
	if err := f.open[0].wait(ctx); err != nil {
		return err
	}
	lost, refused := f.broker.collect(f.open[0])
	f.open = f.open[1:]
	f.lost, f.refused = append(f.lost, lost...), append(f.refused, refused...)
	return nil
}

// hand gives items, whose places in the window are taken, to the writer. The
// chunk is nil when the session is of no use now, or ctx has ended.
func (b *Broker) hand(ctx context.Context, s *session, items []*item) (*chunk, error) {
	if b.publishing.isBlocked() {
		return nil, nil //nolint:nilnil // no fault: the caller waits for better
	}
	c := &chunk{items: items, writer: s.writer, sent: make(chan struct{})}
	select {
	case s.writer.in <- c:
		return c, nil
	case <-s.lost:
		return nil, nil //nolint:nilnil // as above
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// wait returns when every item of c is decided, or ctx ends.
func (c *chunk) wait(ctx context.Context) error {
	select {
	case <-c.sent:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, it := range c.items {
		if it.confirm == nil {
			return nil // it and those after it were not written
		}
		select {
		case <-it.confirm.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if it.confirm.Acked() {
			c.writer.touch()
		}
	}
	return nil
}

// collect sorts the items of a decided chunk and frees their places in the
// window. A message that was not confirmed ends the session: RabbitMQ's nack
// says that a queue has no leader now, and 3.10 then refuses everything on
// that channel.
func (b *Broker) collect(c *chunk) (lost, refused []*item) {
	confirmed := make([]*item, 0, len(c.items))
	for _, it := range c.items {
		if it.confirm != nil && it.confirm.Acked() {
			confirmed = append(confirmed, it)
		} else {
			lost = append(lost, it)
		}
	}
	if len(lost) > 0 {
		c.writer.session.drop(errNotConfirmed)
	} else {
		b.metrics.confirm.Observe(time.Since(c.at).Seconds())
	}
	refused = c.writer.takeRefused(confirmed)
	c.writer.unconfirmed.Add(-int64(len(c.items)))
	b.window.Release(int64(len(c.items)))
	b.metrics.published.Add(float64(len(confirmed) - len(refused)))
	b.metrics.returned.Add(float64(len(refused)))
	return lost, refused
}

// abandon keeps watch over chunks whose caller is gone: their places in the
// window are free only when the broker has decided, or the session has ended.
func (b *Broker) abandon(chunks []*chunk) {
	if len(chunks) == 0 {
		return
	}
	b.calls.Go(func() {
		for _, c := range chunks {
			_ = c.wait(context.Background()) // ends with the session at the latest
			b.collect(c)
		}
	})
}
