package dispatch

import (
	"slices"
	"sync"
	"time"

	"chatclub/internal/partitions"
	"chatclub/internal/queue"
)

const (
	// consumeRetry is the pause after a subscription that failed at once.
	consumeRetry = time.Second
	// feedBatch is the largest number of deliveries that reach the engine at a time.
	feedBatch = 64
	// callsTime is the longest wait of a claim that is given up for its calls. Nearly all
	// of Messenger's answers take less.
	callsTime = 5 * time.Second
	// youngTime is the same at a silence, for calls that are younger than that. At the
	// platform's latency 99 of 100 take less.
	youngTime = 2 * time.Second
	// moveTime is the same for messages on their way to other queues.
	moveTime = 2 * time.Second
	// laneTime is the time after which a new owner that does not know a lane, or the
	// partition, subscribes again, once. The owner before has left by then, unless it outranks
	// this one: RabbitMQ tells nobody that it is outranked.
	laneTime = callsTime + time.Second
	// quietTime is the time without a delivery in which another replica may have come, sent
	// and gone. One that does so in less is noticed by what it has given back.
	quietTime = partitions.TrialTime
)

// claims is the partitions, and this replica's claims of them.
type claims struct {
	*run
	pages    *pages
	lanes    *lanes
	markers  *markers
	standing *standing

	partitions []*partition // by number, and that of all pages behind them
	all        []*claim     // that are not closed
	arrivals   chan []*held
	inbox      []*held // what has just arrived
	tried      map[identity]int
}

func newClaims(r *run, ms *markers, s *standing) *claims {
	cs := &claims{
		run: r, pages: ms.lanes.pages, lanes: ms.lanes, markers: ms, standing: s,
		partitions: make([]*partition, r.Broker.Topology().Partitions+1), arrivals: make(chan []*held),
		tried: make(map[identity]int),
	}
	for i := range cs.partitions {
		cs.partitions[i] = &partition{index: i}
	}
	cs.partitions[len(cs.partitions)-1].index = allPages
	return cs
}

// of returns the claim of a page's partition, nil between two.
func (cs *claims) of(page string) *claim {
	return cs.partitions[cs.Broker.Topology().PartitionOf(page)].claim
}

// ofLine returns the claim of a line's partition, nil between two.
func (cs *claims) ofLine(l *line) *claim {
	if l.shared != nil {
		return l.shared.claim
	}
	return cs.of(l.key.Page)
}

// isOwner reports whether this replica alone sends for a page, as far as is known.
func (cs *claims) isOwner(page string) bool {
	c := cs.of(page)
	return c != nil && !c.since.IsZero()
}

// owned are the numbers of the partitions of which something was delivered lately.
func (cs *claims) owned(now time.Time) []int {
	list := []int{}
	for _, p := range cs.partitions[:len(cs.partitions)-1] {
		if c := p.claim; c != nil && !c.since.IsZero() && (c.count(inHandOf) > 0 || now.Sub(c.busy) < partitions.ActiveFor) {
			list = append(list, p.index)
		}
	}
	return list
}

// open subscribes to a partition and its lanes, with this replica's priority for it.
// The lanes come first, because the owner needs them with its first message.
func (cs *claims) open(p *partition) {
	c := &claim{partition: p, priority: cs.standing.priority(p.index)}
	own, lanes := p.queues(cs.Broker.Topology())
	for _, name := range lanes {
		k := new(lane)
		k.source = &source{queue: name, claim: c, lane: k, prefetch: cs.LanePrefetch}
		c.lanes = append(c.lanes, k)
		c.sources = append(c.sources, k.source)
	}
	c.sources = append(c.sources, &source{queue: own, claim: c, prefetch: cs.Prefetch})
	for i, s := range c.sources {
		var err error
		if s.sub, err = cs.Broker.Consume(s.queue, queue.ConsumeOptions{Prefetch: s.prefetch, Priority: c.priority}); err != nil {
			cs.Log.Warn("subscribe", "queue", s.queue, "err", err)
			cs.closeAll(c.sources[:i], func() {})
			cs.timers.add(cs.Now().Add(consumeRetry), func() {
				if !cs.ending && p.claim == nil {
					cs.open(p)
				}
			})
			return
		}
	}
	slices.Reverse(c.sources)
	p.claim = c
	cs.all = append(cs.all, c)
	for _, s := range c.sources {
		age := cs.metrics.queueAge[fromPartition]
		switch {
		case s.lane != nil:
			age = cs.metrics.queueAge[fromLane]
		case p.index == allPages:
			age = cs.metrics.queueAge[fromAll]
		}
		cs.others.Go(func() { cs.feed(s, age) })
	}
}

// feed hands the deliveries of a source to the engine until they end.
func (cs *claims) feed(s *source, age interface{ Observe(float64) }) {
	in := s.sub.Deliveries()
	for d := range in {
		now := cs.Now()
		list := make([]*held, 0, min(feedBatch, 1+len(in)))
		for more := true; more; {
			if !cs.Watch.Take(d) {
				m := decode(d, s, now)
				if list = append(list, m); m.err == nil && m.out.Time > 0 {
					age.Observe(m.out.Age(now).Seconds())
				}
			}
			if more = len(list) < feedBatch; more {
				select {
				case d, more = <-in:
				default:
					more = false
				}
			}
		}
		if len(list) == 0 {
			continue
		}
		if s.lane == nil {
			cs.Watch.Saw(s.queue)
		}
		select {
		case cs.arrivals <- list:
		case <-cs.finished:
			return
		}
	}
}

// renew gives a partition up and subscribes to it with this replica's priority as it
// is now. The new subscription is there first, so that the broker gives the partition
// to nobody with a lower one meanwhile.
func (cs *claims) renew(p *partition, reason string) {
	old := p.claim
	if p.claim = nil; !cs.ending {
		cs.open(p)
	}
	if old != nil {
		cs.giveUp(old, reason)
	}
}

// renewAll renews every partition, once this replica has its place.
func (cs *claims) renewAll(reason string) {
	if cs.standing.Ranks == nil {
		return
	}
	for _, p := range cs.partitions {
		cs.renew(p, reason)
	}
}

// giveUp gives a claim up. Nothing more of it is sent, the calls under way are waited
// for, and then it is closed: the broker puts everything unsettled back to the front
// of its queue, in order. That is the one way to give a claim up.
func (cs *claims) giveUp(c *claim, reason string) {
	c.state, c.givenUpAt, c.patience = isEnding, cs.Now(), callsTime
	young := cs.pages.circuits.Leave(c.givenUpAt, cs.pagesOf(c.partition))
	switch mute := cs.standing.isMute(); {
	case reason == "paused" || mute && (!young || cs.standing.again): // its calls may be another's, or have no answer
		c.patience = 0
	case mute:
		c.patience = youngTime
	}
	if !c.since.IsZero() {
		cs.metrics.givenUp[reason].Inc()
		next := c.partition.claim
		comesBack := reason == "held" || reason == "rank" && next != nil && next.priority > c.priority
		c.lost = !comesBack
	}
	for _, k := range c.lanes {
		cs.lanes.abandon(k)
	}
	for _, s := range c.sources {
		cs.remember(s)
		for _, m := range cs.pages.takeWaiting(s, func(*held) bool { return true }) {
			cs.pages.returned(m)
		}
	}
	if c.lost { // now: the partition may be this replica's again before the claim is closed
		cs.pages.gate.Forget(cs.Now(), cs.pagesOf(c.partition))
	}
	cs.settle(c)
	for _, d := range []time.Duration{min(moveTime, c.patience), c.patience} {
		cs.timers.add(c.givenUpAt.Add(d), func() { cs.settle(c) })
	}
}

// mostTried bounds the messages whose attempts are remembered: those that all partitions of
// a dispatcher hold.
const mostTried = 1 << 17

// remember notes the attempts of what goes back to a queue, calls under way included: the
// broker returns a message as it was published, and it may come here again.
func (cs *claims) remember(s *source) {
	for m := s.first; m != nil; m = m.next {
		n := m.out.Attempts
		if m.state == isCalling {
			n++
		}
		if n == 0 {
			continue
		}
		if len(cs.tried) >= mostTried { // of those that went to others, most
			clear(cs.tried)
		}
		cs.tried[m.identity()] = n
	}
}

// recall gives a message that comes again the attempts that it had here.
func (cs *claims) recall(m *held) {
	if n, known := cs.tried[m.identity()]; known {
		m.out.Attempts = max(m.out.Attempts, n)
		delete(cs.tried, m.identity())
	}
}

// settle closes a claim that is given up once nothing of it is in a call or on
// its way, or that has taken too long.
func (cs *claims) settle(c *claim) {
	took := cs.Now().Sub(c.givenUpAt)
	if c.state != isEnding || c.count(inFlightOf) > 0 && took < c.patience || c.count(movingOf) > 0 && took < min(moveTime, c.patience) {
		return
	}
	c.state = isClosing
	cs.closeAll(c.sources, func() { cs.closed(c) })
}

// closeAll ends subscriptions beside the engine, together because each may wait for
// the broker, and then calls then.
func (cs *claims) closeAll(list []*source, then func()) {
	var all sync.WaitGroup
	for _, s := range list {
		all.Go(func() {
			if err := s.sub.Close(); err != nil {
				cs.Log.Warn("give up queue", "queue", s.queue, "err", err)
			}
		})
	}
	cs.others.Go(func() {
		all.Wait()
		cs.post(then)
	})
}

// closed lets go of what is on its way of a claim whose subscriptions have ended and, if
// another replica gets it, of what is known of its pages: the next owner finds out for itself.
func (cs *claims) closed(c *claim) {
	for _, s := range c.sources {
		for m := s.first; m != nil; {
			next := m.next
			if m.state == isMoving { // its move says the rest
				cs.pages.letGo(m)
			}
			m = next
		}
	}
	cs.all = slices.DeleteFunc(cs.all, func(o *claim) bool { return o == c })
	if c.lost {
		isOurs := cs.pagesOf(c.partition)
		cs.pages.circuits.Forget(isOurs)
		cs.pages.tokenless.forget(isOurs)
		cs.pages.forget(isOurs)
	}
}

// check looks for what does not happen by itself: it drops what became stale
// with a lost connection, and renews the claim of which something is held for so long
// that the broker would take this replica for hung.
func (cs *claims) check(now time.Time) {
	for _, c := range slices.Clone(cs.all) {
		for _, s := range c.sources {
			switch {
			case c.isGivenUp():
			case s.isStale():
				cs.dropStale(c)
			case s.first != nil && now.Sub(s.first.since) > partitions.HeldTime:
				cs.renew(c.partition, "held")
			}
		}
		cs.checkLanes(c, now)
		cs.checkRank(c, now)
	}
}

// checkLanes looks for lanes that are another replica's by now, or are sick or empty.
func (cs *claims) checkLanes(c *claim, now time.Time) {
	if c.since.IsZero() || c.isGivenUp() {
		return
	}
	if now.Sub(c.busy) > quietTime && c.count(inHandOf) == 0 { // another replica may have its lanes, and the markers
		for _, k := range c.lanes {
			cs.lanes.abandon(k)
		}
	}
	isMissing := func(s *source) bool { return !s.known && !s.delivers() }
	if now.Sub(c.begun) > laneTime && c.unknownSince.Equal(c.begun) && slices.ContainsFunc(c.sources, isMissing) {
		cs.renew(c.partition, "outranked")
		if again := c.partition.claim; again != nil {
			again.unknownSince = c.unknownSince
		}
		return
	}
	cs.markers.check(c, now)
}

// checkRank finds out whether this replica is outranked: it holds something, is
// delivered nothing, and more waits, or would. Then the broker waits for it to hold nothing.
func (cs *claims) checkRank(c *claim, now time.Time) {
	if c.isGivenUp() || c.asking {
		return
	}
	full := false
	for _, s := range c.sources {
		switch {
		case s.inHand == 0 || now.Sub(s.came) < partitions.LookAfter || len(s.sub.Deliveries()) > 0:
		case s.free() <= 0:
			full = true
		default:
			came := s.came
			c.asking = true
			cs.askReady(s.queue, func(ready int, err error) {
				if c.asking = false; err == nil && ready > 0 {
					cs.leaveAfter(c, partitions.ArrivalTime, func() bool { return s.inHand > 0 && s.came.Equal(came) })
				}
			})
			return
		}
	}
	if full && c.ready() && c.sources[0].free() > 0 && now.Sub(c.busy) >= partitions.LookAfter && !now.Before(c.probeAt) {
		cs.probe(c)
	}
}

// probe finds out by a marker in the partition whether this replica is outranked. It holds all
// that it may of a lane, of which it is delivered nothing anyway.
func (cs *claims) probe(c *claim) {
	busy, s := c.busy, c.sources[0]
	c.asking = true
	cs.publish(askBroker, []queue.Message{newMarker(s.queue, markerID(s.queue, cs.Now()))}, func(err error) {
		c.asking = false
		if err != nil { // each one more could be on its way for long
			c.probeAt = cs.Now().Add(markerPause)
			return
		}
		cs.leaveAfter(c, partitions.LookAfter, func() bool { return c.busy.Equal(busy) && len(s.sub.Deliveries()) == 0 })
	})
}

// leaveAfter gives a claim up as outranked if that still looks so after a time.
func (cs *claims) leaveAfter(c *claim, d time.Duration, isOutranked func() bool) {
	cs.timers.add(cs.Now().Add(d), func() {
		if !c.isGivenUp() && !cs.ending && isOutranked() {
			cs.renew(c.partition, "outranked")
		}
	})
}

// dropStale lets go of what came on a connection that is lost, but for what is in calls.
// Another replica may be the owner by now.
func (cs *claims) dropStale(c *claim) {
	for _, s := range c.sources {
		if !s.isStale() {
			continue
		}
		s.latest = nil
		for _, m := range cs.pages.takeWaiting(s, func(m *held) bool { return m.delivery.Stale() }) {
			cs.metrics.stale.Inc()
			cs.pages.letGo(m)
		}
	}
	c.since = time.Time{}
	cs.pages.gate.Forget(cs.Now(), cs.pagesOf(c.partition)) // it may have sent in the second before
}

// pagesOf reports of a page whether it is one of a partition's.
func (cs *claims) pagesOf(p *partition) func(page string) bool {
	top := cs.Broker.Topology()
	return func(page string) bool { return top.PartitionOf(page) == p.index }
}

// lanesUsed is the number of lanes that pages have.
func (cs *claims) lanesUsed() (n int) {
	for _, c := range cs.all {
		for _, k := range c.lanes {
			if len(k.lines) > 0 {
				n++
			}
		}
	}
	return n
}
