package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// A lane is a queue beside a partition, for a page and class that has more than the
// partition should hold. Each partition has the same few, which are always there, and
// whoever owns the partition owns them: the broker gives them to the same replica.
//
// A page that has spilled sends nothing directly: its messages go to its lane, behind
// those that are in it. Once nobody waits for the page's pace a marker goes behind
// them all, and what comes next waits for it. When the marker comes out of the lane
// nothing of the page is in it, and the page's messages are sent directly again: so
// their order stays, and a page that is busy all the time leaves excess, too.
//
// A new owner does not know what is in the lanes, nor whether the owner before still
// holds some of it. It puts a marker into each and sends nothing of the partition
// before the first message of each lane, or that marker, has come.
const (
	// markerTime is how long a page's messages wait for the marker in its lane:
	// longer than a healthy broker needs, and no longer than a call takes. After
	// that they go behind it.
	markerTime = 500 * time.Millisecond
	// markerPause is how long a lane that took no marker, or gave none back, is left
	// alone.
	markerPause = time.Minute
	// laneTime is after how long a new owner that does not know a lane subscribes again,
	// once: the owner before has left by then, unless that outranks this one, which nobody
	// tells one that has as much as it takes.
	laneTime = leaveTime + time.Second
	// sickLane is how long a page waits for its lane, and a partition for those that it
	// does not know. After that they go on without it, and lose its order. A broker that
	// is restarted, or elects leaders, needs less.
	sickLane = 20 * time.Second
	// calmTime is how long a page is no longer in excess before that is logged.
	calmTime = time.Minute
)

// lane is one lane of a claim.
type lane struct {
	claim   *claim
	source  *source
	queue   string
	known   bool      // the first message in it has come, or the marker
	marker  string    // id of the marker that was sent at the beginning; empty: it came
	asked   time.Time // when it was sent
	failing time.Time // since when it takes nothing; zero: it serves
	refuses bool      // it said so itself, and says so to every replica
	lines   []*line   // whose messages go there
	beyond  int       // messages in it that are not in hand
}

// spill is the state of a page and class whose messages go to a lane.
type spill struct {
	lane     *lane
	moving   int    // messages on their way to it
	answers  bool   // answers went there too: those after them do
	marker   string // id of the marker that is in it, or on its way; empty: none
	draining bool   // the page's messages wait for the marker
}

// pageState says what the messages of a page and class do that come from the partition.
type pageState int

const (
	direct   pageState = iota // they are sent
	claiming                  // they wait: it is not known what comes first of each lane
	spilled                   // they go to the page's lane
	draining                  // they wait for the marker in it
)

// state returns the state of a page whose partition has a claim.
func (l *line) state(c *claim) pageState {
	switch {
	case !c.ready():
		return claiming
	case l.spill == nil:
		return direct
	case l.spill.draining:
		return draining
	}
	return spilled
}

// begin begins the ownership of a partition, or makes sure of it: since a while without
// a delivery another replica may have had it.
func (e *engine) begin(c *claim, now time.Time) {
	if c.since.IsZero() {
		c.since = now
	}
	c.begun = now
	if now.Sub(c.waits) > 2*laneTime { // it is no renewed one, or another replica had it
		c.waits = now
	}
	for _, k := range c.lanes {
		e.pages.abandon(k)
		k.known = k.refuses // nobody can have put anything there
		k.marker, k.asked = fmt.Sprintf("mark/%s/%d", k.queue, now.UnixNano()), now
	}
	e.sendMarkers(c, c.lanes)
}

// sendMarkers puts the first markers into lanes.
func (e *engine) sendMarkers(c *claim, lanes []*lane) {
	begun := c.begun
	msgs := make([]queue.Message, len(lanes))
	for i, k := range lanes {
		msgs[i] = queue.Message{Queue: k.queue, ID: k.marker, Headers: map[string]string{message.HeaderMarker: ""}}
	}
	e.beside(askBroker, func(ctx context.Context) error { return e.Broker.Publish(ctx, msgs...) }, func(err error) {
		if err == nil || c.leaving || !c.begun.Equal(begun) {
			return
		}
		e.Log.Warn("send the markers of a partition's lanes; trying again", "partition", c.partition.index, "err", err)
		rest := queue.Unconfirmed(msgs, err)
		e.timers.add(e.Now().Add(consumeRetry), func() {
			if c.leaving || !c.begun.Equal(begun) || e.ending {
				return
			}
			again := slices.DeleteFunc(slices.Clone(lanes), func(k *lane) bool {
				return !slices.ContainsFunc(rest, func(m queue.Message) bool { return m.ID == k.marker })
			})
			if errors.Is(err, queue.ErrRefused) {
				e.pages.refusedBy(again, e.Now())
			}
			// Those that nobody waits for any more are asked by checkLanes.
			if again = slices.DeleteFunc(again, func(k *lane) bool { return k.known }); len(again) > 0 {
				e.sendMarkers(c, again)
			}
		})
	})
}

// refusedBy notes lanes that took no marker. A queue that takes nothing delivers what it
// has: what has not come by now is not there.
func (p *pages) refusedBy(lanes []*lane, now time.Time) {
	for _, k := range lanes {
		if !k.known {
			p.Log.Warn("lane takes nothing; its partition goes on without it", "queue", k.queue)
			k.failing, k.refuses = now, true
			p.knowLane(k)
		}
	}
}

// serves notes that a lane took something.
func (k *lane) serves() { k.failing, k.refuses = time.Time{}, false }

// ready reports whether the owner knows what comes first of each lane.
func (c *claim) ready() bool {
	for _, k := range c.lanes {
		if !k.known {
			return false
		}
	}
	return true
}

// knowLane notes that what comes first of a lane is known.
func (p *pages) knowLane(k *lane) {
	if k.known {
		return
	}
	k.known = true
	if k.claim.ready() {
		if k.claim.since.Equal(k.claim.begun) { // until now the owner before may have sent what it held
			k.claim.since = p.Now()
		}
		for m := k.claim.sources[0].first; m != nil; m = m.next {
			if l := p.lines[m.key()]; l != nil {
				p.mark(l)
			}
		}
	}
}

// cameFromLane learns from a lane's message: its page has spilled before.
func (p *pages) cameFromLane(l *line, k *lane, now time.Time) {
	p.knowLane(k)
	if l.spill != nil || !k.failing.IsZero() {
		return
	}
	p.spillTo(l, k, now)
	l.spill.answers = true
	p.Log.Info("lane of a page in excess taken over", "page", l.key.Page, "class", l.key.Class, "queue", k.queue)
}

// spillTo has a page's messages go to a lane.
func (p *pages) spillTo(l *line, k *lane, now time.Time) {
	l.spill = &spill{lane: k}
	k.lines = append(k.lines, l)
	p.gate.Enter(now, l.key)
	if t := l.traffic; t.spilled.IsZero() {
		t.spilled = now
	}
}

// unspill has a page's messages be sent directly again.
func (p *pages) unspill(l *line) {
	k := l.spill.lane
	k.lines = slices.DeleteFunc(k.lines, func(o *line) bool { return o == l })
	l.spill, l.had, l.traffic.calm = nil, k, p.Now()
	p.gate.Leave(l.key)
	p.mark(l)
}

// abandon has nothing go to a lane any more.
func (p *pages) abandon(k *lane) {
	for _, l := range slices.Clone(k.lines) {
		p.unspill(l)
	}
}

// choose returns the lane for a page: the one that it had, because what came out of
// that and waits goes back there when the partition is given up; or one that is empty;
// or the one with the fewest pages, which it shares. nil: all are sick.
func (c *claim) choose(had *lane) (best *lane) {
	if had != nil && had.claim == c && had.failing.IsZero() {
		return had
	}
	load := func(k *lane) int {
		n := 2 * len(k.lines)
		if k.marker != "" || k.source.held > 0 { // there is something of a page or owner before
			n++
		}
		return n
	}
	for _, k := range c.lanes {
		if k.failing.IsZero() && (best == nil || load(k) < load(best)) {
			best = k
		}
	}
	return best
}

// overflow moves the messages of a page that wait, and came from the partition, to
// its lane. Where no lane takes any they go round by a retry queue, and lose their
// order.
func (p *pages) overflow(l *line, now time.Time) {
	pass := p.answersPass(l)
	list := l.takeMovable(func(m *held) bool { return !pass || !m.isAnswer() })
	if len(list) == 0 {
		return
	}
	if l.spill == nil {
		k := list[0].source.claim.choose(l.had)
		if k == nil {
			for _, m := range list {
				p.settler.postpone(m, retryMedium)
			}
			return
		}
		calm := l.traffic.spilled.IsZero()
		p.spillTo(l, k, now)
		if calm {
			p.Log.Info("page is in excess", "page", l.key.Page, "class", l.key.Class)
		}
	}
	s := l.spill
	s.draining = false // what goes there now is behind the marker
	for _, m := range list {
		s.answers = s.answers || m.isAnswer()
		s.moving++
		l.traffic.moved++
		to := queue.Message{Queue: s.lane.queue, ID: m.delivery.ID, Body: p.settler.encode(m), Headers: m.delivery.Headers}
		p.settler.move(m, destination{spill: s}, nil, to)
	}
}

// laneFails notes that a lane does not take a message. If that lasts, or too many
// wait for it, its pages go on without it.
func (p *pages) laneFails(s *spill, now time.Time) {
	k := s.lane
	if k.failing.IsZero() {
		k.failing = now
	}
	if now.Sub(k.failing) > sickLane || s.moving >= p.sickRoom() {
		if len(k.lines) > 0 {
			p.Log.Warn("lane is sick; its pages go on without it, and lose its order", "queue", k.queue)
		}
		p.abandon(k)
	}
}

// checkLanes looks for lanes that are sick or empty.
func (e *engine) checkLanes(c *claim, now time.Time) {
	if c.since.IsZero() || c.leaving {
		return
	}
	if now.Sub(c.busy) > quietTime && c.count(heldOf) == 0 { // another replica may have its lanes, and the markers
		for _, k := range c.lanes {
			e.pages.abandon(k)
		}
	}
	if !c.ready() && now.Sub(c.begun) > laneTime && c.waits.Equal(c.begun) {
		e.renew(c.partition, "outranked")
		if again := c.partition.claim; again != nil {
			again.waits = c.waits
		}
		return
	}
	for _, k := range c.lanes {
		e.measureLane(k)
		switch {
		case !k.known && now.Sub(c.waits) > sickLane:
			e.Log.Warn("lane does not answer; its partition goes on without it", "queue", k.queue)
			k.failing = now
			e.pages.knowLane(k)
		case k.known && k.marker != "" && now.Sub(k.asked) > markerPause: // it may be lost
			k.asked = now
			e.sendMarkers(c, []*lane{k})
		}
		for _, l := range k.lines { // at a random time, because events may come with the ticks
			if l.spill.marker == "" {
				e.timers.add(now.Add(time.Duration(e.Random()*float64(tickEvery))), func() { e.drainLane(l) })
			}
		}
	}
}

// drainLane finds out whether anything of a page is in its lane, unless messages wait
// for the page's pace. What has come out of it is in order here; what is in it comes
// out before the marker.
func (e *engine) drainLane(l *line) {
	s, now := l.spill, e.Now()
	if s == nil || s.marker != "" || s.moving > 0 || len(l.ready) > 0 || e.ending {
		return
	}
	marker := queue.Message{
		Queue: s.lane.queue, ID: fmt.Sprintf("mark/%s/%d", l.key.Page, now.UnixNano()),
		Body: []byte(l.key.Class), Headers: map[string]string{message.HeaderMarker: l.key.Page},
	}
	s.marker, s.draining = marker.ID, true
	e.beside(askBroker, func(ctx context.Context) error { return e.Broker.Publish(ctx, marker) }, func(err error) {
		switch {
		case l.spill != s:
		case err == nil:
			s.lane.serves()
		case s.marker == marker.ID:
			e.Log.Warn("send lane's marker", "queue", s.lane.queue, "err", err)
			e.pages.stopDraining(l)
			e.pages.laneFails(s, e.Now())
			e.timers.add(e.Now().Add(markerPause), func() {
				if s.marker == marker.ID { // it may come all the same
					s.marker = ""
				}
			})
		}
	})
	e.timers.add(now.Add(markerTime), func() {
		if l.spill == s && s.draining && s.marker == marker.ID {
			e.pages.stopDraining(l)
		}
	})
}

// stopDraining has what waited for the marker go to the lane, behind what is in it.
func (p *pages) stopDraining(l *line) {
	l.spill.draining = false
	p.overflow(l, p.Now())
	p.mark(l)
}

// takeMarker takes a marker off its lane.
func (e *engine) takeMarker(m *held) {
	if err := m.delivery.Ack(); err != nil {
		e.Log.Debug("acknowledge lane's marker", "id", m.delivery.ID, "err", err)
	}
	k, id := m.source.lane, m.delivery.ID
	if k == nil { // a partition has none
		return
	}
	if k.marker == id {
		k.marker = ""
		k.serves()
		e.pages.knowLane(k)
		return
	}
	l := e.pages.lines[m.key()]
	if l == nil || l.spill == nil || l.spill.marker != id { // of an owner before
		return
	}
	l.spill.marker = ""
	if l.spill.draining {
		e.pages.unspill(l)
	}
}

// blocksTime is how long a page's messages may hold a lane up that others share. It is
// longer than an answer takes: the first one opens a page that was sent nothing for a while.
const blocksTime = 3 * time.Second

// unblockLane sends those messages of a page that cannot be sent to round by a retry queue
// that are in the way of others: they share its lane, of which the page takes a large part.
// Whatever of the page is the first.
func (p *pages) unblockLane(l *line, now time.Time) {
	if l.spill == nil || len(l.spill.lane.lines) < 2 || l.waiting-l.direct <= p.LanePrefetch/4 || !p.isShut(l, now) {
		return
	}
	for m := l.spill.lane.source.first; m != nil && now.Sub(m.since) > blocksTime && l.waiting-l.direct > p.LanePrefetch/4; m = m.next {
		if m.state == isWaiting && m.key() == l.key {
			l.recipients[m.out.To].removeOne(m)
			p.settler.postpone(m, retryMedium)
		}
	}
}
