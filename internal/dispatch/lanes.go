package dispatch

import "time"

// lane is what the engine knows of a lane that is delivered to it, since it was
// last subscribed to.
type lane struct {
	term     int       // how often the lane was given up: calls from before do not count
	held     int       // messages of it in the engine's hands
	inFlight int       // calls of them
	since    time.Time // when the first of what is held came
	progress time.Time // when a call ended, or something could be sent again
	silent   bool      // no progress: nothing more is sent, and without an answer it is given up
	leaving  bool      // nothing more is sent; given up once its calls have ended
	closing  bool      // that was asked for
}

// paused reports whether nothing of the lane may be sent.
func (l *lane) paused() bool { return l.silent || l.leaving }

// paused reports whether nothing of a lane, or of what is on none, may be sent.
func (e *engine) paused(i int) bool {
	if i == noLane {
		return e.free.paused()
	}
	return e.lanes[i].paused()
}

// tick checks the lanes. It gives up to another replica a lane that makes no
// progress, and one that is too many for a replica without a free call.
func (e *engine) tick() {
	e.fireTimers() // what is due now may be sent: a page whose time has come does not wait
	now := e.Now()
	e.checkHealth(now)
	clear(e.toldBusy)
	if n := e.suspended.sweep(now); n > 0 {
		e.Log.Info("suspended pages that nothing was sent to are forgotten", "pages", n)
	}
	owned, busiest := 0, -1
	for i := range e.lanes {
		l := &e.lanes[i]
		if l.held == 0 {
			continue
		}
		owned++
		if !l.paused() && e.checkProgress(i, now) {
			l.silent = true
			e.leave(i)
		}
		if !l.paused() && (busiest < 0 || l.held > e.lanes[busiest].held) {
			busiest = i
		}
	}
	e.metrics.lanes.Set(float64(owned))
	e.checkPart(owned, busiest)
}

// checkProgress reports whether a lane is stuck: it made no progress for stuckAfter
// though something of it could be sent. It notes progress where the pages' pace,
// a backoff or the breaker holds all of it back. A replica that is probing keeps
// no lane longer, whatever the reason: others may be able to send.
func (e *engine) checkProgress(i int, now time.Time) bool {
	l := &e.lanes[i]
	if e.probing.Load() {
		return now.Sub(l.since) > stuckAfter
	}
	if now.Sub(l.progress) <= stuckAfter {
		return false
	}
	if l.inFlight == 0 && !e.couldSend(i, now) {
		l.progress = now
		return false
	}
	return true
}

// couldSend reports whether a message of the lane waits for nothing but a call.
func (e *engine) couldSend(i int, now time.Time) bool {
	for id, q := range e.pages {
		if id.lane == i && len(q.heap) > 0 && !q.wakeAt.After(now) {
			return true
		}
	}
	return false
}

// replicaCount returns the number of replicas as the broker last said.
func (e *engine) replicaCount() int { return int(max(1, e.replicas.Load())) }

// checkPart gives up the busiest lane of a replica that owns more than its part
// while every call is taken.
func (e *engine) checkPart(owned, busiest int) {
	if e.inFlight < e.limit.Limit() {
		e.full = 0
		return
	}
	e.full++
	part := (len(e.lanes) + e.replicaCount() - 1) / e.replicaCount()
	if e.full >= fullTicks && owned > part && busiest >= 0 {
		e.full = 0
		e.Log.Info("every call is taken; giving up the busiest lane", "lane", busiest, "owned", owned)
		e.metrics.givenUp.WithLabelValues("overloaded").Inc()
		e.lanes[busiest].leaving = true
		e.leave(busiest)
	}
}

// noteProgress notes that a call of m's lane has ended. An answer shows that the
// lane is only slow, and it is kept. A call that failed at once shows at least
// that calls do not hang.
func (e *engine) noteProgress(m *item, now time.Time, answer, quick bool) {
	if m.lane == noLane || m.term != e.lanes[m.lane].term {
		return
	}
	l := &e.lanes[m.lane]
	if answer || quick {
		l.progress = now
	}
	if answer && l.silent && !l.closing {
		l.silent = false
		e.awaitAll(m.lane)
	}
}

// awaitAll puts the pages of a lane that may be sent again among those that wait
// for a call to end.
func (e *engine) awaitAll(lane int) {
	for id, q := range e.pages {
		if id.lane == lane && len(q.heap) > 0 {
			e.await(q)
		}
	}
}

// leave gives a lane up once its calls have ended and their results are settled,
// or on their way as acknowledgements in the lane's channel. So nothing is sent
// twice, and the rest goes on in order elsewhere. Calls that hang end when their
// time is over. To cancel the consumer and go on holding what is in a call would
// be faster, and was tried. RabbitMQ makes the next consumer active within 2 ms,
// and it overtakes what is held here.
func (e *engine) leave(i int) {
	l := &e.lanes[i]
	if !l.paused() || l.inFlight > 0 || l.closing {
		return
	}
	l.closing = true
	if l.silent {
		e.Log.Warn("lane makes no progress; giving it up", "lane", i, "held", l.held)
		e.metrics.givenUp.WithLabelValues("stuck").Inc()
	}
	e.moves.After(e.laneIn[i].giveUp)
}

// purge lets go of what is held of a source whose subscription has ended.
func (e *engine) purge(s *source) {
	switch {
	case s.lane != noLane:
		e.lanes[s.lane] = lane{term: e.lanes[s.lane].term + 1}
	case s == e.outbound:
		e.free = lane{}
	}
	e.dropDeferred()
	for id, q := range e.pages {
		if id.lane == s.lane {
			e.dropStale(q)
		}
	}
	if s == e.outbound { // a broadcast may have waited for it
		e.awaitAll(noLane)
		e.drainReady()
	}
}

// dropStale lets go of a page's messages that are another consumer's again.
// `outbound` and the broadcasts share the pages but not the subscription.
func (e *engine) dropStale(q *pageQueue) {
	var live []*item
	for len(q.heap) > 0 {
		if m := q.pop(); m.delivery.Live() {
			live = append(live, m)
		} else {
			e.dropItem(m)
		}
	}
	for _, m := range live {
		q.push(m)
	}
}
