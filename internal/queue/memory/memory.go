// Package memory is chatclub's broker within one process: the same contract as
// RabbitMQ's quorum queues — single active consumers, prefetch, consumer
// counts, unsettled messages back to the front in order — with no sockets, no
// goroutines and no clock, so that it runs in a testing/synctest bubble. What
// it holds dies with the process: it serves the one-process quickstart and
// tests.
package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/internal/queue"
)

// Broker is a queue.Broker in memory. Make one with New. Safe for concurrent use.
type Broker struct {
	topology queue.Topology
	closed   atomic.Bool

	mu      sync.RWMutex // before any fifo's
	queues  map[string]*fifo
	delayed map[time.Duration]*delayed
	timers  map[*time.Timer]struct{} // one for each message with a delay

	published, delivered, settled atomic.Int64
}

var _ queue.Broker = (*Broker)(nil)

// New returns a broker with the topology's queues, all empty.
func New(t queue.Topology) (*Broker, error) {
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("open memory broker: %w", err)
	}
	b := &Broker{topology: t, queues: make(map[string]*fifo), delayed: make(map[time.Duration]*delayed), timers: make(map[*time.Timer]struct{})}
	for _, s := range t.Specs() {
		b.queues[s.Name] = &fifo{single: s.SingleActive}
	}
	return b, nil
}

// find returns a queue, nil if there is none of that name.
func (b *Broker) find(name string) *fifo {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.queues[name]
}

// Declare makes a queue.
func (b *Broker) Declare(_ context.Context, spec queue.Spec) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return fmt.Errorf("declare %q: %w", spec.Name, queue.ErrClosed)
	}
	if b.queues[spec.Name] == nil {
		b.queues[spec.Name] = &fifo{single: spec.SingleActive}
	}
	return nil
}

// Delete removes a lane that nobody uses. Nothing comes too late for that.
func (b *Broker) Delete(_ context.Context, name, _ string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return fmt.Errorf("delete %q: %w", name, queue.ErrClosed)
	}
	if b.topology.Has(name) {
		return fmt.Errorf("delete %q, a queue of the topology: %w", name, queue.ErrInUse)
	}
	q := b.queues[name]
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ending = true
	if len(q.subs) > 0 || q.readyLocked() > 0 {
		return fmt.Errorf("delete %q: %w", name, queue.ErrInUse)
	}
	delete(b.queues, name)
	return nil
}

// Queues lists the names of all queues, in no order.
func (b *Broker) Queues() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Collect(maps.Keys(b.queues))
}

// Delayed is how many messages wait for their delay to end.
func (b *Broker) Delayed() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.timers)
}

// delay puts a message on its queue later. Timers of one delay end in the order
// in which they began, but not their goroutines: the message goes in at the
// place that it has among those of its delay.
func (b *Broker) delay(m queue.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := m.Delay
	m.Delay = 0
	d := b.delayed[wait]
	if d == nil {
		d = &delayed{}
		b.delayed[wait] = d
	}
	d.msgs = append(d.msgs, m)
	var t *time.Timer
	t = time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, waits := b.timers[t]; waits {
			delete(b.timers, t)
			b.queues[d.msgs[0].Queue].push(d.msgs[0])
			d.msgs = d.msgs[1:]
		}
	})
	b.timers[t] = struct{}{}
}

// EndDelays puts every message that waits for its delay to end on its queue now.
func (b *Broker) EndDelays() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopTimersLocked()
	for _, d := range b.delayed {
		for _, m := range d.msgs {
			b.queues[m.Queue].push(m)
		}
		d.msgs = nil
	}
}

func (b *Broker) stopTimersLocked() {
	for t := range b.timers {
		t.Stop()
	}
	clear(b.timers)
}

// Publish queues every message at once; there is nothing to wait for.
func (b *Broker) Publish(ctx context.Context, msgs ...queue.Message) error {
	if err := queue.ValidateAll(b.topology, msgs); err != nil {
		return err
	}
	if b.closed.Load() {
		return fmt.Errorf("publish: %w", queue.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publish: %w: %w", queue.ErrUnavailable, err)
	}
	var errs []error // of each message, once there is one
	for i, m := range msgs {
		q := b.find(m.Queue)
		if q == nil || m.Delay == 0 && !q.push(m) {
			if errs == nil {
				errs = make([]error, len(msgs))
			}
			errs[i] = fmt.Errorf("publish to %q: %w", m.Queue, queue.ErrUnroutable)
			continue
		}
		b.published.Add(1)
		if m.Delay > 0 {
			b.delay(m)
		}
	}
	return queue.NewPublishError(errs)
}

// Operations is how many messages were published, delivered and settled so
// far, each counted as one: what a broker on a network would have to do.
func (b *Broker) Operations() int64 {
	return b.published.Load() + b.delivered.Load() + b.settled.Load()
}

// Consume subscribes to a queue.
func (b *Broker) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	if opts.Prefetch < 1 {
		return nil, fmt.Errorf("consume %q: prefetch %d must be at least 1", name, opts.Prefetch)
	}
	q := b.find(name)
	if q == nil {
		return nil, fmt.Errorf("consume %q: %w", name, queue.ErrUnroutable)
	}
	s := &subscription{
		broker: b, queue: q, prefetch: opts.Prefetch,
		out:  make(chan *queue.Delivery, opts.Prefetch),
		held: make(map[uint64]item, opts.Prefetch),
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if b.closed.Load() {
		return nil, fmt.Errorf("consume %q: %w", name, queue.ErrClosed)
	}
	q.subs = append(q.subs, s)
	q.pumpLocked()
	return s, nil
}

// Inspect returns the state of a queue.
func (b *Broker) Inspect(_ context.Context, name string) (queue.Info, error) {
	q := b.find(name)
	if q == nil {
		return queue.Info{}, fmt.Errorf("inspect %q: %w", name, queue.ErrUnroutable)
	}
	if b.closed.Load() {
		return queue.Info{}, fmt.Errorf("inspect %q: %w", name, queue.ErrClosed)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	info := queue.Info{Ready: q.readyLocked(), Consumers: len(q.subs)}
	if q.single {
		info.Consumers = min(info.Consumers, 1)
	}
	return info, nil
}

// Topology is the set of queues given to New.
func (b *Broker) Topology() queue.Topology { return b.topology }

// Ready returns nil until Close.
func (b *Broker) Ready() error {
	if b.closed.Load() {
		return queue.ErrClosed
	}
	return nil
}

// IsSilent returns false: what is asked is answered at once.
func (b *Broker) IsSilent() bool { return false }

// Close ends every subscription. The messages stay readable to nobody.
func (b *Broker) Close() error {
	b.closed.Store(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopTimersLocked()
	for _, q := range b.queues {
		q.mu.Lock()
		for len(q.subs) > 0 {
			q.subs[0].closeLocked()
		}
		q.mu.Unlock()
	}
	return nil
}

// delayed is the messages of one delay, in order.
type delayed struct{ msgs []queue.Message }

// item is a message in its queue; seq is its place, given once.
type item struct {
	msg         queue.Message
	seq         uint64
	redelivered bool
}

// fifo is one queue. Messages leave in the order of seq: what came back unsettled waits in
// returned, ahead of all that was never delivered, because every seq in it is lower.
type fifo struct {
	single bool

	mu       sync.Mutex
	ending   bool // somebody has tried to delete it: it takes nothing any more
	nextSeq  uint64
	returned []item // sorted by seq
	fresh    []item
	head     int // fresh[:head] is delivered and zeroed
	subs     []*subscription
	turn     int // which subscription the next message is offered to first
}

// push reports whether the queue takes a message.
func (q *fifo) push(m queue.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ending {
		return false
	}
	q.nextSeq++
	q.fresh = append(q.fresh, item{msg: m, seq: q.nextSeq})
	q.pumpLocked()
	return true
}

func (q *fifo) readyLocked() int { return len(q.returned) + len(q.fresh) - q.head }

func (q *fifo) popLocked() item {
	if len(q.returned) > 0 {
		it := q.returned[0]
		q.returned[0] = item{}
		q.returned = q.returned[1:]
		return it
	}
	it := q.fresh[q.head]
	q.fresh[q.head] = item{}
	q.head++
	// Half of the slice is spent: move the rest down, so that a long-lived
	// queue does not grow. Each message is moved at most once on average.
	if q.head*2 >= len(q.fresh) {
		n := copy(q.fresh, q.fresh[q.head:])
		clear(q.fresh[n:])
		q.fresh, q.head = q.fresh[:n], 0
	}
	return it
}

// giveBackLocked puts an unsettled message where it came from.
func (q *fifo) giveBackLocked(it item) {
	it.redelivered = true
	i, _ := slices.BinarySearchFunc(q.returned, it.seq, func(a item, seq uint64) int {
		if a.seq < seq {
			return -1
		}
		return 1
	})
	q.returned = slices.Insert(q.returned, i, it)
}

// pumpLocked delivers as long as a message waits and a subscription has room.
func (q *fifo) pumpLocked() {
	for q.readyLocked() > 0 {
		s := q.nextLocked()
		if s == nil {
			return
		}
		s.deliverLocked(q.popLocked())
	}
}

// nextLocked is the subscription to deliver to, nil when none has room:
// the first one on a single-active queue, otherwise each in turn.
func (q *fifo) nextLocked() *subscription {
	if q.single {
		if len(q.subs) > 0 && q.subs[0].roomLocked() {
			return q.subs[0]
		}
		return nil
	}
	for range q.subs {
		q.turn = (q.turn + 1) % len(q.subs)
		if s := q.subs[q.turn]; s.roomLocked() {
			return s
		}
	}
	return nil
}

// subscription is one consumer. Its fields below out are guarded by queue.mu.
type subscription struct {
	broker   *Broker
	queue    *fifo
	prefetch int
	out      chan *queue.Delivery // as many places as prefetch: a send to it never blocks

	held      map[uint64]item // unsettled, by tag
	lastTag   uint64
	cancelled bool // out is closed
	closed    bool
}

func (s *subscription) roomLocked() bool { return len(s.held) < s.prefetch }

func (s *subscription) deliverLocked(it item) {
	s.broker.delivered.Add(1)
	s.lastTag++
	s.held[s.lastTag] = it
	s.out <- queue.NewDelivery(s.broker, s, s.lastTag, it.msg, it.redelivered)
}

// Deliveries is where deliveries arrive.
func (s *subscription) Deliveries() <-chan *queue.Delivery { return s.out }

// Cancel ends the deliveries.
func (s *subscription) Cancel() error {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.cancelLocked()
	s.queue.pumpLocked()
	return nil
}

func (s *subscription) cancelLocked() {
	if s.cancelled {
		return
	}
	s.cancelled = true
	s.queue.subs = slices.DeleteFunc(s.queue.subs, func(o *subscription) bool { return o == s })
	close(s.out)
}

// Return gives deliveries back.
func (s *subscription) Return(deliveries []*queue.Delivery) error {
	for _, d := range deliveries {
		if err := d.Requeue(); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the subscription; what it held goes back in order.
func (s *subscription) Close() error {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.closeLocked()
	s.queue.pumpLocked()
	return nil
}

func (s *subscription) closeLocked() {
	if s.closed {
		return
	}
	s.closed = true
	for _, it := range s.held {
		s.queue.giveBackLocked(it)
	}
	clear(s.held)
	s.cancelLocked()
	for range s.out { // deliveries nobody took are stale now
	}
}

// Ack implements queue.Settler.
func (s *subscription) Ack(tag uint64) error {
	return s.settle(tag, func(item) {})
}

// Requeue implements queue.Settler: the message goes back to its place.
func (s *subscription) Requeue(tag uint64) error {
	return s.settle(tag, s.queue.giveBackLocked)
}

func (s *subscription) settle(tag uint64, then func(item)) error {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	it, ok := s.held[tag]
	if !ok || s.broker.closed.Load() {
		return queue.ErrStale
	}
	s.broker.settled.Add(1)
	delete(s.held, tag)
	then(it)
	s.queue.pumpLocked()
	return nil
}

// Live implements queue.Settler.
func (s *subscription) Live() bool {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return !s.closed && !s.broker.closed.Load()
}
