package dispatch

import (
	"slices"
	"time"

	"chatclub/internal/circuit"
	"chatclub/internal/excess"
	"chatclub/internal/message"
)

// do is a kind of decision about the first message of a line.
type do int

const (
	wait    do = iota // nothing of the line can be sent now
	rotate            // every call that the page may have is taken: look again when one ends
	drop              // it is another's
	repeat            // it was sent before
	bury              // to the dead-letter queue
	release           // to its page's own line: the page has a token again, or is paused
	offer             // ask the excess map, which has the last word
)

// silentPause is the pause before the next check whether the broker answers.
const silentPause = 100 * time.Millisecond

// action is a decision. The zero value waits for nothing: somebody else looks
// again.
type action struct {
	do     do
	reason message.Reason // of bury
	wait   time.Duration  // of wait, when time alone changes the answer
	why    Reason         // of wait and rotate
	judged bool           // a circuit has the page wait: another message may probe for it
}

// decide returns what may happen to the first message of a line, and changes
// nothing. The order matters: a message that is no longer ours costs nothing, one that
// cannot be acknowledged now would be sent twice, and one that was sent or is too old costs
// no call. One of a paused page dies by its deadline alone; one that cannot be sent
// for long does, too. Of pages without a token the wait alone is decided, for their shared line.
// One whose page must wait takes no call that others need: so those that wait for a
// call come before those that wait for a probe.
func (e *engine) decide(l *line, m *held, now time.Time) action {
	hold, by, left := e.circuits.Hold(now, &m.out)
	pauseLeft, paused := e.orders.Page(m.out.Page).Paused(now)
	switch {
	case !m.delivery.Live():
		return action{do: drop}
	case e.Broker.IsSilent():
		return action{wait: silentPause, why: WaitsForBroker}
	case e.calls.sent.has(m):
		return action{do: repeat}
	case e.isLate(m, now):
		return action{do: bury, reason: message.ReasonExpired}
	case m.noToken && !e.tokenless.lacks(m.out.Page, now):
		return action{do: release}
	case m.noToken && e.tokenless.isOver(m, now):
		return action{do: bury, reason: message.ReasonPageStopped}
	case m.noToken:
		return action{wait: sortEvery, why: WaitsForPermission}
	case paused:
		return action{wait: pauseLeft, why: WaitsForResume}
	case hold == circuit.Dead && by == circuit.Person:
		return action{do: bury, reason: message.ReasonFailing}
	case hold == circuit.Dead && by == circuit.Event:
		return action{do: bury, reason: message.ReasonBadMessage}
	case hold == circuit.Dead:
		return action{do: bury, reason: message.ReasonPageStopped}
	case l.awaitsLane(m) && !e.pages.passes(l, m, now):
		return action{why: WaitsForHandover}
	case e.calls.full(l, partOfOthers), e.calls.full(l, partInExcess) && e.gate.InExcess(l.key):
		return action{do: rotate, why: WaitsForCalls}
	case hold == circuit.Wait:
		return action{wait: left, why: reasonOfCircuit(by), judged: true}
	}
	return action{do: offer, judged: e.circuits.IsJudged(l.key.Page)}
}

// probe returns the decision about a page's message that probes best, where a circuit has
// the first one wait, or lets it probe, and whose message that is.
func (e *engine) probe(l *line, now time.Time) (*recipient, action) {
	best := l.ready[0]
	rank := e.circuits.Rank(&best.msgs[0].out)
	for i, r := range l.ready {
		if n := e.circuits.Rank(&r.msgs[0].out); n < rank || n == rank && l.ready.Less(i, best.index) {
			best, rank = r, n
		}
		if rank == 0 && i > 0 {
			break
		}
	}
	if rank > 0 {
		if r := e.forward(l); r != nil {
			best = r
		}
	}
	return best, e.decide(l, best.msgs[0], now)
}

// forward brings a stranger's message to the head of its recipient's, where those before it are
// of the events for which a page seems to be blocked: else nobody would find out. It returns
// the recipient, nil if there is none.
func (e *engine) forward(l *line) *recipient {
	if !e.circuits.IsBlocked(l.key.Page) {
		return nil
	}
	for _, r := range l.ready {
		for i, m := range r.msgs {
			if e.circuits.Rank(&m.out) == 0 {
				r.msgs = slices.Insert(slices.Delete(r.msgs, i, i+1), 0, m)
				r.fix()
				return r
			}
		}
	}
	return nil
}

// isLate reports whether a message is too old to be sent. While its page is paused it
// grows no older, but for its deadline.
func (d *Dispatcher) isLate(m *held, now time.Time) bool {
	if m.out.Deadline != 0 {
		return now.After(time.UnixMilli(m.out.Deadline))
	}
	age := m.out.Age(now)
	return age > d.MessageTTL && age-d.orders.Page(m.out.Page).Held(now.Add(-age), now) > d.MessageTTL
}

const (
	// sickHold is the largest number of messages of a page that takes no calls that
	// wait here. Where there are more, all that may go to a lane do.
	sickHold = 64
	// shutTime is the time for which a page's pace must allow no call, so that the page
	// counts as one that takes none.
	shutTime = time.Second
)

// sickRoom returns sickHold, or an eighth of the prefetch where that is less.
func (d *Dispatcher) sickRoom() int { return min(sickHold, d.Prefetch/8) }

// answersPass reports whether a page's answers pass its lane: while few of them
// wait, and none went to the lane, where it is before them. Those of a page that takes no
// calls leave a partition that is full.
func (p *pages) answersPass(l *line, s *source, now time.Time) bool {
	return l.answers <= p.sickRoom() && (l.spill == nil || !l.spill.answers) && (l.fromPartition <= s.room() || !p.isShut(l.key, now))
}

// passes reports whether m is an answer that passes its page's lane. While it is not known
// what comes first of each queue, earlier answers may be there.
func (p *pages) passes(l *line, m *held, now time.Time) bool {
	return m.isAnswer() && m.source.claim.ready() && p.answersPass(l, m.source, now)
}

// awaitsLane reports whether m must wait for its page's lane, because older messages
// may be there; or, in a lane, for the partition, of which the owner before may hold older ones.
func (l *line) awaitsLane(m *held) bool {
	c := m.source.claim
	switch {
	case m.tried:
		return false
	case m.source.lane != nil:
		return !c.sources[0].known
	}
	state := l.state(c)
	return state == claiming || state == draining
}

// isShut reports whether a page takes no calls for longer than a moment.
func (p *pages) isShut(k excess.Key, now time.Time) bool {
	_, paused := p.orders.Page(k.Page).Paused(now)
	return paused || k.Page == noToken || p.circuits.IsShut(now, k.Page) || p.gate.ShutFor(now, k) > shutTime
}

// holds returns the number of messages that a page holds of its partition, those in calls
// included: no others can be delivered in their place.
func (l *line) holds() int { return l.fromPartition + l.calling }

// mustOverflow reports whether the messages of a page that wait go to its lane: because
// the page has one, because more wait than the partition has room for, because the
// partition is nearly full and the page holds a part of it, or because the page
// takes no calls for longer than a second. If the API takes none nothing has to make room:
// the neighbours cannot be sent to either.
func (p *pages) mustOverflow(l *line, now time.Time) bool {
	m := l.firstMovable(func(m *held) bool { return !p.passes(l, m, now) })
	if m == nil {
		return false
	}
	s := m.source
	full := l.fromPartition > s.free() && (l.fromPartition > s.prefetch/smallPart || p.isShut(l.key, now)) ||
		s.free() < s.prefetch/leastFree && l.holds() > s.prefetch/smallPart
	switch l.state(s.claim) {
	case claiming:
		return false
	case spilled:
		return true
	case draining:
		return full
	case direct:
	}
	return !p.circuits.IsOpen() && (full || l.fromPartition > p.sickRoom() && p.isShut(l.key, now))
}

// leastFree divides a partition's prefetch: so much of it is kept for pages that hold little,
// while pages that hold more go to their lanes.
const leastFree = 8

// smallPart divides a partition's prefetch. A page with fewer messages than that part is not
// the one that fills it, and stays; but many that take no calls may fill it together. So much
// broadcasts leave to conversations.
const smallPart = 32
