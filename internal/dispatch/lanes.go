package dispatch

import "time"

// tick looks at the lanes: one that makes no progress, or that is one too many
// for a replica without a free call, is given up to another replica.
func (e *engine) tick() {
	now := e.Now()
	e.checkHealth(now)
	clear(e.toldBusy)
	owned, busiest := 0, -1
	for i := range e.lanes {
		l := &e.lanes[i]
		if l.held == 0 {
			continue
		}
		owned++
		if !l.leaving && now.Sub(l.progress) > stuckAfter {
			e.Log.Warn("lane makes no progress; giving it up", "lane", i, "held", l.held, "in_flight", l.inFlight)
			e.metrics.givenUp.WithLabelValues("stuck").Inc()
			l.leaving = true
			e.laneIn[i].giveUp() // without waiting for its calls: they hang
			continue
		}
		if !l.leaving && (busiest < 0 || l.held > e.lanes[busiest].held) {
			busiest = i
		}
	}
	e.metrics.lanes.Set(float64(owned))
	if e.inFlight < e.limit.Limit() {
		e.full = 0
		return
	}
	e.full++
	part := (len(e.lanes) + e.counted() - 1) / e.counted()
	if e.full >= fullTicks && owned > part && busiest >= 0 {
		e.full = 0
		e.Log.Info("every call is taken; giving up the busiest lane", "lane", busiest, "owned", owned)
		e.metrics.givenUp.WithLabelValues("overloaded").Inc()
		e.lanes[busiest].leaving = true
		e.leave(busiest)
	}
}

// leave gives a lane up once its calls have ended and what they came to is
// settled or, as an acknowledgement, on its way in the lane's channel, so that
// nothing is sent twice and the rest goes on in order elsewhere.
func (e *engine) leave(i int) {
	if l := &e.lanes[i]; l.leaving && l.inFlight == 0 {
		e.moves.after(e.laneIn[i].giveUp)
	}
}

// purge lets go of what is held of a lane whose subscription has ended.
func (e *engine) purge(i int) {
	if i != noLane {
		e.lanes[i] = lane{term: e.lanes[i].term + 1}
	}
	e.dropAsides()
	for id, q := range e.pages {
		if id.lane != i {
			continue
		}
		for len(q.heap) > 0 {
			e.dropJob(q.pop())
		}
	}
}

// checkHealth keeps a replica that cannot call the API from holding what others
// could send. After stuckAfter without any answer, though calls were made or
// are due, it gives back what it holds of `outbound` and takes one message at
// a time, to try with. The first answer ends that. A call that hangs then may
// still arrive after its message was sent by another: that is what a hanging
// call costs.
func (e *engine) checkHealth(now time.Time) {
	if e.inFlight == 0 && !e.valve.isShut() {
		e.answered = now // nothing was asked
	}
	if e.canary || now.Sub(e.answered) <= stuckAfter {
		return
	}
	e.canary = true
	e.Log.Warn("no answer from the API; taking one message at a time", "since", e.answered, "calls", e.inFlight)
	e.metrics.givenUp.WithLabelValues("stuck").Inc()
	e.outbound.prefetch.Store(1)
	e.outbound.giveUp()
	e.bulkIn.giveUp()
}

// wasAnswered notes that the API answers.
func (e *engine) wasAnswered(now time.Time) {
	e.answered = now
	if !e.canary {
		return
	}
	e.canary = false
	e.Log.Info("the API answers again; taking messages as before")
	e.outbound.prefetch.Store(int64(e.Prefetch))
	e.outbound.calm.Store(true)
	e.outbound.giveUp() // and subscribed to again
}
