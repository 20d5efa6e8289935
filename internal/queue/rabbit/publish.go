package rabbit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chatclub/internal/queue"
)

const (
	// maxWindow bounds Config.Window: what a session may have to publish again.
	maxWindow = 1 << 16
	// sharers is how many callers can share the window at least: each hands the
	// writer no more than its part at a time.
	sharers = 8
)

var errNotConfirmed = errors.New("not confirmed")

// Publish queues msgs: see queue.Publisher. A message that RabbitMQ could
// never take is refused before any of them is sent. It returns at most a
// write's time-out after ctx has ended. A queue of the topology that turns out
// to be missing is declared again, for the next try.
func (b *Broker) Publish(ctx context.Context, msgs ...queue.Message) error {
	if err := queue.ValidateAll(msgs); err != nil {
		return err
	}
	if !b.enter() {
		return fmt.Errorf("publish %d messages: %w", len(msgs), queue.ErrClosed)
	}
	defer b.calls.Done()
	items := make([]*item, len(msgs))
	for i, m := range msgs {
		items[i] = &item{Message: m, place: i}
	}
	var unroutable []*item
	var last *session
	for len(items) > 0 {
		err := ctx.Err()
		if err == nil {
			if last, err = b.publishing.session(ctx, b.closing); err == nil {
				items, err = b.publishOn(ctx, last, items, &unroutable)
			}
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, queue.ErrClosed) {
			err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
		}
		return faults(len(msgs), unroutable, items, fmt.Errorf("publish %d messages: %w", len(items), err))
	}
	if slices.ContainsFunc(unroutable, func(it *item) bool { return b.ours[it.Queue] }) {
		b.declareAgain(last) // for the next caller
	}
	return faults(len(msgs), unroutable, nil, nil)
}

// faults returns the error of a call to Publish of n messages. It covers those
// that no queue took, and those left when err ended the call.
func faults(n int, unroutable, left []*item, err error) error {
	if len(unroutable) == 0 && err == nil {
		return nil
	}
	e := &queue.PublishError{Faults: make([]error, n)}
	words := make([]error, 0, len(unroutable)+1)
	for _, it := range unroutable {
		e.Faults[it.place] = fmt.Errorf("publish to %q: %w", it.Queue, queue.ErrUnroutable)
		words = append(words, e.Faults[it.place])
	}
	for _, it := range left {
		e.Faults[it.place] = err
	}
	e.Err = errors.Join(append(words, err)...)
	return e
}

// publishOn publishes items on one session. When the session was lost or is
// blocked it returns those to publish again, in order. When ctx ended it returns
// an error, and with it those that are not known to be confirmed.
func (b *Broker) publishOn(ctx context.Context, s *session, items []*item, unroutable *[]*item) ([]*item, error) {
	f := flight{broker: b, session: s}
	rest, err := f.send(ctx, items)
	for err == nil && len(f.open) > 0 {
		err = f.collect(ctx)
	}
	if err != nil {
		for _, c := range f.open {
			undecided, refused := c.soFar()
			f.lost, f.refused = append(f.lost, undecided...), append(f.refused, refused...)
		}
		b.abandon(f.open) //nolint:contextcheck // it outlives ctx on purpose: the places come back when the confirms do
	}
	*unroutable = append(*unroutable, f.refused...)
	if err != nil {
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

// soFar sorts the items of a chunk whose caller no longer waits.
func (c *chunk) soFar() (undecided, refused []*item) {
	select {
	case <-c.sent:
	default:
		return c.items, nil // the writer has them
	}
	var confirmed []*item
	for _, it := range c.items {
		if it.confirm != nil && it.confirm.Acked() {
			confirmed = append(confirmed, it)
		} else {
			undecided = append(undecided, it)
		}
	}
	return undecided, c.writer.takeRefused(confirmed)
}

// collect sorts the items of a decided chunk and frees their places in the
// window. A message that was not confirmed ends the session: by a nack RabbitMQ
// says that a queue has no leader now. After that 3.10 refuses everything on
// that channel.
func (b *Broker) collect(c *chunk) (lost, refused []*item) {
	lost, refused = c.soFar()
	if len(lost) > 0 {
		c.writer.session.drop(errNotConfirmed)
	} else {
		b.metrics.confirm.Observe(time.Since(c.at).Seconds())
	}
	c.writer.unconfirmed.Add(-int64(len(c.items)))
	b.window.Release(int64(len(c.items)))
	b.metrics.published.Add(float64(len(c.items) - len(lost) - len(refused)))
	b.metrics.returned.Add(float64(len(refused)))
	return lost, refused
}

// abandon keeps watch over chunks whose caller is gone. Their places in the
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
