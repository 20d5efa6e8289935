package dispatch

import (
	"time"

	"chatclub/internal/queue"
)

// A lane is a queue beside a partition, for pages that have more than the partition
// should hold. Each partition has the same few, which are always there, and whoever owns
// the partition owns them, in the end: the broker hands over each queue by itself.
//
// A page that has spilled sends directly what was tried and, while few wait, answers. Its
// other messages go to its lane, behind those that are in it. Once nobody waits for the page's pace a marker goes behind
// them all, and what comes next waits for it. When the marker comes out of the lane
// nothing of the page is in it, and the page's messages are sent directly again: so
// their order stays, and a page that is busy all the time leaves excess, too.
//
// A new owner does not know what is in the lanes, nor whether the owner before still
// holds some of it. It puts a marker into each and sends nothing of the partition, but
// what was tried, before that marker has come: pages may share a lane. Where the marker is
// behind much it goes on without those pages that it has seen nothing of. A lane may come
// before the partition: then a marker goes there, too, and the lane waits.

// sickLane is the longest wait of a page for its lane, and of a new owner for a queue that
// it does not know. After that they go on without it, and lose its order. A broker that
// is restarted, or elects leaders, needs less.
const sickLane = 20 * time.Second

// lane is one lane of a claim.
type lane struct {
	source  *source
	failing time.Time // since when it takes nothing; zero: it serves
	silent  bool      // it refused a new owner's marker, or did not answer, and has taken none since
	lines   []*line   // whose messages go there
	beyond  int       // messages in it that are not in hand
}

// spill is the state of a page and class whose messages go to a lane.
type spill struct {
	lane     *lane
	moving   int       // messages on their way to it
	answers  bool      // answers went there too: those after them do
	marker   string    // id of the marker that is in it, or on its way; empty: none
	asked    time.Time // when it was sent
	draining bool      // the page's messages wait for the marker
}

// pageState says what the messages of a page and class do that come from the partition.
type pageState int

const (
	direct   pageState = iota // they are sent
	claiming                  // they wait: it is not known what comes first of each queue
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

// serves notes that a lane took something.
func (k *lane) serves() { k.failing, k.silent = time.Time{}, false }

// ready reports whether the owner knows what comes first of each queue.
func (c *claim) ready() bool {
	for _, s := range c.sources {
		if !s.known {
			return false
		}
	}
	return true
}

// lanes has pages' messages go to their lanes, and be sent directly again.
type lanes struct {
	*run
	pages *pages
}

// know notes that what comes first of a partition or a lane is known.
func (ls *lanes) know(s *source) {
	if s.known {
		return
	}
	s.known = true
	c := s.claim
	if c.ready() {
		c.unknownSince = time.Time{}
		if c.since.Equal(c.begun) { // until now the owner before may have sent what it held
			c.since = ls.Now()
		}
	}
	for _, s := range c.sources {
		for m := s.first; m != nil; m = m.next {
			if l := ls.pages.lines[m.key()]; l != nil {
				ls.pages.mark(l)
			}
		}
	}
}

// learn learns from a lane's message: its page has spilled before.
func (ls *lanes) learn(l *line, k *lane, now time.Time) {
	if l.spill != nil || !k.failing.IsZero() {
		return
	}
	ls.spillTo(l, k, now)
	l.spill.answers = true
	ls.Log.Info("lane of a page in excess taken over", "page", l.key.Page, "class", l.key.Class, "queue", k.source.queue)
}

// spillTo has a page's messages go to a lane.
func (ls *lanes) spillTo(l *line, k *lane, now time.Time) {
	l.spill = &spill{lane: k}
	k.lines = append(k.lines, l)
	ls.pages.gate.Enter(now, l.key)
	if t := l.traffic; t.spilled.IsZero() {
		t.spilled = now
	}
}

// unspill has the messages of those pages of a lane be sent directly again that match.
func (ls *lanes) unspill(k *lane, match func(l *line) bool) {
	lines := k.lines
	k.lines = nil
	for _, l := range lines {
		if !match(l) {
			k.lines = append(k.lines, l)
			continue
		}
		l.spill, l.had, l.traffic.calm = nil, k, ls.Now()
		ls.pages.gate.Leave(l.key)
		ls.pages.mark(l)
	}
}

// abandon has nothing go to a lane any more.
func (ls *lanes) abandon(k *lane) { ls.unspill(k, func(*line) bool { return true }) }

// choose returns the lane for a page: the one that it had, if it holds something out of
// that, which goes back there when the partition is given up; or one that is empty;
// or the one with the fewest pages, which it shares. nil: all are sick.
func (c *claim) choose(l *line) (best *lane) {
	if had := l.had; had != nil && had.source.claim == c && had.failing.IsZero() && had.source.holds(l.key) {
		return had
	}
	load := func(k *lane) int {
		n := 2 * len(k.lines)
		if k.source.marker != "" || k.source.inHand > 0 { // there is something of a page or owner before
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
func (ls *lanes) overflow(l *line, now time.Time) {
	first := l.firstMovable(func(*held) bool { return true })
	if first == nil {
		return
	}
	pass := ls.pages.answersPass(l, first.source, now)
	list := l.takeMovable(func(m *held) bool { return !pass || !m.isAnswer() })
	if len(list) == 0 {
		return
	}
	if l.spill == nil {
		k := list[0].source.claim.choose(l)
		if k == nil {
			for _, m := range list {
				ls.pages.settler.postpone(m, retryMedium)
			}
			return
		}
		calm := l.traffic.spilled.IsZero() && l.shared == nil
		ls.spillTo(l, k, now)
		if calm {
			ls.Log.Info("page is in excess", "page", l.key.Page, "class", l.key.Class)
		}
	}
	s := l.spill
	s.draining = false // what goes there now is behind the marker
	for _, m := range list {
		s.answers = s.answers || m.isAnswer()
		s.moving++
		l.traffic.moved++
		to := queue.Message{Queue: s.lane.source.queue, ID: m.delivery.ID, Body: ls.pages.settler.encode(m), Headers: m.delivery.Headers}
		round := to // rather than that many fill the partition while they wait for a lane that hangs
		round.Queue, round.Delay = ls.Broker.Topology().OutboundOf(m.out.Page), retryMedium
		ls.pages.settler.move(m, destination{ends: ls.metrics.overflowed, spill: s}, &round, to)
	}
}

// fails notes that a lane does not take a message. If that lasts, or too many
// wait for it, its pages go on without it. An alarm says nothing of a lane.
func (ls *lanes) fails(s *spill, now time.Time) {
	if ls.Broker.Ready() != nil {
		return
	}
	k := s.lane
	if k.failing.IsZero() {
		k.failing = now
	}
	if now.Sub(k.failing) > sickLane || s.moving >= ls.sickRoom() {
		if len(k.lines) > 0 {
			ls.Log.Warn("lane is sick; its pages go on without it, and lose its order", "queue", k.source.queue)
		}
		ls.abandon(k)
	}
}

// blocksTime is the longest time for which a page's messages may block a lane that others
// share. It is longer than an answer takes: the first one opens a page that was sent
// nothing for a while.
const blocksTime = 3 * time.Second

// unblock sends those messages of a page that cannot be sent to round by a retry queue
// that are in the way of others: they share its lane, of which the page takes a large part.
// The oldest go first, and their order is lost.
func (ls *lanes) unblock(l *line, now time.Time) {
	if l.spill == nil || len(l.spill.lane.lines) < 2 {
		return
	}
	part := ls.LanePrefetch / (2 * len(l.spill.lane.lines)) // so that together they take half of it
	if l.waiting-l.fromPartition <= part || !ls.pages.isShut(l.key, now) {
		return
	}
	for m := l.spill.lane.source.first; m != nil && now.Sub(m.since) > blocksTime && l.waiting-l.fromPartition > part; m = m.next {
		if m.state == isWaiting && m.key() == l.key {
			l.recipients[m.out.To].removeOne(m)
			ls.pages.settler.postpone(m, retryMedium)
		}
	}
}
