package dispatch

import (
	"time"

	"chatclub/internal/breaker"
	"chatclub/internal/excess"
	"chatclub/internal/sender"
)

// result is a call, and once it has ended what it came to.
type result struct {
	item   *item
	permit excess.Permit
	probe  bool
	began  time.Time
	sender.Result
}

// call has a worker make the call of m.
func (e *engine) call(q *pageQueue, m *item, permit excess.Permit, probe bool) {
	now := e.Now()
	m.called = now.UnixMilli()
	e.count(q, m, +1, now)
	e.metrics.inFlight.Inc()
	if permit.Probe() {
		e.metrics.probes[probePage].Inc()
	}
	if probe {
		e.metrics.probes[probeAPI].Inc()
	}
	if m.probe {
		e.metrics.probes[probeSuspended].Inc()
	}
	if e.inFlight > e.workers {
		e.workers++
		e.callers.Go(e.work)
	}
	e.due <- result{item: m, permit: permit, probe: probe, began: now} // has room: there is a worker for each call
}

// work makes calls, one after another, until the engine ends. A goroutine for each
// call would grow its stack anew each time.
func (e *engine) work() {
	for r := range e.due {
		r.Result = e.Sender.Send(e.calls, r.item.out)
		e.results <- r
	}
}

// count counts a call of m, of page q, that begins (+1) or has ended (−1).
func (e *engine) count(q *pageQueue, m *item, n int, now time.Time) {
	e.inFlight += n
	q.inFlight += n
	if m.lane == noLane {
		e.freeCalls += n
	} else if l := &e.lanes[m.lane]; m.term == l.term {
		if l.inFlight == 0 {
			l.progress = now // nothing was asked for until now
		}
		l.inFlight += n
	}
}

// ended settles the message of a call that has ended by its outcome.
func (e *engine) ended(r result) {
	now := e.Now()
	m := r.item
	q := e.page(m)
	e.count(q, m, -1, now)
	e.metrics.inFlight.Dec()
	disp := dispositionOf(r.Outcome)
	if !called(r.Result) {
		disp.verdict = breaker.NoCall
	}
	dec := e.Gate.Done(now, r.permit, limitResult(r.Outcome))
	answer := disp.verdict == breaker.Answers || disp.verdict == breaker.Throttled // a refusal is one, too
	recovered := answer && e.noteAnswer(now)
	e.noteProgress(m, now, answer, now.Sub(r.began) < stuckAfter)
	e.observe(now, r.Result, disp)
	open := e.report(now, r, disp)
	e.settle(m, disp, dec, r, open)
	if len(e.ready) == 0 {
		e.pump(q)
	} else if len(q.heap) > 0 { // behind those that wait: the call that is free now is theirs
		e.await(q)
	}
	e.drainReady()
	if recovered {
		e.resubscribe()
	}
	if m.lane != noLane {
		e.leave(m.lane)
	}
	e.leaveFree()
}

// drainReady tries the pages that waited for a call to end, one after another.
func (e *engine) drainReady() {
	for len(e.ready) > 0 && e.inFlight < e.limit.Limit() && !e.stopping {
		q := e.ready[0]
		e.ready[0] = nil
		e.ready = e.ready[1:]
		q.ready = false
		if len(q.heap) == 0 {
			continue
		}
		// One message each, so that no page takes every call.
		if e.step(q) && len(q.heap) > 0 {
			e.await(q)
		}
	}
}

// await puts a page among those that wait for a call to end.
func (e *engine) await(q *pageQueue) {
	if !q.ready {
		q.ready = true
		e.ready = append(e.ready, q)
	}
}

// called reports whether a call was made. The sender finds some errors without
// asking the API: an unknown token, or a page that cannot be one.
func called(res sender.Result) bool {
	switch res.Outcome { //nolint:exhaustive // the others come of calls
	case sender.Canceled:
		return false
	case sender.BadMessage, sender.PageStopped:
		return res.Status != 0 || res.Code != 0
	default:
		return true
	}
}

// limitResult returns an outcome as the gate sees it.
func limitResult(o sender.Outcome) excess.Result {
	switch o {
	case sender.PageThrottled:
		return excess.Refused
	case sender.Sent, sender.Ambiguous:
		return excess.Accepted
	case sender.AppThrottled, sender.RecipientThrottled, sender.Transient, sender.RecipientGone,
		sender.WindowClosed, sender.NotOurs, sender.BadMessage, sender.PageStopped,
		sender.PageStoppedForATime, sender.Canceled:
		return excess.Other
	}
	return excess.Other
}
