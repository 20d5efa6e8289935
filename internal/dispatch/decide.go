package dispatch

import (
	"time"

	"chatclub/internal/message"
)

// do is what happens to the first message of a line.
type do int

const (
	wait     do = iota // nothing of the line can be sent now
	rotate             // every call that the page may have is taken: look again when one ends
	drop               // it is another's
	bury               // to the dead-letter queue
	postpone           // to a retry queue
	overflow           // all that waits of the page goes to its lane
	offer              // ask the excess map, which has the last word
)

// silentPause is how soon it is looked again whether the broker answers.
const silentPause = 100 * time.Millisecond

// action is a decision. The zero value waits for nothing: somebody else looks
// again.
type action struct {
	do     do
	reason message.Reason // of bury
	wait   time.Duration  // of wait, when time alone changes the answer; of postpone
}

// decide returns what may happen to the first message of a line, and changes
// nothing. The order matters: a message that is no longer ours costs nothing,
// one that cannot be acknowledged now would be sent twice, one that cannot
// arrive costs no call, one that would only wait goes to the broker, and one
// whose page must wait takes no call that others need.
func (e *engine) decide(l *line, m *held, now time.Time) action {
	switch {
	case !m.delivery.Live():
		return action{do: drop}
	case e.Broker.IsSilent():
		return action{wait: silentPause}
	case e.isLate(m, now):
		return action{do: bury, reason: message.ReasonExpired}
	case !m.probe && e.suspended.holds(m.out.Page, now) == forGood:
		return action{do: bury, reason: message.ReasonPageStopped}
	case !m.probe && e.suspended.holds(m.out.Page, now) == forNow:
		return action{do: postpone, wait: e.suspended.pause(m.out.Page, now)}
	case e.people.fails(&m.out, now):
		return action{do: bury, reason: message.ReasonFailing}
	case e.people.deferred(&m.out, now) > 0:
		return action{do: postpone, wait: e.people.deferred(&m.out, now)}
	case e.mustOverflow(l, m, now):
		return action{do: overflow}
	case m.source.leaving, l.awaitsLane(m) && !e.passes(l, m):
		return action{}
	case !l.wakeAt.IsZero() && l.wakeAt.After(now):
		return action{}
	case e.calls.full(l, partOfOthers), e.calls.full(l, partInExcess) && e.gate.InExcess(l.key):
		return action{do: rotate}
	}
	if d := e.breaker.Wait(now, m.out.Page); d > 0 {
		return action{wait: d}
	}
	if d := e.breaker.PageWait(now, m.out.Page); d > 0 {
		return action{wait: d}
	}
	return action{do: offer}
}

// isLate reports whether m cannot arrive in time.
func (e *engine) isLate(m *held, now time.Time) bool {
	if m.out.Deadline != 0 {
		return now.Add(e.calls.expected(now)).After(time.UnixMilli(m.out.Deadline))
	}
	return m.out.Age(now)+e.calls.expected(now) > e.MessageTTL
}

const (
	// sickHold is how many messages of a page that cannot be sent to now may wait
	// here; the others wait in its lane.
	sickHold = 64
	// shutTime is how long a page must be shut for that.
	shutTime = time.Second
)

// sickRoom returns how many that are, where the prefetch is small.
func (d *Dispatcher) sickRoom() int { return min(sickHold, d.Prefetch/8) }

// answersPass reports whether a page's answers pass its lane: while few of them
// wait, and none went to the lane, where it is before them.
func (e *engine) answersPass(l *line) bool {
	return l.answers <= e.sickRoom() && (l.lane == nil || !l.lane.answers)
}

// passes reports whether m is an answer that passes its page's lane.
func (e *engine) passes(l *line, m *held) bool { return m.isAnswer() && e.answersPass(l) }

// mustOverflow reports whether what waits of a page goes to its lane: because
// the page has one that is in use, because more waits than the partition has
// room for, or because the page takes no calls for longer than a second. What
// was tried stays, and so does a broadcast's message that is about to be.
func (e *engine) mustOverflow(l *line, m *held, now time.Time) bool {
	s := m.source
	switch {
	case s.lane != nil || s.leaving || m.tried || m.out.Priority() == message.PriorityBroadcast || e.passes(l, m):
		return false
	case l.lane != nil && (!l.lane.open || l.lane.marking): // it is being declared, looked for or found empty
		return !l.lane.failing.IsZero() && l.direct > s.free()
	case l.lane != nil && l.lane.inUse, l.direct > s.free():
		return true
	}
	return l.direct > e.sickRoom() && (e.breaker.IsPageOpen(l.key.Page) || e.gate.ShutFor(now, l.key) > shutTime)
}
