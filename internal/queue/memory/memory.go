// Package memory is chatclub's broker within one process. Its contract is that
// of RabbitMQ's quorum queues: single active consumers, prefetch, consumer
// counts, unsettled messages back to the front in order. It has no sockets, no
// goroutines and no clock, so that it runs in a testing/synctest bubble. Its
// messages die with the process, so it serves the one-process quickstart and
// tests.
package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"chatclub/internal/queue"
)

// Broker is a queue.Broker in memory. Make one with New. Safe for concurrent use.
type Broker struct {
	topology queue.Topology
	queues   map[string]*fifo // never changes after New
	closed   atomic.Bool

	published, delivered, settled atomic.Int64
}

var _ queue.Broker = (*Broker)(nil)

// New returns a broker with the topology's queues, all empty.
func New(t queue.Topology) (*Broker, error) {
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("open memory broker: %w", err)
	}
	b := &Broker{topology: t, queues: make(map[string]*fifo)}
	for _, s := range t.Specs() {
		b.queues[s.Name] = &fifo{single: s.SingleActive}
	}
	return b, nil
}

// Publish queues every message at once; there is nothing to wait for.
func (b *Broker) Publish(ctx context.Context, msgs ...queue.Message) error {
	if err := queue.ValidateAll(msgs); err != nil {
		return err
	}
	if b.closed.Load() {
		return fmt.Errorf("publish: %w", queue.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publish: %w: %w", queue.ErrUnavailable, err)
	}
	var faults []error // of each message, once there is one
	for i, m := range msgs {
		q, ok := b.queues[m.Queue]
		if !ok {
			if faults == nil {
				faults = make([]error, len(msgs))
			}
			faults[i] = fmt.Errorf("publish to %q: %w", m.Queue, queue.ErrUnroutable)
			continue
		}
		b.published.Add(1)
		q.push(m)
	}
	return queue.NewPublishError(faults)
}

// Operations returns how many messages were published, delivered and settled so
// far, each counted as one. A broker on a network would have as much to do.
func (b *Broker) Operations() int64 {
	return b.published.Load() + b.delivered.Load() + b.settled.Load()
}

// Consume subscribes to a queue.
func (b *Broker) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	if opts.Prefetch < 1 {
		return nil, fmt.Errorf("consume %q: prefetch %d must be at least 1", name, opts.Prefetch)
	}
	q, ok := b.queues[name]
	if !ok {
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

// Inspect tells the state of a queue.
func (b *Broker) Inspect(_ context.Context, name string) (queue.Info, error) {
	q, ok := b.queues[name]
	if !ok {
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

// Close ends every subscription. No one can read the messages any more.
func (b *Broker) Close() error {
	b.closed.Store(true)
	for _, q := range b.queues {
		q.mu.Lock()
		for len(q.subs) > 0 {
			q.subs[0].closeLocked()
		}
		q.mu.Unlock()
	}
	return nil
}

// item is a message in its queue; seq is its place, given once.
type item struct {
	msg         queue.Message
	seq         uint64
	redelivered bool
}

// fifo is one queue. Messages leave in the order of seq. Those that came back
// unsettled wait in returned, ahead of all that were never delivered, because
// every seq in it is lower.
type fifo struct {
	single bool

	mu       sync.Mutex
	nextSeq  uint64
	returned []item // sorted by seq
	fresh    []item
	head     int // fresh[:head] is delivered and zeroed
	subs     []*subscription
	offered  int // which subscription was offered a message last
}

func (q *fifo) push(m queue.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nextSeq++
	q.fresh = append(q.fresh, item{msg: m, seq: q.nextSeq})
	q.pumpLocked()
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

// returnLocked puts an unsettled message where it came from.
func (q *fifo) returnLocked(it item) {
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
		q.offered = (q.offered + 1) % len(q.subs)
		if s := q.subs[q.offered]; s.roomLocked() {
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

	held    map[uint64]item // unsettled, by tag
	lastTag uint64
	closed  bool
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
	s.queue.subs = slices.DeleteFunc(s.queue.subs, func(o *subscription) bool { return o == s })
	for _, it := range s.held {
		s.queue.returnLocked(it)
	}
	clear(s.held)
	for { // deliveries that were not taken are stale now
		select {
		case <-s.out:
		default:
			close(s.out)
			return
		}
	}
}

// Ack implements queue.Settler.
func (s *subscription) Ack(tag uint64) error {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if _, ok := s.held[tag]; !ok {
		return queue.ErrStale
	}
	s.broker.settled.Add(1)
	delete(s.held, tag)
	s.queue.pumpLocked()
	return nil
}

// Live implements queue.Settler.
func (s *subscription) Live() bool {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return !s.closed
}
