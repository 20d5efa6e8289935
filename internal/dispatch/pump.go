package dispatch

import (
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
)

// maxWaiting is how many messages of one free page may wait here, if the gate does
// not say more. With more the page has more than its share, and they wait better
// on disk.
const maxWaiting = 32

// hungPart is the part of the prefetch for those messages of one page that hang:
// they wait for a next try, or behind others to the same person. At an eighth it
// takes several such pages to fill the prefetch, and a large room may still wait
// for a slow API.
const hungPart = 8

// arrive takes a message into the engine's hands.
func (e *engine) arrive(m *item) {
	e.seq++
	m.seq = e.seq
	if m.lane != noLane {
		m.term = e.lanes[m.lane].term
	}
	if m.fault != nil {
		e.Log.Error("outbound message cannot be decoded", "id", m.delivery.ID, "err", m.fault)
		e.bury(m, disposition{reason: message.ReasonUndecodable}, "")
		return
	}
	q := e.page(m)
	e.hold(q, m, +1)
	if m.lane == noLane {
		if e.divert(m) {
			e.hold(q, m, -1)
			e.forget(q)
			return
		}
		e.limitWaiting(q)
	}
	if e.recipients.join(m) {
		e.enqueue(m)
	}
}

// divert moves m to its page's lane if the page is in excess, and reports whether
// it did.
func (e *engine) divert(m *item) bool {
	if !e.Gate.InExcess(m.key()) {
		return false
	}
	now := e.Now()
	dec := e.Gate.Offer(now, m.key(), m.retry)
	if dec.Action == excess.Send { // the page left excess in between
		e.Gate.Done(now, dec.Permit, excess.Other)
	}
	if dec.Action != excess.Overflow {
		return false
	}
	e.overflow(m)
	return true
}

// page returns the queue that m belongs to.
func (e *engine) page(m *item) *pageQueue {
	if m.page != nil {
		return m.page
	}
	id := pageID{Key: m.key(), lane: m.lane}
	q := e.pages[id]
	if q == nil {
		q = &pageQueue{id: id}
		e.pages[id] = q
	}
	m.page = q
	return q
}

// hold counts m in (+1) or out (−1) of the engine's hands.
func (e *engine) hold(q *pageQueue, m *item, n int) {
	q.held += n
	if m.lane == noLane {
		e.held += n
		return
	}
	l := &e.lanes[m.lane]
	if m.term != l.term {
		return
	}
	if l.held == 0 || n < 0 {
		l.progress = e.Now()
	}
	if l.held == 0 {
		l.since = l.progress
	}
	l.held += n
}

// forget drops a queue that holds nothing.
func (e *engine) forget(q *pageQueue) {
	if q.held == 0 {
		delete(e.pages, q.id)
	}
}

// limitWaiting puts a free page in excess when more of it waits for its share
// than should. That is more than maxWaiting, or than what the gate says while as
// many are left of half the prefetch, which all pages share. When that half is
// used up it is more than one. A message that waits for a call to end, or for
// the API to come back, would be no better off on a lane.
//
// It does the same with a page of which too much waits for a next try, or behind
// a message to the same person. That one may be of another class, on the lane.
// Each takes a place that other pages could have.
func (e *engine) limitWaiting(q *pageQueue) {
	if q.hung() > e.Prefetch/hungPart && e.inFlight < e.limit.Limit() && len(e.ready) == 0 {
		if open, _ := e.breaker.State(); !open {
			e.Gate.Overflow(e.Now(), q.id.Key, q.waiting())
			e.pump(q)
			return
		}
	}
	if !q.gated {
		return
	}
	left := e.Prefetch/2 - (e.held - e.freeCalls)
	if n := q.waiting(); n > max(maxWaiting, min(q.maxWaiting, left)) || n > 1 && left < 0 {
		e.Gate.Overflow(e.Now(), q.id.Key, n)
		e.pump(q)
	}
}

// enqueue makes m, the first to its recipient, one of those that can be sent.
func (e *engine) enqueue(m *item) {
	q := e.page(m)
	q.push(m)
	e.pump(q)
}

// release lets the next message to m's recipient go: m is settled, or given to
// the mover.
func (e *engine) release(m *item) {
	q := e.page(m)
	e.hold(q, m, -1)
	if next := e.recipients.next(m); next != nil {
		e.page(next).push(next)
		if nq := e.page(next); nq != q {
			e.pump(nq)
		}
	}
	e.forget(q)
}

// pump sends of a page what may be sent now.
func (e *engine) pump(q *pageQueue) {
	for len(q.heap) > 0 && !e.stopping {
		if !e.step(q) {
			return
		}
	}
}

// step handles the first message of a page. It returns false when the message
// must wait, and those behind it with it.
func (e *engine) step(q *pageQueue) bool {
	now := e.Now()
	m := q.heap[0]
	if !m.delivery.Live() {
		q.pop()
		e.dropItem(m)
		return true
	}
	if disp, code, dead := e.undeliverable(m, now); dead {
		q.pop()
		e.bury(m, disp, code)
		e.release(m)
		return true
	}
	e.takeProbe(m, now)
	if q.id.lane == noLane && e.divert(m) {
		q.pop()
		e.release(m)
		return true
	}
	if e.paused(q.id.lane) || q.wakeAt.After(now) {
		return false
	}
	if e.inFlight >= e.limit.Limit() {
		e.await(q)
		return false
	}
	wait, probe := e.breaker.Acquire(now, q.id.Page)
	if wait > 0 {
		e.wake(q, wait)
		return false
	}
	return e.offer(q, m, probe, now)
}

// offer asks the gate about m, the first of q, and does what it answers. It
// returns false when m must wait.
func (e *engine) offer(q *pageQueue, m *item, probe bool, now time.Time) bool {
	var dec excess.Decision
	if q.id.lane == noLane {
		dec = e.Gate.Offer(now, q.id.Key, m.retry)
	} else {
		dec = e.Gate.OfferLane(now, q.id.Key)
	}
	q.gated = false
	if dec.Action == excess.Send {
		q.pop()
		if !m.due.IsZero() {
			e.metrics.paceError.Observe(now.Sub(m.due).Seconds())
			m.due = time.Time{}
		}
		e.call(q, m, dec.Permit, probe)
		return true
	}
	if probe {
		e.breaker.CancelProbe()
	}
	switch dec.Action {
	case excess.Wait:
		q.gated, q.maxWaiting = true, dec.MaxWaiting
		if dec.Wait >= 0 { // otherwise the result pumps it
			e.wake(q, dec.Wait)
			if q.id.lane != noLane {
				m.due = q.wakeAt
			}
		}
		if q.id.lane == noLane && q.waiting() > maxWaiting {
			e.limitWaiting(q)
		}
		return false
	case excess.Overflow:
		q.pop()
		e.overflow(m)
		e.release(m)
	case excess.Return:
		q.pop()
		e.republish(m, republishDelay)
		e.release(m)
	case excess.Send: // above
	}
	return true
}
