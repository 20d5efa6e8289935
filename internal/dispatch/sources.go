package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// spread is over how long a replica subscribes to its partitions, in random
	// order, so that replicas that start together have about as many each.
	spread = 500 * time.Millisecond
	// renewSpread is the same when replicas have come. It is longer than countEvery,
	// within which all learn of that.
	renewSpread = 1500 * time.Millisecond
	// consumeRetry is the pause after a subscription that failed at once.
	consumeRetry = time.Second
	// feedBatch is how many deliveries reach the engine at a time.
	feedBatch = 64
	// countEvery is how often the replicas are counted.
	countEvery = time.Second
	// activeFor is how long after its last delivery a partition counts as ours:
	// the broker does not say who is the active consumer.
	activeFor = 10 * time.Second
	// The calls of a source that is given up are waited for, twice as long as
	// answers take, in these bounds. At Messenger's latency one in seven is still
	// open after handOver, and its person may be sent the next message by the next
	// owner. This one was made handOver before that, so it is first unless it
	// fails.
	handOver      = 800 * time.Millisecond
	quickHandOver = 100 * time.Millisecond
	// leaveTime is how long a source that is given up waits for the broker: for
	// what goes to other queues, and for its lanes and their tokens.
	leaveTime = 2 * time.Second
)

// partition is one of the partitions, whether or not it is ours at the moment.
type partition struct {
	index int       // never changed
	src   *source   // nil between two subscriptions
	since time.Time // of the first message of src; zero: there was none
	busy  time.Time // of the latest
	last  time.Time // of the latest delivery of src, message or hello: it is ours; zero: we do not know
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

	early *early        // what came first; nil: that is over
	fed   chan struct{} // closed when all that was delivered has reached the engine

	leaving bool      // nothing more is sent; closed once its calls have ended
	leftAt  time.Time // since when it is given up, or its last call has ended
	phase   phase
}

// phase is how far a source is that is given up.
type phase int

const (
	consuming phase = iota
	returning       // its consumer is cancelled, or what is in no call is being given back
	cancelled       // nothing more is delivered, but its calls still have time
	over            // what its calls come to goes back by itself
	closing
)

// free is how many more messages the broker may deliver.
func (s *source) free() int { return s.prefetch - s.held }

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
	leaving    []*source // of them those that are given up
	arrivals   chan []*held
	quit       chan struct{} // closed when nothing more is taken
	ended      chan struct{} // closed when the engine has ended
	inbox      []*held       // what has just arrived
	feeders    *sync.WaitGroup
}

func newSources(d *Dispatcher) sources {
	s := sources{
		partitions: make([]*partition, d.Broker.Topology().Partitions), arrivals: make(chan []*held),
		quit: make(chan struct{}), ended: make(chan struct{}), feeders: new(sync.WaitGroup),
	}
	for i := range s.partitions {
		s.partitions[i] = &partition{index: i}
	}
	return s
}

// start subscribes to all partitions, in random order.
func (e *engine) start() {
	e.settler.start()
	e.timers.add(e.ticked.Add(tickEvery), e.tick)
	e.startCounting()
	for _, p := range e.sources.partitions {
		e.reopen(p, time.Duration(e.Random()*float64(spread)))
	}
}

// startCounting subscribes to the queue whose consumers are the replicas, and
// asks for their number now and then. Before this one is counted, the others learn
// which partitions are theirs. One that ends is not counted from then on,
// however long its calls take: nothing is to be left to it.
func (e *engine) startCounting() {
	name := e.Broker.Topology().Dispatchers()
	e.sources.feeders.Go(func() {
		e.hello(e.sources.partitions)
		sub, err := e.Broker.Consume(name, queue.ConsumeOptions{Prefetch: 1})
		if err != nil {
			e.Log.Warn("subscribe", "queue", name, "err", err)
		} else {
			defer sub.Close()
		}
		for {
			ctx, cancel := context.WithTimeout(context.Background(), countEvery)
			info, err := e.Broker.Inspect(ctx, name)
			cancel()
			e.post(func(e *engine) { e.count(info.Consumers, err) })
			select {
			case <-time.After(countEvery):
			case <-e.sources.quit:
				return
			}
		}
	})
}

// sayHello is hello beside the engine.
func (e *engine) sayHello(partitions []*partition) {
	if len(partitions) > 0 {
		e.sources.feeders.Go(func() { e.hello(partitions) })
	}
}

// hello tells the owners of partitions that they are theirs. The broker does not say
// who is the active consumer, so an owner learns it by what it is delivered. Where this
// does not arrive it learns it by the next message.
func (e *engine) hello(partitions []*partition) {
	ctx, cancel := context.WithTimeout(context.Background(), countEvery)
	defer cancel()
	list := make([]queue.Message, len(partitions))
	for i, p := range partitions {
		list[i] = queue.Message{
			Queue: e.Broker.Topology().Outbound(p.index), ID: fmt.Sprintf("hello/%d/%d", p.index, e.Now().UnixNano()),
			Headers: map[string]string{message.HeaderHello: "1"},
		}
	}
	if err := e.Broker.Publish(ctx, list...); err != nil {
		e.Log.Warn("tell dispatchers which partitions are theirs", "err", err)
	}
}

// reopen subscribes to a partition after a rest. A long one ends when nobody else
// consumes the partition, or the broker does not say so.
func (e *engine) reopen(p *partition, rest time.Duration) {
	step := min(rest, minRest)
	e.timers.add(e.Now().Add(step), func() {
		if e.ending || p.src != nil {
			return
		}
		if rest > step {
			consumers := 0
			e.beside(countEvery, func(ctx context.Context) error {
				info, err := e.Broker.Inspect(ctx, e.Broker.Topology().Outbound(p.index))
				consumers = info.Consumers
				return err
			}, func(e *engine, err error) {
				if rest -= step; err != nil || consumers == 0 {
					rest = 0
				}
				e.reopen(p, rest)
			})
			return
		}
		if p.src = e.open(e.Broker.Topology().Outbound(p.index), p, nil, e.Prefetch); p.src == nil {
			e.reopen(p, consumeRetry)
		}
	})
}

// renew subscribes anew to a partition that is not known to be ours, so that this
// replica is behind those that came later: what is given up goes to them first,
// and not to one that has its part or leaves soon.
func (e *engine) renew(p *partition) {
	old := p.src
	if e.ending || old == nil || old.leaving || !p.last.IsZero() {
		return
	}
	if s := e.open(old.queue, p, nil, e.Prefetch); s != nil {
		p.src, old.leaving = s, true
		e.sources.leaving = append(e.sources.leaving, old)
	}
}

// open subscribes to a queue; nil means that this is not possible now.
func (e *engine) open(name string, p *partition, l *lane, prefetch int) *source {
	sub, err := e.Broker.Consume(name, queue.ConsumeOptions{Prefetch: prefetch})
	if err != nil {
		e.Log.Warn("subscribe", "queue", name, "err", err)
		return nil
	}
	s := &source{queue: name, partition: p, lane: l, sub: sub, prefetch: prefetch, fed: make(chan struct{})}
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
	defer close(s.fed)
	in := s.sub.Deliveries()
	for d := range in {
		now := e.Now()
		list := make([]*held, 0, min(feedBatch, 1+len(in)))
		for more := true; more; {
			list = append(list, decode(d, s))
			if m := list[len(list)-1]; m.err == nil && m.out.Time > 0 {
				age.Observe(m.out.Age(now).Seconds())
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
		m.out.Page, m.out.Class = message.LanePage(d.Headers[message.HeaderLane]), message.Class(d.Body)
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

// leave gives a source up: nothing more of it is sent, and what its calls came
// to is settled. Once they have ended the rest goes back, in order. That is not
// waited for longer than patience allows.
func (e *engine) leave(s *source, reason string) {
	if s.leaving {
		return
	}
	s.leaving, s.leftAt = true, e.Now()
	e.sources.leaving = append(e.sources.leaving, s)
	e.metrics.givenUp[reason].Inc()
	e.sortEarly(s)
	e.moveAttempted(s)
	if s.lane == nil { // the lanes of a partition are its owner's
		e.leaveLanes(s, reason)
	}
}

// moveAttempted moves what waits of a source and failed before, because its
// attempts must travel with it.
func (e *engine) moveAttempted(s *source) {
	for _, m := range e.takeWaiting(s, func(m *held) bool { return m.out.Attempts > 0 }) {
		e.postpone(m, retryShort)
	}
}

// patience is how long the calls of a source that is given up are waited for; not at
// all while the API answers none.
func (e *engine) patience() time.Duration {
	switch {
	case e.silent.Load():
		return 0
	case e.calls.latency == 0: // no call has ended yet
		return handOver
	}
	return min(max(2*e.calls.latency, quickHandOver), handOver)
}

// cancel ends the deliveries of a source, and returns what is in no call.
func (e *engine) cancel(s *source) {
	s.phase = returning
	e.sources.feeders.Go(func() {
		if err := s.sub.Cancel(); err != nil {
			e.Log.Warn("cancel subscription", "queue", s.queue, "err", err)
		}
		<-s.fed
		e.post(func(e *engine) { e.giveBack(s) })
	})
}

// giveBack returns what is held of a cancelled source and in no call, in the
// order in which it came.
func (e *engine) giveBack(s *source) {
	if s.phase == closing {
		return // it goes back with its channel
	}
	if s.phase = cancelled; e.Now().Sub(s.leftAt) >= e.patience() {
		s.phase = over
	}
	e.moveAttempted(s)
	list := e.takeWaiting(s, all)
	for m := s.first; m != nil; m = m.next {
		if m.token {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, bySeq)
	if s.lane == nil { // somebody else consumes it by now
		for _, m := range list {
			e.requeue(m)
		}
		return
	}
	if len(list) == 0 {
		return
	}
	s.phase = returning
	deliveries := make([]*queue.Delivery, 0, len(list))
	for _, m := range list {
		deliveries = append(deliveries, m.delivery)
		e.returned(m, nil)
	}
	e.sources.feeders.Go(func() {
		if err := s.sub.Return(deliveries); err != nil {
			e.Log.Debug("the rest goes back with its channel", "queue", s.queue, "err", err)
		}
		e.post(func(e *engine) { e.giveBack(s) }) // what calls have put back meanwhile
	})
}

// takeWaiting takes out of their lines what waits of a source and matches.
func (e *engine) takeWaiting(s *source, match func(*held) bool) (out []*held) {
	seen := make(map[*line]bool)
	for m := s.first; m != nil; m = m.next {
		if l := e.pages.lines[m.key()]; l != nil && !seen[l] {
			seen[l] = true
			out = append(out, l.remove(func(m *held) bool { return m.source == s && match(m) })...)
			e.pages.mark(l)
		}
	}
	return out
}

func all(*held) bool { return true }

// settleSource goes on with giving a source up. First its lanes must be given
// back, because the next owner learns of them by the tokens that are held here.
// When nothing of it is in a call it is closed, and what is left goes back. Until
// then its consumer is cancelled and what waits given back: a lane's soon,
// because nobody else consumes it before the token has moved, a partition's when
// its calls take long. What the broker does not do in leaveTime is another's
// problem, too.
func (e *engine) settleSource(s *source) {
	left := e.Now().Sub(s.leftAt)
	late, tired := left >= leaveTime, left >= e.patience()
	switch {
	case s.phase == closing || s.moving > 0 && !late || s.lane == nil && e.lanesOpen(s, late):
		return
	case s.inFlight == 0:
		e.close(s)
	case s.phase == consuming && (tired || s.lane != nil && left >= quickHandOver):
		e.cancel(s)
	case s.phase == cancelled && tired:
		e.giveBack(s)
	}
}

// close ends the subscription of a source that is given up.
func (e *engine) close(s *source) {
	s.phase = closing
	e.sources.feeders.Go(func() {
		if err := s.sub.Close(); err != nil {
			e.Log.Warn("give up queue", "queue", s.queue, "err", err)
		}
		e.post(func(e *engine) { e.closed(s) })
	})
}

// closed lets go of what is held of a source whose subscription has ended.
func (e *engine) closed(s *source) {
	e.takeWaiting(s, all)
	for m := s.first; m != nil; m = s.first { // also what calls or the broker did not settle in time
		if !m.token && !m.moving {
			e.metrics.returned.Inc()
		}
		e.letGo(m)
	}
	isIt := func(o *source) bool { return o == s }
	e.sources.open, e.sources.leaving = slices.DeleteFunc(e.sources.open, isIt), slices.DeleteFunc(e.sources.leaving, isIt)
	if s.lane != nil {
		e.laneClosed(s.lane)
		return
	}
	p := s.partition
	if p.src != s {
		return
	}
	p.src, p.since, p.busy, p.last = nil, time.Time{}, time.Time{}, time.Time{}
	top := e.Broker.Topology()
	isOurs := func(page string) bool { return top.PartitionOf(page) == p.index }
	e.gate.Forget(e.Now(), isOurs)
	e.suspended.forget(isOurs) // what the next owner finds out is not told to this one
	e.people.forget(isOurs)
	maps.DeleteFunc(e.denials, func(page string, _ denial) bool { return isOurs(page) })
	if !e.ending {
		e.reopen(p, e.rest())
	}
}

// checkSources drops what became stale with a lost connection, and gives up what
// is held for so long that the broker would take it for hung.
func (e *engine) checkSources(now time.Time) {
	for _, s := range e.sources.open {
		if s.first != nil && !s.first.delivery.Live() {
			for _, m := range e.takeWaiting(s, func(m *held) bool { return !m.delivery.Live() }) {
				e.metrics.stale.Inc()
				e.letGo(m)
			}
		}
		if s.first != nil && now.Sub(s.first.since) > heldTime {
			e.leave(s, "held")
		}
	}
}

// heldTime is how long a delivery is held at most, longer than a token before it
// is renewed; RabbitMQ closes the channel of a consumer that has one for 30
// minutes.
const heldTime = renewTime + 5*time.Minute

// owned are the numbers of the partitions of which something was delivered lately.
func (s *sources) owned(now time.Time) []int {
	list := []int{}
	for _, p := range s.partitions {
		if p.src != nil && !p.src.leaving && (p.src.held > 0 || now.Sub(p.last) < activeFor) {
			list = append(list, p.index)
		}
	}
	return list
}
