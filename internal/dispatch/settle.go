package dispatch

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/circuit"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/transfer"
	"chatclub/internal/sender"
)

// The delays of the retry queues.
const (
	retryMedium = 10 * time.Second
	retryLong   = time.Minute
)

// triesHere is after how many failed attempts a message waits here. After more it waits on
// the broker.
const triesHere = 3

// retryAfter is the wait after the n-th failed attempt, n from 1. The first
// three are here, with full jitter, for faults of a moment; from then on the
// message waits on the broker.
func (d *Dispatcher) retryAfter(n int) (wait time.Duration, onBroker bool) {
	switch {
	case n <= triesHere:
		return backoff.Policy{Min: 250 * time.Millisecond, Max: time.Second, High: 1, Random: d.Random}.Delay(n), false
	case n <= 6:
		return retryMedium, true
	}
	return retryLong, true
}

const (
	// backSlack is how much longer than a message's delay those behind it wait for it to
	// come back.
	backSlack = time.Second
	// mostResting is how many messages of one recipient wait here for one in a retry
	// queue. Further ones go there as well, and may come back in another order.
	mostResting = 32
)

// The codes of calls that nobody answered: in time, and because there was no
// connection or it ended.
const (
	timedOut     = "timeout"
	noConnection = "network"
)

// settle does with the messages of a call what its outcome says.
func (e *engine) settle(now time.Time, c *call, d disposition) {
	r := c.recipient
	for _, m := range c.msgs {
		m.tried = true
		e.trace("message called", m, slog.String("outcome", c.result.Outcome.String()), slog.Int("attempt", m.out.Attempts+1),
			slog.Duration("age", m.out.Age(now)), slog.Int("joined", len(c.msgs)))
	}
	if d.do != slowDown {
		r.throttled = 0
	}
	switch d.do {
	case acknowledge:
		for _, m := range c.msgs {
			e.acknowledge(m, now)
		}
		e.metrics.joined.Add(float64(len(c.msgs) - 1))
	case keep:
		switch c.result.Outcome { //nolint:exhaustive // the others are counted elsewhere
		case sender.PageThrottled:
			e.metrics.refused.Inc()
		case sender.AppThrottled:
			e.metrics.refusedApp.Inc()
		}
		e.pages.putBack(c)
	case slowDown:
		r.throttled++
		if e.retry(now, c, r.throttled) {
			return // the recipient is busy until its next try
		}
	case tryAgain:
		if e.failed(now, c, d) {
			return
		}
	case discard:
		if len(c.msgs) > 1 && d.single {
			for _, m := range c.msgs {
				m.single = true
			}
			e.pages.putBack(c)
			break
		}
		if d.reason == message.ReasonBadMessage {
			e.Log.Warn("message is refused for good", "id", c.out.ID, "code", c.code, "err", c.result.Err)
		}
		for _, m := range c.msgs {
			m.out.Attempts++
			e.settler.bury(m, death{reason: d.reason, tell: d.tell, code: c.code, err: c.result.Err, at: c.began})
		}
	case leave:
		for _, m := range c.msgs {
			e.pages.returned(m)
		}
	}
	e.release(now, now, c)
}

// release says that the next message to a call's recipient need not wait after a time, or
// as long as the limit for one person says.
func (e *engine) release(now, after time.Time, c *call) {
	r := c.recipient
	if limit := e.limitsOf(r.line.key.Page).Recipient; limit > 0 {
		if next := c.began.Add(time.Duration(float64(time.Second) / limit)); next.After(after) {
			after = next
		}
	}
	if !after.After(now) {
		r.release()
		return
	}
	e.timers.add(after, func() {
		r.release()
		e.pages.mark(r.line)
	})
}

// trace logs what became of a message, under the id that travels with it.
func (d *Dispatcher) trace(what string, m *held, attrs ...slog.Attr) {
	if d.Log.Enabled(context.Background(), slog.LevelDebug) {
		d.Log.LogAttrs(context.Background(), slog.LevelDebug, what, append([]slog.Attr{slog.String("id", m.delivery.ID)}, attrs...)...) //nolint:sloglint // the callers give constants
	}
}

// putBack returns the messages of a call to their place. Those whose queue is given up
// go back with that.
func (p *pages) putBack(c *call) {
	n := 0
	for _, m := range c.msgs {
		if m.source.claim.isGivenUp() {
			p.returned(m)
			continue
		}
		c.msgs[n] = m
		n++
	}
	c.recipient.putBack(c.msgs[:n])
}

// acknowledge takes a sent message off its queue; the broker does not keep the
// engine waiting for that.
func (e *engine) acknowledge(m *held, now time.Time) {
	e.observeAge(m, now)
	e.calls.sent.add(m, now)
	if err := m.delivery.Ack(); err != nil {
		// The connection was lost after the call: the message is delivered again. Where
		// another replica is its owner then, it is sent again, with the same id in its
		// metadata.
		e.metrics.stale.Inc()
		e.Log.Debug("acknowledge sent message", "id", m.delivery.ID, "err", err)
	} else {
		e.metrics.sent.Inc()
	}
	e.pages.letGo(m)
}

// dropRepeat takes a message that was sent before off its queue.
func (e *engine) dropRepeat(m *held) {
	if err := m.delivery.Ack(); err != nil {
		e.metrics.stale.Inc()
	} else {
		e.metrics.repeats.Inc()
		e.trace("message was sent before", m)
	}
	e.pages.letGo(m)
}

// failed counts a failed attempt; after the last one the messages are dead. It is not
// the messages' fault where a permission is missing, or where the API as a whole is
// down; but a call that nobody answered may have been made, and counts. It reports
// whether the recipient waits here for its next try.
func (e *engine) failed(now time.Time, c *call, d disposition) bool {
	c.recipient.goBehind(e.pages)
	hold, by, _ := e.circuits.Hold(now, c.out)
	excused := e.circuits.IsOpen() && !d.says.IsFromAPI() && c.code != timedOut
	if hold != circuit.Pass && (by == circuit.Permission || by == circuit.Block) || excused {
		e.metrics.retries[c.result.Outcome].Inc()
		e.pages.putBack(c)
		return false
	}
	most := 0
	for _, m := range c.msgs {
		m.out.Attempts++
		if m.out.FirstCode == "" {
			m.out.FirstCode = c.code[:min(len(c.code), message.MaxCode)]
		}
		most = max(most, m.out.Attempts)
	}
	switch {
	case most >= e.MaxAttempts:
		for _, m := range c.msgs {
			e.settler.bury(m, death{reason: d.reason, code: c.code, err: c.result.Err, at: c.began})
		}
		return false
	// It waits here for that, or is dead. A sick page's messages take the pauses of a failed
	// call all the same: the page may be well for other people.
	case hold != circuit.Pass && by != circuit.Page:
		e.metrics.retries[c.result.Outcome].Inc()
		e.pages.putBack(c)
		return false
	}
	return e.retry(now, c, most)
}

// retry has the messages of a call tried again, after the wait that follows n
// failures. It reports whether the recipient's others wait for that.
func (e *engine) retry(now time.Time, c *call, n int) bool {
	r := c.recipient
	r.goBehind(e.pages)
	e.metrics.retries[c.result.Outcome].Inc()
	delay, onBroker := e.retryAfter(n)
	switch {
	case c.msgs[0].source.claim.isGivenUp(): // the next owner tries it, from its first attempt
		e.pages.putBack(c)
		return false
	case onBroker:
		for _, m := range c.msgs {
			e.goRound(m, delay)
		}
		if e.circuits.IsAtFault(c.circuit) {
			return false
		}
		e.awaitRound(r, now.Add(delay+backSlack))
		return true
	}
	e.pages.putBack(c)
	e.release(now, now.Add(delay), c)
	return true
}

// goRound has a message that was tried come back by a retry queue, before those behind it.
func (e *engine) goRound(m *held, delay time.Duration) {
	m.delivery.Headers = maps.Clone(m.delivery.Headers)
	if m.delivery.Headers == nil {
		m.delivery.Headers = make(map[string]string, 1)
	}
	m.delivery.Headers[message.HeaderRetry] = "1"
	e.settler.postpone(m, delay)
}

// awaitRound has a recipient's others wait for messages that are in a retry queue.
func (e *engine) awaitRound(r *recipient, until time.Time) {
	r.awaits, r.busy = until, true
	e.timers.add(until, func() {
		if r.awaits.Equal(until) {
			r.goOn()
			e.pages.mark(r.line)
		}
	})
}

// makeRoom sends what a page that takes no calls has too much of, and cannot go to a lane,
// round by a retry queue, the latest first: what was tried.
func (e *engine) makeRoom(l *line, now time.Time) {
	if l.direct <= e.sickRoom() || e.ending || e.circuits.IsOpen() || !e.pages.isShut(l, now) {
		return
	}
	c := e.claims.of(l.key.Page)
	if c == nil {
		return
	}
	for m := c.sources[0].last; m != nil && l.direct > e.sickRoom(); m = m.prev {
		if m.state != isWaiting || m.key() != l.key || !m.tried {
			continue
		}
		r := l.recipients[m.out.To]
		if r == nil || !slices.Contains(r.msgs, m) || r.busy && r.awaits.IsZero() { // it stands aside; or a call, or the pause after that, ends soon
			continue
		}
		e.awaitRound(r, now.Add(retryMedium+backSlack))
		r.removeOne(m)
		e.goRound(m, retryMedium)
	}
}

// returned lets go of a message that goes back to its queue.
func (p *pages) returned(m *held) {
	p.metrics.returned.Inc()
	p.trace("message returned", m)
	p.letGo(m)
}

// settled counts what has been moved.
func (e *engine) settled() {
	s := e.settler
	s.mu.Lock()
	events := s.events
	s.events = nil
	s.mu.Unlock()
	for _, ev := range events {
		t := ev.Item.Tag.(moving) //nolint:forcetypeassert // all that is added has one
		spill := t.to.spill
		switch ev.State {
		case transfer.Blocked:
			if spill != nil {
				e.lanes.fails(spill, e.Now())
			}
			continue
		case transfer.Done:
			var to queue.Message
			if len(ev.Item.To) > 0 { // else what core was to be told was left out
				to = ev.Item.To[0]
			}
			e.spanMove(t, to)
			switch {
			case spill != nil:
				spill.lane.serves()
				e.metrics.overflowed.Inc()
				e.trace("message moved", t.m, slog.String("queue", to.Queue))
			case to.Delay > 0, t.to == (destination{}): // the last one to be confirmed may be what core is told
				e.metrics.delayed.Inc()
				e.trace("message moved", t.m, slog.String("queue", to.Queue), slog.Duration("for", to.Delay))
			case t.to.passed:
				e.metrics.passed.Inc()
				e.trace("message moved", t.m, slog.String("queue", to.Queue))
			case t.to.stray:
				e.metrics.strays.Inc()
				e.trace("message moved", t.m, slog.String("queue", to.Queue))
			default:
				e.metrics.dead[t.to.reason].Inc()
				e.trace("message is dead", t.m, slog.String("reason", string(t.to.reason)))
			}
		case transfer.Stale:
			e.metrics.stale.Inc()
		case transfer.Failed: // it stays unsettled, and goes back with its subscription
			e.metrics.returned.Inc()
		}
		t.m.source.moving--
		if spill != nil {
			spill.moving--
		}
		e.pages.letGo(t.m)
	}
}
