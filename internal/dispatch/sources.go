package dispatch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// spread is over how long a replica subscribes to its partitions, in random
	// order, so that replicas that start together have about as many each.
	spread = 500 * time.Millisecond
	// consumeRetry is the pause after a subscription that failed at once.
	consumeRetry = time.Second
	// feedBatch is how many deliveries reach the engine at a time.
	feedBatch = 64
	// countEvery is how often the replicas are counted.
	countEvery = 2 * time.Second
	// activeFor is how long after its last delivery a partition counts as ours:
	// the broker does not say who is the active consumer.
	activeFor = 10 * time.Second
	// leaveTime is how long a source that is given up waits for the broker once
	// its calls have ended: for what goes to other queues, and for the tokens of
	// its lanes.
	leaveTime = 2 * time.Second
)

// partition is one of the partitions, whether or not it is ours at the moment.
type partition struct {
	index int
	src   *source   // nil between two subscriptions
	since time.Time // of the first delivery of src: from then on it is ours
	last  time.Time // of the latest
}

// source is one subscription of a partition or lane, and what is held of it.
type source struct {
	queue     string
	partition *partition
	lane      *lane // nil: a partition
	sub       queue.Subscription
	prefetch  int

	first, last *held // what is held and unsettled, in order of arrival
	held        int   // messages in calls, waiting or moving
	inFlight    int   // of them in calls
	moving      int   // of them on their way to other queues

	leaving   bool      // nothing more is sent; closed once its calls have ended
	leftAt    time.Time // since when it is given up, or its last call has ended
	cancelled bool      // likewise, and what is in no call goes back at once
	ended     bool      // nothing more is delivered
	closing   bool
}

// free is how many more messages the broker may deliver.
func (s *source) free() int { return s.prefetch - s.held }

// stopped reports whether nothing of the source may be sent.
func (s *source) stopped() bool { return s.leaving || s.cancelled }

// add puts a message at the end of what is held.
func (s *source) add(m *held) {
	m.prev = s.last
	if s.last == nil {
		s.first = m
	} else {
		s.last.next = m
	}
	s.last = m
	s.held++
}

// drop takes a message out.
func (s *source) drop(m *held) {
	if m.prev == nil {
		s.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		s.last = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.prev, m.next = nil, nil
	s.held--
}

// sources is where messages come from.
type sources struct {
	partitions []*partition
	open       []*source // all that is subscribed to
	arrivals   chan []*held
	replicas   *atomic.Int64 // as the broker counts them
	quit       chan struct{} // closed when nothing more is taken
	ended      chan struct{} // closed when the engine has ended
	feeders    *sync.WaitGroup
	counter    queue.Subscription
}

func newSources(d *Dispatcher) sources {
	s := sources{
		partitions: make([]*partition, d.Broker.Topology().Partitions), arrivals: make(chan []*held),
		replicas: new(atomic.Int64), quit: make(chan struct{}), ended: make(chan struct{}), feeders: new(sync.WaitGroup),
	}
	s.replicas.Store(1)
	for i := range s.partitions {
		s.partitions[i] = &partition{index: i}
	}
	return s
}

// start subscribes to all partitions, in random order.
func (e *engine) start() {
	e.settler.start()
	e.startCounting()
	for _, p := range e.sources.partitions {
		e.reopen(p, time.Duration(e.Random()*float64(spread)))
	}
}

// startCounting subscribes to the queue whose consumers are the replicas, and
// asks for their number now and then.
func (e *engine) startCounting() {
	name := e.Broker.Topology().Dispatchers()
	sub, err := e.Broker.Consume(name, queue.ConsumeOptions{Prefetch: 1})
	if err != nil {
		e.Log.Warn("subscribe", "queue", name, "err", err)
	}
	e.sources.counter = sub
	e.sources.feeders.Go(func() {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), countEvery)
			info, err := e.Broker.Inspect(ctx, name)
			cancel()
			if err == nil {
				e.sources.replicas.Store(int64(max(1, info.Consumers)))
			}
			select {
			case <-time.After(countEvery):
			case <-e.sources.quit:
				return
			}
		}
	})
}

// reopen subscribes to a partition after a rest.
func (e *engine) reopen(p *partition, rest time.Duration) {
	e.timers.add(timer{at: e.Now().Add(rest), do: func() {
		if e.ending || p.src != nil {
			return
		}
		if p.src = e.open(e.Broker.Topology().Outbound(p.index), p, nil, e.Prefetch); p.src == nil {
			e.reopen(p, consumeRetry)
		}
	}})
}

// open subscribes to a queue; nil means that this is not possible now.
func (e *engine) open(name string, p *partition, l *lane, prefetch int) *source {
	sub, err := e.Broker.Consume(name, queue.ConsumeOptions{Prefetch: prefetch})
	if err != nil {
		e.Log.Warn("subscribe", "queue", name, "err", err)
		return nil
	}
	s := &source{queue: name, partition: p, lane: l, sub: sub, prefetch: prefetch}
	age := e.metrics.queueAge[fromPartition]
	if l != nil {
		age = e.metrics.queueAge[fromLane]
	}
	e.sources.open = append(e.sources.open, s)
	e.sources.feeders.Go(func() { e.feed(s, age) })
	return s
}

// feed hands the deliveries of a source to the engine until they end.
func (e *engine) feed(s *source, age interface{ Observe(float64) }) {
	in := s.sub.Deliveries()
	for d := range in {
		list := make([]*held, 0, min(feedBatch, 1+len(in)))
		for more := true; more; {
			list = append(list, decode(d, s))
			if m := list[len(list)-1]; m.err == nil && m.out.Time > 0 {
				age.Observe(m.out.Age(e.Now()).Seconds())
			}
			if more = len(list) < feedBatch; more {
				select {
				case d, more = <-in:
				default:
					more = false
				}
			}
		}
		select {
		case e.sources.arrivals <- list:
		case <-e.sources.ended:
			return
		}
	}
}

// decode makes a message of a delivery; here and not in the engine, because it
// is work that several goroutines can share.
func decode(d *queue.Delivery, s *source) *held {
	m := &held{delivery: d, source: s}
	if d.Headers[message.HeaderLane] != "" {
		m.out.Page, m.out.Class = d.Headers[message.HeaderLane], message.Class(d.Body)
		return m
	}
	m.out, m.err = message.DecodeOutbound(d.Body)
	if d.Headers[message.HeaderDead] != "" {
		if death, err := message.DeathFromHeaders(d.Headers); err == nil && slices.Contains(message.Reasons(), death.Reason) {
			m.death = &death
		}
	}
	return m
}

// leave gives a source up: nothing more of it is sent, and once its own calls
// have ended, and what they came to is settled, the rest goes back in order.
func (e *engine) leave(s *source, reason string) {
	if s.stopped() || s.closing {
		return
	}
	s.leaving, s.leftAt = true, e.Now()
	e.metrics.givenUp[reason].Inc()
	e.moveAttempted(s)
	if s.lane == nil { // the lanes of a partition are its owner's
		e.leaveLanes(s, reason)
	}
	e.settleSource(s)
}

// moveAttempted moves what waits of a source and failed before, because its
// attempts must travel with it.
func (e *engine) moveAttempted(s *source) {
	for l := range e.linesOf(s) {
		for _, m := range l.remove(func(m *held) bool { return m.source == s && m.out.Attempts > 0 }) {
			e.postpone(m, retryShort)
		}
	}
}

// giveUp gives a source up at once: what is in no call goes back. It is for a
// replica whose calls are not answered.
func (e *engine) giveUp(s *source, reason string) {
	if s.cancelled || s.closing {
		return
	}
	e.metrics.givenUp[reason].Inc()
	e.cancel(s)
}

// cancel ends the deliveries of a source, and returns what is in no call.
func (e *engine) cancel(s *source) {
	s.cancelled, s.leftAt = true, e.Now()
	e.sources.feeders.Go(func() {
		if err := s.sub.Cancel(); err != nil {
			e.Log.Warn("cancel subscription", "queue", s.queue, "err", err)
		}
		e.post(func(e *engine) { e.giveBack(s) })
	})
}

// giveBack returns what is held of a cancelled source and in no call.
func (e *engine) giveBack(s *source) {
	s.ended = true
	e.moveAttempted(s)
	for l := range e.linesOf(s) {
		for _, m := range l.remove(func(m *held) bool { return m.source == s }) {
			e.requeue(m)
		}
		e.pump(l)
	}
	for m := s.first; m != nil; {
		next := m.next
		if m.token {
			e.requeue(m)
		}
		m = next
	}
	e.settleSource(s)
}

// linesOf is the lines of which something of a source waits.
func (e *engine) linesOf(s *source) map[*line]struct{} {
	out := make(map[*line]struct{})
	for m := s.first; m != nil; m = m.next {
		if l := e.pages.lines[m.key()]; l != nil {
			out[l] = struct{}{}
		}
	}
	return out
}

// requeue returns one message to its queue.
func (e *engine) requeue(m *held) {
	err := m.delivery.Requeue()
	switch {
	case m.token:
	case err != nil:
		e.metrics.stale.Inc()
	default:
		e.metrics.returned.Inc()
	}
	e.letGo(m)
}

// settleSource closes a source that is given up, once nothing of it is in a call
// or on its way to another queue, and its lanes are given up. What the broker
// does not take in leaveTime is another's problem, too.
func (e *engine) settleSource(s *source) {
	if !s.stopped() || s.closing || s.inFlight > 0 {
		return
	}
	if (s.moving > 0 || s.lane == nil && e.lanesOpen(s)) && e.Now().Sub(s.leftAt) < leaveTime {
		return
	}
	s.closing = true
	e.sources.feeders.Go(func() {
		if err := s.sub.Close(); err != nil {
			e.Log.Warn("give up queue", "queue", s.queue, "err", err)
		}
		e.post(func(e *engine) { e.closed(s) })
	})
}

// closed lets go of what is held of a source whose subscription has ended.
func (e *engine) closed(s *source) {
	for l := range e.linesOf(s) {
		for _, m := range l.remove(func(m *held) bool { return m.source == s }) {
			e.metrics.returned.Inc()
			e.letGo(m)
		}
		e.pump(l)
	}
	for m := s.first; m != nil; m = s.first { // tokens, and what calls or the broker did not settle in time
		if !m.token && !m.moving {
			e.metrics.returned.Inc()
		}
		e.letGo(m)
	}
	e.sources.open = slices.DeleteFunc(e.sources.open, func(o *source) bool { return o == s })
	if s.lane != nil {
		e.laneClosed(s.lane)
		return
	}
	p := s.partition
	p.src, p.since = nil, time.Time{}
	top := e.Broker.Topology()
	e.gate.Forget(e.Now(), func(page string) bool { return top.PartitionOf(page) == p.index })
	if !e.ending {
		e.reopen(p, e.rest())
	}
}

// checkSources drops what became stale with a lost connection, and gives up what
// is held for so long that the broker would take it for hung.
func (e *engine) checkSources(now time.Time) {
	for _, s := range e.allSources() {
		if s.first != nil && !s.first.delivery.Live() {
			e.dropStale(s)
		}
		switch {
		case s.stopped():
			e.goOnLeaving(s, now)
		case s.first != nil && now.Sub(s.first.since) > heldTime:
			e.leave(s, "held")
		}
	}
}

// heldTime is how long a delivery is held at most, longer than a token before it
// is renewed; RabbitMQ closes the channel of a consumer that has one for 30
// minutes.
const heldTime = renewTime + 5*time.Minute

// slowLeave is how long the calls of a source that is given up may keep the rest
// from going back. Of Messenger's answers one in thousands takes longer. Who
// waits for that one may be overtaken.
const slowLeave = 3 * time.Second

// goOnLeaving closes a source that is given up when it can be.
func (e *engine) goOnLeaving(s *source, now time.Time) {
	if s.inFlight > 0 && !s.cancelled && now.Sub(s.leftAt) > slowLeave {
		e.cancel(s)
	}
	e.settleSource(s)
}

// dropStale lets go of what is, or will be, delivered again.
func (e *engine) dropStale(s *source) {
	for l := range e.linesOf(s) {
		for _, m := range l.remove(func(m *held) bool { return m.source == s && !m.delivery.Live() }) {
			e.metrics.stale.Inc()
			e.letGo(m)
		}
		e.pump(l)
	}
}

// allSources is what is subscribed to, those included that are given up.
func (e *engine) allSources() []*source { return slices.Clone(e.sources.open) }

// owned is how many partitions something was delivered of lately.
func (s *sources) owned(now time.Time) int {
	n := 0
	for _, p := range s.partitions {
		if p.src != nil && (p.src.held > 0 || now.Sub(p.last) < activeFor && !p.since.IsZero()) {
			n++
		}
	}
	return n
}
