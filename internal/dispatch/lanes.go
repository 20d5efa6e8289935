package dispatch

// tick looks at the lanes: one that makes no progress, or that is one too many
// for a replica without a free call, is given up to another replica.
func (e *engine) tick() {
	now := e.Now()
	owned, busiest := 0, -1
	for i := range e.lanes {
		l := &e.lanes[i]
		if l.held == 0 {
			continue
		}
		owned++
		if !l.leaving && now.Sub(l.progress) > stuckAfter && !e.valve.isShut() {
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
	part := (len(e.lanes) + int(e.replicas.Load()) - 1) / int(max(1, e.replicas.Load()))
	if e.full >= fullTicks && owned > part && busiest >= 0 {
		e.full = 0
		e.Log.Info("every call is taken; giving up the busiest lane", "lane", busiest, "owned", owned)
		e.metrics.givenUp.WithLabelValues("overloaded").Inc()
		e.lanes[busiest].leaving = true
		e.leave(busiest)
	}
}

// leave gives a lane up once its calls have ended, so that what was sent is
// settled and what was not goes on in order elsewhere.
func (e *engine) leave(i int) {
	if l := &e.lanes[i]; l.leaving && l.inFlight == 0 {
		e.laneIn[i].giveUp()
	}
}

// purge lets go of what is held of a lane whose subscription has ended.
func (e *engine) purge(i int) {
	for id, q := range e.pages {
		if id.lane != i {
			continue
		}
		for len(q.heap) > 0 {
			e.dropJob(q.pop())
		}
	}
	e.lanes[i].leaving = false
}
