package rabbit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chatclub/internal/queue"
)

// sharers is the least number of callers that can share the window: each hands the
// writer no more than its part at a time.
const sharers = 8

// Publish queues msgs: see queue.Publisher. A message that RabbitMQ could
// never take is refused before any of them is sent. It returns at most a
// write's time-out after ctx has ended. A queue of the topology that turns out
// to be missing is declared again, for the next try.
func (b *Broker) Publish(ctx context.Context, msgs ...queue.Message) error {
	if err := queue.ValidateAll(b.cfg.Topology, msgs); err != nil {
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
	var failed []failure
	var last *session
	for len(items) > 0 {
		err := ctx.Err()
		if err == nil {
			if last, err = b.publishing.session(ctx, b.closing); err == nil {
				items, err = b.publishOn(ctx, last, items, &failed)
			}
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, queue.ErrClosed) {
			err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
		}
		return b.publishError(len(msgs), failed, items, fmt.Errorf("publish %d messages: %w", len(items), err))
	}
	missing := func(f failure) bool {
		_, ours := b.specs[b.cfg.Topology.Target(f.item.Message)]
		return ours && errors.Is(f.err, queue.ErrUnroutable)
	}
	if i := slices.IndexFunc(failed, missing); i >= 0 {
		b.declareAgain(last, b.cfg.Topology.Target(failed[i].item.Message)) // for whoever publishes later
	}
	return b.publishError(len(msgs), failed, nil, nil)
}

// failure is a message that the broker has answered for, and does not have.
type failure struct {
	item *item
	err  error
}

// publishError is the error of a call to Publish of n messages: of those that
// failed, and of those left when err ended it.
func (b *Broker) publishError(n int, failed []failure, left []*item, err error) error {
	if len(failed) == 0 && err == nil {
		return nil
	}
	e := &queue.PublishError{Errs: make([]error, n)}
	all := make([]error, 0, len(failed)+1)
	for _, f := range failed {
		e.Errs[f.item.place] = fmt.Errorf("publish to %q: %w", b.cfg.Topology.Target(f.item.Message), f.err)
		all = append(all, e.Errs[f.item.place])
	}
	for _, it := range left {
		e.Errs[it.place] = err
	}
	e.Err = errors.Join(append(all, err)...)
	return e
}

// publishOn publishes items on one session. It returns those to publish again,
// in order, when the session was lost or is blocked, and an error when ctx
// ended; those are then what is not known to be confirmed.
func (b *Broker) publishOn(ctx context.Context, s *session, items []*item, failed *[]failure) ([]*item, error) {
	f := flight{broker: b, session: s}
	rest, err := f.send(ctx, items)
	for err == nil && len(f.open) > 0 {
		err = f.collect(ctx)
	}
	if err != nil {
		for _, c := range f.open {
			o := c.outcome()
			f.lost, f.failed = append(f.lost, o.lost...), append(f.failed, o.failed...)
		}
		b.abandon(f.open) //nolint:contextcheck // it outlives ctx on purpose: the places come back when the confirms do
	}
	*failed = append(*failed, f.failed...)
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
	open    []*chunk  // written and not yet collected, in order
	lost    []*item   // collected, and to be published again
	failed  []failure // collected
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
	o := f.broker.collect(f.open[0])
	f.open[0].writer.told(f.open[0])
	f.open = f.open[1:]
	f.lost, f.failed = append(f.lost, o.lost...), append(f.failed, o.failed...)
	return nil
}

// hand gives items, whose places in the window are taken, to the writer. The
// chunk is nil when the session is of no use now, or ctx has ended.
func (b *Broker) hand(ctx context.Context, s *session, items []*item) (*chunk, error) {
	if b.publishing.isBlocked() {
		return nil, nil //nolint:nilnil // no error: the caller waits for better
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
	for ; c.decided < len(c.items); c.decided++ { // those before were waited for by an earlier call
		it := c.items[c.decided]
		if it.written == nil {
			return nil // it and those after it were not written
		}
		select {
		case <-it.written.confirm.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !c.writer.ch.IsClosed() { // the broker has decided, not the library
			c.writer.progress.touch()
		}
	}
	return nil
}

// outcome is the state of a chunk's items; those in neither list are confirmed.
type outcome struct {
	lost      []*item // undecided, or the session ended first
	failed    []failure
	confirmed int // of those that this call wrote
}

// outcome returns what is known now. It can be asked again later.
func (c *chunk) outcome() outcome {
	select {
	case <-c.sent:
	default:
		return outcome{lost: c.items} // the writer has them
	}
	var o outcome
	var confirmed []*item
	for _, it := range c.items {
		switch {
		case !it.isDecided():
			o.lost = append(o.lost, it)
		case it.written.confirm.Acked():
			confirmed = append(confirmed, it)
		case c.writer.ch.IsClosed(): // the library has decided, not the broker
			o.lost = append(o.lost, it)
		default:
			o.failed = append(o.failed, failure{item: it, err: queue.ErrRefused})
		}
	}
	o.confirmed = count(confirmed)
	returned := c.writer.takeReturned(confirmed)
	o.confirmed -= count(returned)
	for _, it := range returned {
		o.failed = append(o.failed, failure{item: it, err: queue.ErrUnroutable})
	}
	return o
}

// count returns the number of items that their own call wrote.
func count(items []*item) (n int) {
	for _, it := range items {
		if !it.shared {
			n++
		}
	}
	return n
}

// collect returns the outcome of a decided chunk and frees its places in the
// window. Only a lost message ends the session. A refused one is the matter of
// its queue: others on the same channel go on.
func (b *Broker) collect(c *chunk) outcome {
	o := c.outcome()
	if len(o.lost) > 0 {
		c.writer.session.drop(errors.New("messages not confirmed"))
	} else {
		b.metrics.confirm.Observe(time.Since(c.at).Seconds())
	}
	c.writer.unconfirmed.Add(-int64(len(c.items)))
	b.window.Release(int64(len(c.items)))
	b.metrics.published.Add(float64(o.confirmed))
	for _, f := range o.failed {
		if errors.Is(f.err, queue.ErrRefused) {
			b.metrics.refused.Inc()
		} else {
			b.metrics.returned.Inc()
		}
	}
	return o
}

// abandon keeps watch over chunks whose caller is gone: their places in the
// window are free only when the broker has decided, or the session has ended, but for
// what an earlier call wrote.
func (b *Broker) abandon(chunks []*chunk) {
	if len(chunks) == 0 {
		return
	}
	for _, c := range chunks {
		c.writer.abandon(c)
	}
	b.calls.Go(func() {
		for _, c := range chunks {
			b.leaveShared(c)
		}
		chunks = slices.DeleteFunc(chunks, func(c *chunk) bool { return len(c.items) == 0 })
		for _, c := range chunks {
			_ = c.wait(context.Background()) // ends with the session at the latest
			c.writer.decide(c, b.collect(c))
		}
	})
}

// leaveShared leaves those items to the watch over the call that wrote them: who publishes
// the same again and again takes their places once.
func (b *Broker) leaveShared(c *chunk) {
	<-c.sent
	n := int64(len(c.items))
	isShared := func(it *item) bool { return it.shared }
	c.decided = len(slices.DeleteFunc(slices.Clone(c.items[:c.decided]), isShared))
	c.items = slices.DeleteFunc(slices.Clone(c.items), isShared)
	n -= int64(len(c.items))
	c.writer.unconfirmed.Add(-n)
	b.window.Release(n)
}
