package dispatch

import (
	"container/heap"
	"time"

	"chatclub/internal/breaker"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// hopeless tells whether a message must not be sent any more, and why. A
// message that could not arrive before its time is over costs no call.
func (e *engine) hopeless(j *job, now time.Time) (r rule, code string, dead bool) {
	if e.isLate(j, now) {
		return rule{reason: message.ReasonExpired}, j.lastCode, true
	}
	if j.probe { // let through before: it may have had to wait since
		return rule{}, "", false
	}
	code, held := e.stops.holds(j.out.Page, now)
	if held {
		return rule{reason: message.ReasonPageStopped}, code, true
	}
	j.probe = code != ""
	return rule{}, "", false
}

// isLate tells whether j cannot arrive in time.
func (e *engine) isLate(j *job, now time.Time) bool {
	if j.out.Deadline != 0 {
		return now.Add(e.latency).After(time.UnixMilli(j.out.Deadline))
	}
	return j.out.Age(now)+e.latency > e.MessageTTL
}

// observe learns from how long a call took. A refusal by a limit is answered
// without work and says nothing about the API's speed.
func (e *engine) observe(now time.Time, res sender.Result, rule rule) {
	if o := res.Outcome; rule.api == breaker.NoCall || o == sender.PageThrottled || o == sender.AppThrottled || o == sender.RecipientThrottled {
		return
	}
	e.limit.Observe(now, res.Latency, e.inFlight+1)
	if res.Outcome == sender.Sent {
		e.latency += (res.Latency - e.latency) / 16 // a moving average over some 16 calls
	}
	e.metrics.limit.Set(float64(e.limit.Limit()))
}

// report tells the breaker how a call went and reports whether it is open for
// the call's page.
func (e *engine) report(now time.Time, r result, rule rule) bool {
	out := r.job.out
	open, changed := e.breaker.Observe(now, breaker.Call{
		Page: out.Page, ID: out.ID, Probe: r.probe, Verdict: rule.api, Coded: r.Code != 0,
	})
	switch {
	case changed && open:
		e.Log.Warn("the API takes no calls; holding messages back and probing", "page", e.breaker.OnlyPage(), "code", r.CodeString(), "err", r.Err)
	case changed:
		e.Log.Info("the API takes calls again")
	}
	if r.probe && rule.api == breaker.Fails { // the next probe is of another message: this one's fault may be its own
		e.seq++
		r.job.seq = e.seq
	}
	return open
}

// settle does with j what the rule says.
func (e *engine) settle(j *job, r rule, dec excess.Decision, res result, open bool) {
	if j.again && r.do != waitPage {
		j.again = false // Done has counted it out
	}
	if j.probe && pageWorks(res.Outcome) {
		if e.stops.resume(j.out.Page) {
			e.Log.Info("page resumed: a probe was answered", "page", j.out.Page, "outcome", res.Outcome.String())
		}
		j.probe = false
	}
	switch r.do {
	case acknowledge:
		e.metrics.sent.Inc()
		e.metrics.age.Observe(j.out.Age(e.Now()).Seconds())
		e.acknowledge(j)
		e.release(j)
	case waitPage:
		e.metrics.refused.Inc()
		e.refused(j, dec)
	case waitApp:
		e.metrics.refusedApp.Inc()
		e.enqueue(j) // the breaker, open now, says how long
	case tryAgain:
		e.failed(j, r, res.Result, open)
	case stopPage:
		if e.stops.stop(j.out.Page, res.CodeString(), e.Now()) {
			e.Log.Error("page stopped", "page", j.out.Page, "code", res.CodeString(), "err", res.Err)
		}
		fallthrough
	case bury:
		j.attempts++
		e.bury(j, r, res.CodeString())
		e.release(j)
	case leave:
		e.release(j)
	}
}

// acknowledge takes a sent message off its queue; the broker does not keep the
// engine waiting for that.
func (e *engine) acknowledge(j *job) {
	if err := j.delivery.Ack(); err != nil {
		// The connection was lost after the call: the message is delivered
		// and sent again, with the same id in its metadata.
		e.metrics.stale.Inc()
		e.Log.Debug("acknowledge sent message", "id", j.delivery.ID, "err", err)
	}
}

// refused does with a message that its page's limit refused what the gate says.
func (e *engine) refused(j *job, dec excess.Decision) {
	switch dec.Do {
	case excess.Spill:
		e.spill(j)
		e.release(j)
	case excess.Return:
		e.giveBack(j, giveBackDelay)
		e.release(j)
	case excess.Wait, excess.Send:
		if j.lane != noLane { // back to the front; the owner's pace says when
			e.page(j).push(j)
			return
		}
		j.again = true
		e.delay(j, dec.Wait)
	}
}

// failed counts a failed attempt; after the last one the message is dead.
// While the whole API is down attempts do not count: it is not the message's
// fault.
func (e *engine) failed(j *job, r rule, res sender.Result, open bool) {
	if open && r.api == breaker.Fails {
		e.metrics.retries.WithLabelValues(res.Outcome.String()).Inc()
		e.enqueue(j) // the breaker says how long
		return
	}
	j.attempts++
	if j.out.FirstCode == "" {
		j.out.FirstCode = res.CodeString()
	}
	j.out.Attempts, j.lastCode = j.attempts, res.CodeString()
	if j.attempts >= e.MaxAttempts {
		e.bury(j, r, res.CodeString())
		e.release(j)
		return
	}
	e.metrics.retries.WithLabelValues(res.Outcome.String()).Inc()
	e.delay(j, retryDelay(j.attempts, e.Random))
}

// delay brings j back after wait; its recipient's line waits with it.
func (e *engine) delay(j *job, wait time.Duration) {
	heap.Push(&e.alarms, alarm{at: e.Now().Add(wait), job: j})
}

// dropJob lets go of a message whose delivery is stale: it is, or will be,
// delivered again.
func (e *engine) dropJob(j *job) {
	e.metrics.stale.Inc()
	if j.again {
		e.Gate.Drop(j.key())
	}
	e.release(j)
}
