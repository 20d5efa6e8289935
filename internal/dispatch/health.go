package dispatch

import "time"

// checkHealth keeps a replica that cannot call the API from holding what others
// could send. After stuckAfter without any answer, though calls were made or are
// due, it sends nothing more of `outbound`. When its calls of that have ended and
// none was answered, it begins to probe. While the app is throttled the API does
// answer, and no other replica could send either.
func (e *engine) checkHealth(now time.Time) {
	open, throttled := e.breaker.State()
	if throttled || e.inFlight == 0 && !open {
		e.answered = now // or nothing was asked
	}
	if e.probing.Load() || e.free.silent || now.Sub(e.answered) <= stuckAfter {
		return
	}
	e.free.silent = true
	e.unanswered.Store(true)
	e.leaveFree()
}

// leaveFree gives up `outbound` once the calls of it and of broadcasts have
// ended, so that nothing is sent twice.
func (e *engine) leaveFree() {
	f := &e.free
	if !f.paused() || e.freeCalls > 0 || f.closing {
		return
	}
	f.closing = true
	e.moves.After(e.outbound.giveUp)
	if f.silent {
		e.startProbing()
	}
}

// startProbing gives back all that is held. From then on the replica takes a few
// messages at a time from each queue, to try with, until the API answers.
func (e *engine) startProbing() {
	e.probing.Store(true)
	e.Log.Warn("no answer from the API; giving back what is held, and taking a few messages to try with", "since", e.answered, "calls", e.inFlight)
	e.moves.After(e.bulkIn.giveUp)
	for i := range e.lanes {
		l := &e.lanes[i]
		l.silent = l.silent || l.held > 0
	}
	e.leaveLanes()
}

// leaveLanes gives every lane up, to subscribe to it anew.
func (e *engine) leaveLanes() {
	for i := range e.lanes {
		e.lanes[i].leaving = true
		e.leave(i)
	}
}

// noteAnswer notes that the API answers. It reports whether this replica was
// probing. If so, it is to subscribe to everything anew, once the message that
// was answered is settled.
func (e *engine) noteAnswer(now time.Time) (recovered bool) {
	e.answered = now
	e.unanswered.Store(false)
	if e.free.silent && !e.free.closing { // only slow
		e.free.silent = false
		e.awaitAll(noLane)
	}
	if !e.probing.Load() {
		return false
	}
	e.probing.Store(false)
	e.Log.Info("the API answers again; taking messages as before")
	return true
}

// resubscribe subscribes to everything as before.
func (e *engine) resubscribe() {
	e.free.leaving = true
	e.leaveLanes()
}
