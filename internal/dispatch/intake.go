package dispatch

import (
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// arrive takes a message into the engine's hands.
func (e *engine) arrive(m *held) {
	now := e.Now()
	s, c := m.source, m.source.claim
	if c.isGivenUp() || !m.delivery.Live() {
		return // it goes, or went, back by itself: to the next owner
	}
	if s.isStale() {
		e.claims.dropStale(c)
	}
	s.latest = m.delivery
	quiet := c.count(inHandOf) == 0 && (now.Sub(c.busy) > quietTime || m.delivery.Redelivered)
	s.came, c.busy = now, now
	if c.since.IsZero() || quiet { // another replica may have been the owner
		e.circuits.Doubt(now, e.claims.pagesOf(c.partition))
		e.markers.begin(s, now)
	}
	if m.delivery.Redelivered && (quiet || !c.ready()) && c.since.Before(c.begun) {
		c.since = c.begun // another replica was the owner before the quiet time ended, and may have sent just now
		e.gate.Forget(now, e.claims.pagesOf(c.partition))
	}
	if s.heard.Before(c.begun) {
		s.heard = now
	}
	if message.IsMarker(m.delivery.Headers) {
		e.markers.take(m)
		return
	}
	m.since = now
	e.pages.seq++
	m.seq = e.pages.seq
	s.add(m)
	e.pages.inHand++
	e.metrics.taken.Inc()
	if s.lane == nil || s.free() <= 0 { // it holds of the lane what it can, and that is known
		e.lanes.know(s)
	}
	switch {
	case m.death != nil:
		e.settler.toDead(m, *m.death)
	case m.err != nil:
		e.Log.Error("outbound message cannot be decoded", "id", m.delivery.ID, "err", m.err)
		e.settler.bury(m, death{reason: message.ReasonUndecodable, err: m.err})
	case e.strays.has(m):
		e.strays.sendOn(m)
	default:
		e.claims.recall(m)
		e.assign(m, now)
		l := e.pages.lineOf(m)
		l.traffic.came(now, m)
		if s.lane != nil {
			e.lanes.learn(l, s.lane, now)
		}
		switch r := l.recipients[m.out.To]; {
		case m.out.NotBefore > now.UnixMilli():
			e.settler.postpone(m, queue.DelayWithin(time.UnixMilli(m.out.NotBefore).Sub(now)))
		case m.out.Broadcast != "" && s.lane == nil && e.calls.sent.has(m):
			e.outcomes.dropRepeat(m)
		case m.out.Broadcast != "" && s.lane == nil && !m.noToken:
			e.pages.standAside(l, m, now)
		case r != nil && !r.awaits.IsZero() && len(r.msgs) >= mostResting && !m.tried:
			e.settler.postpone(m, retryMedium)
		default:
			e.pages.push(l, m)
		}
		e.pages.mark(l)
	}
}

// pump moves and sends of a line what may be now.
func (e *engine) pump(l *line) {
	now := e.Now()
	switch {
	case l.shared == nil && l.waiting+len(l.aside) > 0 && e.tokenless.lacks(l.key.Page, now):
		e.gather(l, now)
	case l.shared != nil && !l.wakeAt.After(now):
		e.sort(l, now)
	}
	if e.pages.mustOverflow(l, now) {
		e.lanes.overflow(l, now)
	}
	e.lanes.unblock(l, now)
	for l.shared == nil && e.step(l, now) {
	}
	e.outcomes.makeRoom(l, now)
	e.sendAside(l, now)
	e.pages.tidy(l)
}

// step handles the first message of a line; false means: nothing more now.
func (e *engine) step(l *line, now time.Time) bool {
	if len(l.ready) == 0 || e.ending {
		return false
	}
	r := l.ready[0]
	a := e.decide(l, r.msgs[0], now)
	if l.wakeAt.After(now) && (a.do == offer || a.do == rotate || a.judged) {
		return false // no use to try before
	}
	if a.judged && len(l.ready) > 1 {
		r, a = e.probe(l, now)
	}
	m := r.msgs[0]
	switch a.do {
	case wait:
		if a.wait > 0 {
			e.pages.wake(l, now, a.wait)
		}
		return false
	case rotate:
		e.calls.awaitTurn(l)
		return false
	case offer:
		return e.offer(l, r, now)
	case drop, repeat, bury, release:
		r.take(1)
		e.end(m, a, now)
	}
	return true
}

// end does with a message that is out of its line what decide says, but for calls.
func (e *engine) end(m *held, a action, now time.Time) {
	switch a.do { //nolint:exhaustive // the others leave the message in its line
	case drop:
		e.metrics.stale.Inc()
		e.pages.letGo(m)
	case repeat:
		e.outcomes.dropRepeat(m)
	case bury:
		d := death{reason: a.reason}
		if m.noToken && a.reason == message.ReasonPageStopped {
			d = e.tokenless.death(m, now)
		}
		e.settler.bury(m, d)
	case release:
		e.release(m, now)
	}
}

// offer asks the excess map for a call, and has it made.
func (e *engine) offer(l *line, r *recipient, now time.Time) bool {
	m := r.msgs[0]
	delay, permit := e.gate.Offer(now, l.key, m.source.claim.since)
	if delay != 0 {
		m.due = now.Add(delay)
		e.pages.wake(l, now, delay)
		// The delay is news: the page may have been shut by now.
		if delay > shutTime && e.pages.mustOverflow(l, now) {
			e.lanes.overflow(l, now)
		}
		return false
	}
	if !m.due.IsZero() {
		e.metrics.paceError.Observe(max(0, now.Sub(m.due)).Seconds())
		m.due = time.Time{}
	}
	e.call(l, r, permit, now)
	return true
}
