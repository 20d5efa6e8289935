package dispatch

import (
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
)

// arrive takes a message into the engine's hands.
func (e *engine) arrive(m *held) {
	now := e.Now()
	s := m.source
	hello := m.delivery.Headers[message.HeaderHello] != ""
	if s.phase == closing || !m.delivery.Live() || hello && s.leaving {
		return // it goes, or went, back by itself: to the next owner
	}
	if p := s.partition; s.lane == nil {
		p.last = now
		if hello { // which has said it, and is no message: nothing counts it
			_ = m.delivery.Ack() // or it comes again
			return
		}
		p.busy = now
		if p.since.IsZero() {
			p.since = now
			if !s.leaving {
				e.collect(s)
			}
		}
		if s.early != nil {
			e.cameEarly(s, m)
			return
		}
	} else {
		s.lane.came, s.lane.barren = now, 0
	}
	m.since = now
	e.pages.seq++
	m.seq = e.pages.seq
	s.add(m)
	if m.delivery.Headers[message.HeaderLane] != "" {
		m.token = true
		if s.lane != nil {
			e.takeMarker(m)
		} else {
			e.takeToken(m)
		}
		return
	}
	e.pages.held++
	e.metrics.taken.Inc()
	switch {
	case m.death != nil:
		e.toDead(m, *m.death)
	case m.err != nil:
		e.Log.Error("outbound message cannot be decoded", "id", m.delivery.ID, "err", m.err)
		e.bury(m, death{reason: message.ReasonUndecodable})
	default:
		l := e.pages.line(m.key())
		l.traffic.came(now, m)
		if m.out.Broadcast != "" && s.lane == nil {
			e.setAside(l, m)
		} else {
			l.push(m)
			l.latest = m
			if s.lane != nil && s.lane.marking { // what waits for the marker is behind it
				e.goBehind(s.lane)
			}
		}
		e.pages.mark(l)
	}
}

// pump moves and sends of a line what may be now.
func (e *engine) pump(l *line) {
	now, latest := e.Now(), l.latest
	if l.latest = nil; l.goBehind || latest != nil && e.mustOverflow(l, latest, now) {
		l.goBehind = false
		e.overflow(l, latest)
	}
	for e.step(l, now) {
	}
	e.sendAside(l, now)
	e.pages.tidy(l)
}

// step handles the first message of a line; false means: nothing more now.
func (e *engine) step(l *line, now time.Time) bool {
	if len(l.ready) == 0 || e.ending {
		return false
	}
	r := l.ready[0]
	m := r.msgs[0]
	switch a := e.decide(l, m, now); a.do {
	case wait:
		if a.wait > 0 {
			e.wake(l, now, a.wait)
		}
		return false
	case rotate:
		e.calls.await(l)
		return false
	case drop:
		r.take(1)
		e.metrics.stale.Inc()
		e.letGo(m)
	case bury:
		r.take(1)
		e.bury(m, death{reason: a.reason})
	case postpone:
		r.take(1)
		if m.out.Broadcast != "" { // core shall put no more of them there
			e.postpone(m, a.wait, e.tellBusy(l, m, now)...)
		} else {
			e.postpone(m, a.wait)
		}
	case overflow:
		return e.overflow(l, nil)
	case offer:
		return e.offer(l, r, now)
	}
	return true
}

// offer asks the excess map for a call, and has it made.
func (e *engine) offer(l *line, r *recipient, now time.Time) bool {
	m := r.msgs[0]
	d := e.gate.Offer(now, excess.Request{Key: l.key, Since: m.source.partition.since})
	if d.Wait != 0 {
		m.due = now.Add(d.Wait)
		e.wake(l, now, d.Wait)
		if d.Wait > shutTime && e.mustOverflow(l, m, now) {
			return e.overflow(l, nil)
		}
		return false
	}
	if !m.due.IsZero() {
		e.metrics.paceError.Observe(max(0, now.Sub(m.due)).Seconds())
		m.due = time.Time{}
	}
	e.call(l, r, d.Permit, now)
	return true
}

// wake makes the engine look at a line after d.
func (e *engine) wake(l *line, now time.Time, d time.Duration) {
	at := now.Add(min(d, lookEvery))
	l.wakeAt = at
	e.timers.add(at, func() {
		if l.wakeAt.Equal(at) {
			l.wakeAt = time.Time{}
			e.pages.mark(l)
		}
	})
}
