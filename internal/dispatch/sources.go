package dispatch

import (
	"slices"
	"sync"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/partitions"
	"chatclub/internal/queue"
)

const (
	// consumeRetry is the pause after a subscription that failed at once.
	consumeRetry = time.Second
	// feedBatch is how many deliveries reach the engine at a time.
	feedBatch = 64
	// leaveTime is how long a claim that is given up waits for its calls. Nearly all
	// of Messenger's answers take less.
	leaveTime = 5 * time.Second
	// moveTime is the same for messages on their way to other queues.
	moveTime = 2 * time.Second
	// quietTime is after how long without a delivery another replica may have been the
	// owner meanwhile: longer than one can come, send and go.
	quietTime = partitions.TrialTime
)

// partition is one of the partitions, whether or not it is ours at the moment.
type partition struct {
	index int    // never changed; or allPages
	claim *claim // nil between two
}

// allPages is the index of the queue for all pages, from which messages go on to their
// pages' partitions. It has no lanes.
const allPages = -1

// queues are a partition's queue, and those of its lanes.
func (p *partition) queues(top queue.Topology) (name string, lanes []string) {
	if p.index == allPages {
		return top.OutboundAny(), nil
	}
	return top.Outbound(p.index), top.LanesOf(p.index)
}

// claim is the subscriptions of a partition and of its lanes, all with one priority.
// The broker gives them to the replica with the highest, which is their owner.
type claim struct {
	partition *partition
	sources   []*source // the partition's first, then those of its lanes
	lanes     []*lane
	since     time.Time // from when this replica alone sends for its pages; zero: it is not known to
	begun     time.Time // when its lanes were asked last what they hold: after a quiet time, too, when since stays
	waits     time.Time // since when its lanes are waited for, also by the claim that it renewed
	busy      time.Time // when a message was delivered last
	asking    bool      // the broker is asked whether this replica is outranked

	leaving  bool      // nothing more is taken or sent
	leftAt   time.Time // since when
	patience time.Duration
	closing  bool
	lost     bool // it goes to another replica
}

// source is the subscription of one queue, and the messages that are held of it.
type source struct {
	queue    string
	claim    *claim
	lane     *lane // nil: the partition's
	sub      queue.Subscription
	prefetch int
	came     time.Time // when something was delivered last
	dropped  uint64    // what came on a lost connection was let go: all up to this message's seq

	first, last *held // unsettled messages in order of arrival
	held        int   // their number
	inFlight    int   // of them in calls
	moving      int   // of them on their way to other queues
}

// isStale reports whether something is held that came on a connection that is lost, and was
// not let go: the calls of what was let go may still be under way.
func (s *source) isStale() bool {
	for m := s.first; m != nil; m = m.next {
		if m.seq > s.dropped {
			return m.delivery.Stale()
		}
	}
	return false
}

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

// count adds up a number of each source.
func (c *claim) count(of func(*source) int) (n int) {
	for _, s := range c.sources {
		n += of(s)
	}
	return n
}

func heldOf(s *source) int     { return s.held }
func inFlightOf(s *source) int { return s.inFlight }
func movingOf(s *source) int   { return s.moving }

// sources is where messages come from.
type sources struct {
	partitions []*partition // by number, and that of all pages behind them
	claims     []*claim     // all that are not closed
	arrivals   chan []*held
	quit       chan struct{} // closed when nothing more is taken
	inbox      []*held       // messages that have just arrived
}

func newSources(d *Dispatcher) sources {
	s := sources{
		partitions: make([]*partition, d.Broker.Topology().Partitions+1), arrivals: make(chan []*held),
		quit: make(chan struct{}),
	}
	for i := range s.partitions {
		s.partitions[i] = &partition{index: i}
	}
	s.partitions[len(s.partitions)-1].index = allPages
	return s
}

// leaving reports whether anything is being given up.
func (s *sources) leaving() bool {
	return slices.ContainsFunc(s.claims, func(c *claim) bool { return c.leaving })
}

// owned are the numbers of the partitions of which something was delivered lately.
func (s *sources) owned(now time.Time) []int {
	list := []int{}
	for _, p := range s.partitions[:len(s.partitions)-1] {
		if c := p.claim; c != nil && !c.since.IsZero() && (c.count(heldOf) > 0 || now.Sub(c.busy) < partitions.ActiveFor) {
			list = append(list, p.index)
		}
	}
	return list
}

// open subscribes to a partition and its lanes, with this replica's priority for it.
// The lanes come first, because the owner needs them with its first message.
func (e *engine) open(p *partition) {
	c := &claim{partition: p}
	own, lanes := p.queues(e.Broker.Topology())
	for _, name := range lanes {
		k := &lane{claim: c, queue: name}
		k.source = &source{queue: name, claim: c, lane: k, prefetch: e.LanePrefetch}
		c.lanes = append(c.lanes, k)
		c.sources = append(c.sources, k.source)
	}
	c.sources = append(c.sources, &source{queue: own, claim: c, prefetch: e.Prefetch})
	for i, s := range c.sources {
		var err error
		if s.sub, err = e.Broker.Consume(s.queue, queue.ConsumeOptions{Prefetch: s.prefetch, Priority: e.standing.priority(p.index)}); err != nil {
			e.Log.Warn("subscribe", "queue", s.queue, "err", err)
			e.closeAll(c.sources[:i], func() {})
			e.timers.add(e.Now().Add(consumeRetry), func() {
				if !e.ending && p.claim == nil {
					e.open(p)
				}
			})
			return
		}
	}
	slices.Reverse(c.sources)
	p.claim = c
	e.sources.claims = append(e.sources.claims, c)
	for _, s := range c.sources {
		age := e.metrics.queueAge[fromPartition]
		switch {
		case s.lane != nil:
			age = e.metrics.queueAge[fromLane]
		case p.index == allPages:
			age = e.metrics.queueAge[fromAll]
		}
		e.others.Go(func() { e.feed(s, age) })
	}
}

// feed hands the deliveries of a source to the engine until they end.
func (e *engine) feed(s *source, age interface{ Observe(float64) }) {
	in := s.sub.Deliveries()
	for d := range in {
		now := e.Now()
		list := make([]*held, 0, min(feedBatch, 1+len(in)))
		for more := true; more; {
			list = append(list, decode(d, s, now))
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
		case <-e.finished:
			return
		}
	}
}

// decode makes a message of a delivery; here and not in the engine, because it
// is work that several goroutines can share.
func decode(d *queue.Delivery, s *source, now time.Time) *held {
	m := &held{delivery: d, source: s}
	if message.IsMarker(d.Headers) {
		m.out.Page, m.out.Class = d.Headers[message.HeaderMarker], message.Class(d.Body)
		return m
	}
	if m.out, m.err = message.DecodeOutbound(d.Body); m.err == nil {
		if m.err = m.out.Check(now); m.err == nil {
			d.ID = m.out.ID // a message that was published without one has a digest
		}
	}
	m.tried = d.Headers[message.HeaderRetry] != ""
	if d.Headers[message.HeaderDead] != "" {
		if death, err := message.DeathFromHeaders(d.Headers); err == nil && slices.Contains(message.Reasons(), death.Reason) {
			m.death = &death
		}
	}
	return m
}

// renew gives a partition up and subscribes to it with this replica's priority as it
// is now. The new subscription is there first, so that the broker gives the partition
// to nobody with a lower one meanwhile.
func (e *engine) renew(p *partition, reason string) {
	old := p.claim
	if p.claim = nil; !e.ending {
		e.open(p)
	}
	if old != nil {
		e.leave(old, reason)
	}
}

// renewAll renews every partition, once this replica has its place.
func (e *engine) renewAll(reason string) {
	if e.standing.Ranks == nil {
		return
	}
	for _, p := range e.sources.partitions {
		e.renew(p, reason)
	}
}

// leave gives a claim up. Nothing more of it is sent, the calls under way are waited
// for, and then it is closed: the broker puts everything unsettled back to the front
// of its queue, in order. That is the one way to give something up.
func (e *engine) leave(c *claim, reason string) {
	c.leaving, c.leftAt, c.patience = true, e.Now(), leaveTime
	if reason == "paused" || e.silent.Load() { // its calls may be another's, or have no answer
		c.patience = 0
	}
	if !c.since.IsZero() {
		e.metrics.givenUp[reason].Inc()
		c.lost = reason != "held" && reason != "rank" // then it comes back here
	}
	for _, k := range c.lanes {
		e.pages.abandon(k)
	}
	for _, s := range c.sources {
		for _, m := range e.takeWaiting(s, func(*held) bool { return true }) {
			e.pages.returned(m)
		}
	}
	e.settleClaim(c)
}

// takeWaiting takes out of their lines the messages that wait of a source and match,
// in the order in which they came.
func (e *engine) takeWaiting(s *source, match func(*held) bool) (list []*held) {
	seen := make(map[*line]bool)
	for m := s.first; m != nil; m = m.next {
		if l := e.pages.lines[m.key()]; l != nil && !seen[l] {
			seen[l] = true
			list = append(list, l.remove(func(m *held) bool { return m.source == s && match(m) })...)
			e.pages.mark(l)
		}
	}
	slices.SortFunc(list, bySeq)
	return list
}

// settleClaim closes a claim that is given up once nothing of it is in a call or on
// its way, or that has taken too long.
func (e *engine) settleClaim(c *claim) {
	left := e.Now().Sub(c.leftAt)
	if c.closing || c.count(inFlightOf) > 0 && left < c.patience || c.count(movingOf) > 0 && left < min(moveTime, c.patience) {
		return
	}
	c.closing = true
	e.closeAll(c.sources, func() { e.closed(c) })
}

// closeAll ends subscriptions beside the engine, together because each may wait for
// the broker, and then calls then.
func (e *engine) closeAll(list []*source, then func()) {
	var all sync.WaitGroup
	for _, s := range list {
		all.Go(func() {
			if err := s.sub.Close(); err != nil {
				e.Log.Warn("give up queue", "queue", s.queue, "err", err)
			}
		})
	}
	e.others.Go(func() {
		all.Wait()
		e.post(then)
	})
}

// closed lets go of what is held of a claim whose subscriptions have ended, but for
// what is still in calls, and of what is known of its pages: the next owner finds out
// for itself.
func (e *engine) closed(c *claim) {
	for _, s := range c.sources {
		for m := s.first; m != nil; {
			next := m.next
			if m.state == isMoving { // its move says the rest
				e.pages.letGo(m)
			}
			m = next
		}
	}
	e.sources.claims = slices.DeleteFunc(e.sources.claims, func(o *claim) bool { return o == c })
	if !c.lost {
		return
	}
	isOurs := e.pagesOf(c.partition)
	e.gate.Forget(e.Now(), isOurs)
	e.circuits.Forget(isOurs)
	e.pages.forget(isOurs)
}

// checkSources looks for what does not happen by itself: it drops what became stale
// with a lost connection, and renews the claim of which something is held for so long
// that the broker would take this replica for hung.
func (e *engine) checkSources(now time.Time) {
	for _, c := range slices.Clone(e.sources.claims) {
		for _, s := range c.sources {
			switch {
			case s.first == nil || c.leaving:
			case s.isStale():
				e.dropStale(s)
			case now.Sub(s.first.since) > partitions.HeldTime:
				e.renew(c.partition, "held")
			}
		}
		e.checkLanes(c, now)
		e.checkRank(c, now)
	}
}

// dropStale lets go of what came on a connection that is lost. Another replica may be
// the owner by now.
func (e *engine) dropStale(s *source) {
	for _, m := range e.takeWaiting(s, func(m *held) bool { return m.delivery.Stale() }) {
		e.metrics.stale.Inc()
		e.pages.letGo(m)
	}
	s.dropped, s.claim.since = e.pages.seq, time.Time{}
	e.gate.Forget(e.Now(), e.pagesOf(s.claim.partition)) // it may have sent in the second before
}

// pagesOf reports of a page whether it is one of a partition's.
func (e *engine) pagesOf(p *partition) func(page string) bool {
	top := e.Broker.Topology()
	return func(page string) bool { return top.PartitionOf(page) == p.index }
}

// lanesUsed is the number of lanes that pages have.
func (s *sources) lanesUsed() (n int) {
	for _, c := range s.claims {
		for _, k := range c.lanes {
			if len(k.lines) > 0 {
				n++
			}
		}
	}
	return n
}

// start takes a place among the dispatchers and begins to consume.
func (e *engine) start() {
	e.settler.start()
	e.ticked = e.Now() // the orders may have been waited for
	e.timers.add(e.ticked.Add(tickEvery), e.tick)
	e.watchSilence()
	e.lookAhead()
	e.findSlot()
}
