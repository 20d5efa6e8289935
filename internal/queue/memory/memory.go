// Package memory is chatclub's broker within one process: the same contract as
// quorum queues of RabbitMQ 4 — single active consumers, elected by priority,
// prefetch, consumer counts, returned messages in a FIFO of their own — with no
// sockets, so that it runs in a testing/synctest bubble. Its messages die with
// the process: it serves the one-process quickstart, tests and load tests.
package memory

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
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

	net Network
}

var _ queue.Broker = (*Broker)(nil)

// Options say which RabbitMQ the broker is like, and how far away. The zero value is
// RabbitMQ 4.0, in this process.
type Options struct {
	Network Network // nil: Direct. Close stops it
	// Any returns which of n consumers of the same priority is elected, from 0 to n-1. It is
	// called under a queue's lock. nil: it is drawn, in each broker by the same numbers.
	Any func(n int) int
	// KeepsDead has the broker elect a consumer again whose connection was lost while it was
	// outranked and held something, as RabbitMQ 4.3 does. Nobody else is delivered anything
	// while that consumer is active. It ends after queue.MaxHeld.
	KeepsDead bool
}

// New returns a broker with the topology's queues, all empty.
func New(t queue.Topology) (*Broker, error) { return NewWith(t, Options{}) }

// NewWith returns a broker with options.
func NewWith(t queue.Topology, o Options) (*Broker, error) {
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("open memory broker: %w", err)
	}
	b := &Broker{
		topology: t, net: o.Network,
		queues: make(map[string]*fifo), delayed: make(map[time.Duration]*delayed), timers: make(map[*time.Timer]struct{}),
	}
	if b.net == nil {
		b.net = Direct{}
	}
	for _, s := range t.Specs() {
		q := &fifo{name: s.Name, single: s.SingleActive, stream: s.Stream, any: o.Any, keepsDead: o.KeepsDead}
		if q.any == nil {
			q.any = rand.New(rand.NewPCG(uint64(len(b.queues)), 0)).IntN
		}
		b.queues[s.Name] = q
	}
	return b, nil
}

// find returns a queue, nil if there is none of that name.
func (b *Broker) find(name string) *fifo {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.queues[name]
}

// Queues lists the names of all queues, in no order.
func (b *Broker) Queues() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Collect(maps.Keys(b.queues))
}

// Delayed returns the number of messages whose delay has not ended.
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

// Publish queues every message. Within one process there is nothing to wait for.
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
	if len(msgs) == 0 {
		return nil
	}
	errs, left, confirmed := make([]error, len(msgs)), len(msgs), make(chan struct{})
	for i, m := range msgs {
		b.net.To(b.topology.Target(m), 1, func() {
			errs[i] = b.take(m)
			if left--; left == 0 {
				b.net.Back(func() { close(confirmed) })
			}
		})
	}
	if err := wait(ctx, confirmed); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return queue.NewPublishError(errs)
}

// take puts a message on its queue, or keeps it back for its delay.
func (b *Broker) take(m queue.Message) error {
	q := b.find(m.Queue)
	if q == nil {
		return fmt.Errorf("publish to %q: %w", m.Queue, queue.ErrUnroutable)
	}
	if m.Delay > 0 {
		b.delay(m)
	} else {
		q.push(m)
	}
	return nil
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
		broker: b, queue: q, prefetch: opts.Prefetch, priority: opts.Priority,
		out:  newPipe(),
		held: make(map[uint64]item),
	}
	if b.closed.Load() {
		return nil, fmt.Errorf("consume %q: %w", name, queue.ErrClosed)
	}
	b.net.To(name, 0, s.join)
	return s, nil
}

// Inspect returns the state of a queue.
func (b *Broker) Inspect(ctx context.Context, name string) (queue.Info, error) {
	var info queue.Info
	var err error
	answered := make(chan struct{})
	b.net.To(name, 0, func() {
		switch q := b.find(name); {
		case q == nil:
			err = queue.ErrUnroutable
		case b.closed.Load():
			err = queue.ErrClosed
		default:
			info = q.info()
		}
		b.net.Back(func() { close(answered) })
	})
	if late := wait(ctx, answered); late != nil {
		return queue.Info{}, fmt.Errorf("inspect %q: %w", name, late)
	}
	if err != nil {
		return queue.Info{}, fmt.Errorf("inspect %q: %w", name, err)
	}
	return info, nil
}

// Active returns the active subscription of a single-active queue, nil without any.
func (b *Broker) Active(name string) queue.Subscription {
	q := b.find(name)
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.active == nil {
		return nil
	}
	return q.active
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

// IsSilent returns false: every question is answered at once.
func (b *Broker) IsSilent() bool { return false }

// Close ends every subscription. Operations on their way arrive before. The messages
// stay readable to nobody.
func (b *Broker) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	b.net.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopTimersLocked()
	for _, q := range b.queues {
		q.mu.Lock()
		for len(q.subs) > 0 {
			q.subs[0].closeLocked()
			q.subs[0].removeLocked(false)
		}
		q.mu.Unlock()
	}
	return nil
}

// delayed is the messages of one delay, in order.
type delayed struct{ msgs []queue.Message }

// item is a message in its queue.
type item struct {
	msg         queue.Message
	redelivered bool
}

// fifo is one queue. Messages that came back unsettled wait in returned, ahead of all that
// was never delivered.
type fifo struct {
	name   string
	single bool
	stream bool // fresh keeps everything, and each subscription has its own place in it

	any       func(n int) int // see Options
	keepsDead bool

	mu        sync.Mutex
	returned  []item // in the order in which they came back
	fresh     []item
	head      int // fresh[:head] is delivered and zeroed
	subs      []*subscription
	turn      int           // which subscription the next message is offered to first
	active    *subscription // of a single-active queue
	outranked bool          // active gets nothing more, and is replaced once it holds nothing
}

func (q *fifo) push(m queue.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fresh = append(q.fresh, item{msg: m})
	q.pumpLocked()
}

func (q *fifo) info() queue.Info {
	q.mu.Lock()
	defer q.mu.Unlock()
	info := queue.Info{Ready: q.readyLocked(), Consumers: len(q.subs)}
	if q.single {
		info.Consumers = min(info.Consumers, 1)
	}
	return info
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

// pumpLocked delivers as long as a message waits and a subscription has room.
func (q *fifo) pumpLocked() {
	if q.stream {
		for _, s := range q.subs {
			for s.place < len(q.fresh) && s.roomLocked() {
				s.place++
				s.deliverLocked(q.fresh[s.place-1])
			}
		}
		return
	}
	q.electLocked()
	for q.readyLocked() > 0 {
		s := q.nextLocked()
		if s == nil {
			return
		}
		s.deliverLocked(q.popLocked())
	}
}

// electLocked chooses the active subscription of a single-active queue. One that is
// outranked stays until it holds nothing, also when the higher one has gone.
func (q *fifo) electLocked() {
	if !q.single || len(q.subs) == 0 {
		return
	}
	var best []*subscription // all of the highest priority
	for _, s := range q.subs {
		if len(best) > 0 && s.priority > best[0].priority {
			best = nil
		}
		if len(best) == 0 || s.priority == best[0].priority {
			best = append(best, s)
		}
	}
	if q.active != nil && best[0].priority > q.active.priority {
		q.outranked = true
	}
	if q.active == nil || q.outranked && len(q.active.held) == 0 {
		k := 0
		if len(best) > 1 {
			k = q.any(len(best))
		}
		q.active, q.outranked = best[k], false
	}
}

// nextLocked returns the subscription to deliver to, nil when none has room: the
// active one on a single-active queue, otherwise those of the highest priority
// in turn.
func (q *fifo) nextLocked() *subscription {
	if q.single {
		if q.active != nil && !q.outranked && q.active.roomLocked() {
			return q.active
		}
		return nil
	}
	next := -1
	for i := range q.subs {
		k := (q.turn + 1 + i) % len(q.subs)
		if q.subs[k].roomLocked() && (next < 0 || q.subs[k].priority > q.subs[next].priority) {
			next = k
		}
	}
	if next < 0 {
		return nil
	}
	q.turn = next
	return q.subs[next]
}

// subscription is one consumer. Its fields below out are guarded by queue.mu.
type subscription struct {
	broker   *Broker
	queue    *fifo
	prefetch int
	priority int
	out      *pipe

	place   int             // of a stream's next message
	held    map[uint64]item // unsettled, by tag
	lastTag uint64
	closed  bool        // and out with it
	isDead  bool        // see Options.KeepsDead
	end     *time.Timer // takes back what the dead consumer was given
}

func (s *subscription) roomLocked() bool { return len(s.held) < s.prefetch }

// join begins to consume. It runs at the broker.
func (s *subscription) join() {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if s.broker.closed.Load() {
		s.closeLocked()
	}
	if !s.closed {
		s.queue.subs = append(s.queue.subs, s)
		s.queue.pumpLocked()
	}
}

func (s *subscription) deliverLocked(it item) {
	s.lastTag++
	s.held[s.lastTag] = it
	if s.isDead && s.end == nil {
		s.end = time.AfterFunc(queue.MaxHeld, func() {
			s.queue.mu.Lock()
			defer s.queue.mu.Unlock()
			s.removeLocked(false)
			s.queue.pumpLocked()
		})
	}
	d := queue.NewDelivery(s.broker, s, s.lastTag, it.msg, it.redelivered)
	s.broker.net.Deliver(s.queue.name, func() { s.out.Push(d) })
}

// Deliveries returns the channel of the deliveries.
func (s *subscription) Deliveries() <-chan *queue.Delivery { return s.out.Out() }

// Close ends the subscription. The deliveries that it held go back in their order, behind
// earlier returns, once the broker has heard of it.
func (s *subscription) Close() error {
	s.leave(false)
	return nil
}

// Lose ends the subscription as the loss of its connection does: see Options.KeepsDead.
func (s *subscription) Lose() { s.leave(true) }

func (s *subscription) leave(isLost bool) {
	s.Sever()
	s.broker.net.To(s.queue.name, 0, func() {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		q := s.queue
		if !isLost && slices.Contains(q.subs, s) && q.active != nil && q.active != s && q.active.priority <= s.priority {
			q.outranked = true // by the heir of who leaves: see package rabbit
		}
		s.removeLocked(isLost && q.keepsDead)
		q.pumpLocked()
	})
}

// Sever makes what was delivered stale. Close or Lose does the rest.
func (s *subscription) Sever() {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.closeLocked()
}

// closeLocked makes the deliveries stale.
func (s *subscription) closeLocked() {
	s.closed = true
	s.out.Close() // deliveries nobody took are stale now
}

// removeLocked takes the subscription off its queue, and returns what it held. Where
// staysDead, a consumer that is outranked and holds something can be elected again. It runs
// at the broker.
func (s *subscription) removeLocked(staysDead bool) {
	q := s.queue
	if s.isDead && s.end != nil {
		s.end.Stop()
	}
	s.isDead = staysDead && q.active == s && q.outranked && len(s.held) > 0
	for _, tag := range slices.Sorted(maps.Keys(s.held)) {
		if q.stream {
			break
		}
		q.returned = append(q.returned, item{msg: s.held[tag].msg, redelivered: true})
	}
	clear(s.held)
	if !s.isDead {
		q.subs = slices.DeleteFunc(q.subs, func(o *subscription) bool { return o == s })
	}
	if q.active == s {
		q.active, q.outranked = nil, false
	}
}

// Ack implements queue.Settler. Over a network it is not told that it became stale on
// its way: then the message is delivered again.
func (s *subscription) Ack(tag uint64) error {
	if !s.Live() {
		return queue.ErrStale
	}
	settled := make(chan error, 1)
	s.broker.net.To(s.queue.name, 1, func() { settled <- s.settle(tag) })
	select {
	case err := <-settled:
		return err
	default: // it is on its way
		return nil
	}
}

// settle takes a message off the queue. It runs at the broker.
func (s *subscription) settle(tag uint64) error {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if _, ok := s.held[tag]; !ok {
		return queue.ErrStale
	}
	delete(s.held, tag)
	s.queue.pumpLocked()
	return nil
}

// Live implements queue.Settler.
func (s *subscription) Live() bool {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return !s.closed && !s.broker.closed.Load()
}
