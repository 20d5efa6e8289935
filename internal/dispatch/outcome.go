package dispatch

import (
	"container/heap"
	"time"

	"chatclub/internal/breaker"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// undeliverable reports whether a message must not be sent any more, and why. A
// message that could not arrive before its time is over costs no call.
func (e *engine) undeliverable(m *item, now time.Time) (disp disposition, code string, dead bool) {
	if e.isLate(m, now) {
		return disposition{reason: message.ReasonExpired}, m.lastCode, true
	}
	if m.probe { // let through before: it may have had to wait since
		return disposition{}, "", false
	}
	if code, held := e.suspended.holds(m.out.Page, now); held {
		return disposition{reason: message.ReasonPageStopped}, code, true
	}
	return disposition{}, "", false
}

// takeProbe makes m the probe of its suspended page if one is due.
func (e *engine) takeProbe(m *item, now time.Time) {
	m.probe = m.probe || e.suspended.takeProbe(m.out.Page, now)
}

// isLate reports whether m cannot arrive in time.
func (e *engine) isLate(m *item, now time.Time) bool {
	if m.out.Deadline != 0 {
		return now.Add(e.latency).After(time.UnixMilli(m.out.Deadline))
	}
	return m.out.Age(now)+e.latency > e.MessageTTL
}

// observe learns from how long a call took. A limit refuses without work, so a
// refusal says nothing about the API's speed.
func (e *engine) observe(now time.Time, res sender.Result, disp disposition) {
	if o := res.Outcome; disp.verdict == breaker.NoCall || o == sender.PageThrottled || o == sender.AppThrottled || o == sender.RecipientThrottled {
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
func (e *engine) report(now time.Time, r result, disp disposition) bool {
	out := r.item.out
	open, changed := e.breaker.Observe(now, breaker.Call{
		Page: out.Page, ID: out.ID, Probe: r.probe, Verdict: disp.verdict, Coded: r.Code != 0,
	})
	switch {
	case changed && open:
		e.Log.Warn("the API takes no calls; holding messages back and probing", "page", e.breaker.OnlyPage(), "code", r.CodeString(), "err", r.Err)
	case changed:
		e.Log.Info("the API takes calls again")
	}
	if r.probe && disp.verdict == breaker.Fails { // the next probe is of another message: this one may fail for a reason of its own
		e.seq++
		r.item.seq = e.seq
	}
	return open
}

// settle does with m what its disposition says.
func (e *engine) settle(m *item, disp disposition, dec excess.Decision, res result, open bool) {
	if m.retry && disp.action != waitPage {
		m.retry = false // Done has counted it out
	}
	if m.probe && pageWorks(res.Outcome) {
		if e.suspended.resume(m.out.Page) {
			e.Log.Info("page resumed: a probe was answered", "page", m.out.Page, "outcome", res.Outcome.String())
		}
		m.probe = false
	}
	switch disp.action {
	case acknowledge:
		e.metrics.sent.Inc()
		e.metrics.age.Observe(m.out.Age(e.Now()).Seconds())
		e.acknowledge(m)
		e.release(m)
	case waitPage:
		e.metrics.refused.Inc()
		e.refused(m, dec)
	case waitApp:
		e.metrics.refusedApp.Inc()
		e.enqueue(m) // the breaker, open now, says how long
	case tryAgain:
		e.failed(m, disp, res.Result, open)
	case suspendPage:
		if e.suspended.suspend(m.out.Page, res.CodeString(), e.Now()) {
			e.Log.Error("page suspended", "page", m.out.Page, "code", res.CodeString(), "err", res.Err)
		}
		fallthrough
	case bury:
		m.attempts++
		e.bury(m, disp, res.CodeString())
		e.release(m)
	case leave:
		e.release(m)
	}
}

// acknowledge takes a sent message off its queue; the broker does not keep the
// engine waiting for that.
func (e *engine) acknowledge(m *item) {
	if err := m.delivery.Ack(); err != nil {
		// The connection was lost after the call: the message is delivered
		// and sent again, with the same id in its metadata.
		e.metrics.stale.Inc()
		e.Log.Debug("acknowledge sent message", "id", m.delivery.ID, "err", err)
	}
}

// refused does what the gate says with a message that its page's limit refused.
func (e *engine) refused(m *item, dec excess.Decision) {
	switch dec.Action {
	case excess.Overflow:
		e.overflow(m)
		e.release(m)
	case excess.Return:
		e.republish(m, republishDelay)
		e.release(m)
	case excess.Wait, excess.Send:
		if m.lane != noLane { // back to the front; the owner's pace says when
			e.page(m).push(m)
			return
		}
		m.retry = true
		e.delay(m, dec.Wait)
	}
}

// failed counts a failed attempt. After the last one the message is dead. While
// the whole API is down attempts do not count: the message is not the reason.
func (e *engine) failed(m *item, disp disposition, res sender.Result, open bool) {
	if open && disp.verdict == breaker.Fails {
		e.metrics.retries.WithLabelValues(res.Outcome.String()).Inc()
		e.enqueue(m) // the breaker says how long
		return
	}
	m.attempts++
	if m.out.FirstCode == "" {
		m.out.FirstCode = res.CodeString()
	}
	m.out.Attempts, m.lastCode = m.attempts, res.CodeString()
	if m.attempts >= e.MaxAttempts {
		e.bury(m, disp, res.CodeString())
		e.release(m)
		return
	}
	e.metrics.retries.WithLabelValues(res.Outcome.String()).Inc()
	e.delay(m, retryDelay(m.attempts, e.Random))
}

// delay brings m back after wait. Other messages to its recipient wait with it.
func (e *engine) delay(m *item, wait time.Duration) {
	heap.Push(&e.timers, timer{at: e.Now().Add(wait), item: m})
}

// dropItem lets go of a message whose delivery is stale: it is, or will be,
// delivered again.
func (e *engine) dropItem(m *item) {
	e.metrics.stale.Inc()
	if m.retry {
		e.Gate.Drop(m.key())
	}
	e.release(m)
}
