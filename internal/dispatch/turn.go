package dispatch

import (
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
)

// park is how many messages of one free page may wait here, if the gate does not
// say more: with more the page has more than its share, and they wait better on
// disk.
const park = 32

// hungPart is the part of the prefetch that those messages of one page may take
// which wait for a next try or behind others to the same person: an eighth, so
// that it takes several such pages to fill the prefetch, and a large room may
// still wait for a slow API.
const hungPart = 8

// arrive takes a message into the engine's hands.
func (e *engine) arrive(j *job) {
	e.seq++
	j.seq = e.seq
	if j.lane != noLane {
		j.term = e.lanes[j.lane].term
	}
	if j.fault != nil {
		e.Log.Error("outbound message cannot be decoded", "id", j.delivery.ID, "err", j.fault)
		e.bury(j, rule{reason: message.ReasonUndecodable}, "")
		return
	}
	q := e.page(j)
	e.hold(q, j, +1)
	if j.lane == noLane {
		if e.Gate.Spills(j.key()) {
			e.hold(q, j, -1)
			e.spill(j)
			e.forget(q)
			return
		}
		e.checkPark(q)
	}
	if e.lines.join(j) {
		e.enqueue(j)
	}
}

// page is the queue that j belongs to.
func (e *engine) page(j *job) *pageQueue {
	if j.page != nil {
		return j.page
	}
	id := pageID{Key: j.key(), lane: j.lane}
	q := e.pages[id]
	if q == nil {
		q = &pageQueue{id: id}
		e.pages[id] = q
	}
	j.page = q
	return q
}

// hold counts j in (+1) or out (−1) of the engine's hands.
func (e *engine) hold(q *pageQueue, j *job, n int) {
	q.held += n
	if j.lane == noLane {
		e.parked += n
		return
	}
	l := &e.lanes[j.lane]
	if j.term != l.term {
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

// checkPark puts a free page in excess when more of it waits for its share than
// should: more than park, or what the gate says as long as as many are left of
// half the prefetch, which all pages share; when that is used up, more than
// one. What waits for a call to end, or for the API to come back, would be no
// better off on a lane.
//
// In excess is also a page of which too much waits for something else: for a
// next try, or behind a message to the same person, which may be one of another
// class on the lane. Each takes a place that other pages could have.
func (e *engine) checkPark(q *pageQueue) {
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
	left := e.Prefetch/2 - (e.parked - e.freeCalls)
	if n := q.waiting(); n > max(park, min(q.park, left)) || n > 1 && left < 0 {
		e.Gate.Overflow(e.Now(), q.id.Key, n)
		e.pump(q)
	}
}

// enqueue makes j, the first in its line, one of those that can be sent.
func (e *engine) enqueue(j *job) {
	q := e.page(j)
	q.push(j)
	e.pump(q)
}

// release ends j's turn: it is settled, or given to those who settle it.
func (e *engine) release(j *job) {
	q := e.page(j)
	e.hold(q, j, -1)
	if next := e.lines.next(j); next != nil {
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

// step handles the first message of a page; false means: not now, nor those
// behind it.
func (e *engine) step(q *pageQueue) bool {
	now := e.Now()
	j := q.heap[0]
	if !j.delivery.Live() {
		q.pop()
		e.dropJob(j)
		return true
	}
	if r, code, dead := e.hopeless(j, now); dead {
		q.pop()
		e.bury(j, r, code)
		e.release(j)
		return true
	}
	if q.id.lane == noLane && e.Gate.Spills(q.id.Key) {
		q.pop()
		e.spill(j)
		e.release(j)
		return true
	}
	if e.still(q.id.lane) || q.wakeAt.After(now) {
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
	return e.offer(q, j, probe, now)
}

// offer asks the gate about j, the first of q.
func (e *engine) offer(q *pageQueue, j *job, probe bool, now time.Time) bool {
	var dec excess.Decision
	if q.id.lane == noLane {
		dec = e.Gate.Offer(now, q.id.Key, j.again)
	} else {
		dec = e.Gate.OfferLane(now, q.id.Key)
	}
	q.gated = false
	if dec.Do == excess.Send {
		q.pop()
		if !j.due.IsZero() {
			e.metrics.paceError.Observe(now.Sub(j.due).Seconds())
			j.due = time.Time{}
		}
		e.call(q, j, dec.Pass, probe)
		return true
	}
	if probe {
		e.breaker.CancelProbe()
	}
	switch dec.Do {
	case excess.Wait:
		q.gated, q.park = true, dec.Park
		if dec.Wait >= 0 { // otherwise the result pumps it
			e.wake(q, dec.Wait)
			if q.id.lane != noLane {
				j.due = q.wakeAt
			}
		}
		if q.id.lane == noLane && q.waiting() > park {
			e.checkPark(q)
		}
		return false
	case excess.Spill:
		q.pop()
		e.spill(j)
		e.release(j)
	case excess.Return:
		q.pop()
		e.giveBack(j, giveBackDelay)
		e.release(j)
	case excess.Send: // above
	}
	return true
}
