package dispatch

import (
	"context"
	"log/slog"
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
	retryShort  = time.Second
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
	// backSlack is the time beyond a message's delay for which those behind it wait for
	// it to come back.
	backSlack = time.Second
	// mostResting is the largest number of messages of one recipient that wait here for
	// one in a retry queue. Further ones go there as well, and may come back in another order.
	mostResting = 32
)

// The codes of calls without an answer: it did not come in time; there was no connection,
// or it ended.
const (
	timedOut     = "timeout"
	noConnection = "network"
)

// outcomes finishes messages: by what their calls came to, and by where they were moved.
type outcomes struct {
	*run
	circuits *circuit.Circuits
	pages    *pages
	lanes    *lanes
	settler  *settler
	claims   *claims
	sent     *sentLog
}

// settle does with the messages of a call what its outcome says.
func (o *outcomes) settle(now time.Time, c *call, d disposition) {
	r := c.recipient
	if limit := o.limitsOf(r.line.key.Page).Recipient; limit > 0 {
		r.notBefore = c.began.Add(time.Duration(float64(time.Second) / limit))
	}
	for _, m := range c.msgs {
		m.tried = true
		o.trace("message called", m, slog.String("outcome", c.result.Outcome.String()), slog.Int("attempt", m.out.Attempts+1),
			slog.Duration("age", m.out.Age(now)), slog.Int("joined", len(c.msgs)))
	}
	if d.do != slowDown {
		r.throttled = 0
	}
	switch d.do {
	case acknowledge:
		for _, m := range c.msgs {
			o.acknowledge(m, now)
		}
		o.metrics.joined.Add(float64(len(c.msgs) - 1))
	case keep:
		switch c.result.Outcome { //nolint:exhaustive // the others are counted elsewhere
		case sender.PageThrottled:
			o.metrics.refused.Inc()
		case sender.AppThrottled:
			o.metrics.refusedApp.Inc()
		case sender.NoToken: // the page has lost it since it was asked for
			o.putBack(c)
			o.proceedAfter(now.Add(retryShort), c.recipient)
			return
		}
		o.putBack(c)
	case slowDown:
		r.throttled++
		if o.retry(now, c, r.throttled) {
			return // the recipient is busy until its next try
		}
	case tryAgain:
		if o.failed(now, c, d) {
			return
		}
	case discard:
		if len(c.msgs) > 1 && d.single {
			for _, m := range c.msgs {
				m.single = true
			}
			o.putBack(c)
			break
		}
		if d.reason == message.ReasonBadMessage {
			o.Log.Warn("message is refused for good", "id", c.out.ID, "code", c.code, "err", c.result.Err)
		}
		for _, m := range c.msgs {
			m.out.Attempts++
			o.settler.bury(m, death{reason: d.reason, tell: d.tell, code: c.code, err: c.result.Err, at: c.began})
		}
	case giveBack:
		for _, m := range c.msgs {
			o.pages.returned(m)
		}
	}
	o.proceedAfter(now, r)
}

// proceedAfter lets the next message to a recipient go after a time, or when the limit for one
// person allows it, if that is later.
func (o *outcomes) proceedAfter(after time.Time, r *recipient) {
	if r.notBefore.After(after) {
		after = r.notBefore
	}
	o.pages.proceedAt(r, after)
}

// trace logs what became of a message, under the id that travels with it.
func (d *Dispatcher) trace(what string, m *held, attrs ...slog.Attr) {
	if d.Log.Enabled(context.Background(), slog.LevelDebug) {
		d.Log.LogAttrs(context.Background(), slog.LevelDebug, what, append([]slog.Attr{slog.String("id", m.delivery.ID)}, attrs...)...) //nolint:sloglint // the callers give constants
	}
}

// putBack returns the messages of a call to their place. Those whose queue is given up
// go back with that.
func (o *outcomes) putBack(c *call) {
	n := 0
	for _, m := range c.msgs {
		if m.source.claim.isGivenUp() {
			o.pages.returned(m)
			continue
		}
		c.msgs[n] = m
		n++
	}
	c.recipient.putBack(c.msgs[:n])
}

// acknowledge takes a sent message off its queue; the broker does not keep the
// engine waiting for that.
func (o *outcomes) acknowledge(m *held, now time.Time) {
	o.observeAge(m, now)
	o.sent.add(m, now)
	if err := m.delivery.Ack(); err != nil {
		// The connection was lost after the call: the message is delivered again. Where
		// another replica is its owner then, it is sent again, with the same id in its
		// metadata.
		o.metrics.stale.Inc()
		o.Log.Debug("acknowledge sent message", "id", m.delivery.ID, "err", err)
	} else {
		o.metrics.sent.Inc()
	}
	o.pages.letGo(m)
}

// dropRepeat takes a message that was sent before off its queue.
func (o *outcomes) dropRepeat(m *held) {
	if err := m.delivery.Ack(); err != nil {
		o.metrics.stale.Inc()
	} else {
		o.metrics.repeats.Inc()
		o.trace("message was sent before", m)
	}
	o.pages.letGo(m)
}

// failed counts a failed attempt; after the last one the messages are dead. It is not
// the messages' fault where a permission is missing, or where the API as a whole is
// down; but a call that timed out may have been made, and counts. It reports whether the
// recipient's others wait for its next try.
func (o *outcomes) failed(now time.Time, c *call, d disposition) bool {
	c.recipient.goBehind(o.pages)
	hold, by, _ := o.circuits.Hold(now, c.out)
	excused := o.circuits.IsOpen() && !d.says.IsFromAPI() && c.code != timedOut
	if hold != circuit.Pass && (by == circuit.Permission || by == circuit.Block) || excused {
		o.metrics.retries[c.result.Outcome].Inc()
		o.putBack(c)
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
	if most >= min(triesHere, o.MaxAttempts-1) { // one of them may be at fault, in a way that nobody knows
		for _, m := range c.msgs {
			m.single = true
		}
	}
	switch {
	case most >= o.MaxAttempts:
		for _, m := range c.msgs {
			o.settler.bury(m, death{reason: d.reason, code: c.code, err: c.result.Err, at: c.began})
		}
		return false
	// It waits here for the circuit, or is dead. A sick page's messages take the pauses of a failed
	// call all the same: the page may be well for other people.
	case hold != circuit.Pass && by != circuit.Page:
		o.metrics.retries[c.result.Outcome].Inc()
		o.putBack(c)
		return false
	}
	return o.retry(now, c, most)
}

// retry has the messages of a call tried again, after the wait that follows n
// failures. It reports whether the recipient's others wait for that.
func (o *outcomes) retry(now time.Time, c *call, n int) bool {
	r := c.recipient
	r.goBehind(o.pages)
	o.metrics.retries[c.result.Outcome].Inc()
	delay, onBroker := o.retryAfter(n)
	switch {
	case c.msgs[0].source.claim.isGivenUp(): // the next owner tries it, from its first attempt
		o.putBack(c)
		return false
	case onBroker:
		for _, m := range c.msgs {
			o.goRound(m, delay)
		}
		if o.circuits.IsAtFault(c.circuit) {
			return false
		}
		o.awaitRound(r, now.Add(delay+backSlack))
		return true
	}
	o.putBack(c)
	o.proceedAfter(now.Add(delay), r)
	return true
}

// goRound has a message that was tried come back by a retry queue, before those behind it.
// Headers of others are left behind: they could be too long with ours.
func (o *outcomes) goRound(m *held, delay time.Duration) {
	ours := map[string]string{message.HeaderRetry: "1"}
	if routed := m.delivery.Headers[message.HeaderRouted]; routed != "" {
		ours[message.HeaderRouted] = routed
	}
	m.delivery.Headers = message.CarryTrace(ours, m.delivery.Headers)
	o.settler.postpone(m, delay)
}

// awaitRound has a recipient's others wait for messages that are in a retry queue.
func (o *outcomes) awaitRound(r *recipient, until time.Time) {
	r.awaits, r.busy = until, true
	o.timers.add(until, func() {
		if r.awaits.Equal(until) {
			o.pages.goOn(r)
			o.pages.mark(r.line)
		}
	})
}

// makeRoom moves the latest tried messages of a page that takes no calls to a retry queue,
// if they are too many or the partition is full: they cannot go to a lane.
func (o *outcomes) makeRoom(l *line, now time.Time) {
	if l.fromPartition == 0 || o.ending {
		return
	}
	c := o.claims.ofLine(l)
	if c == nil {
		return
	}
	most, s := o.sickRoom(), c.sources[0]
	if l.fromPartition > s.room() {
		most = 0
	}
	if l.fromPartition <= most || o.circuits.IsOpen() || !o.pages.isShut(l.key, now) {
		return
	}
	var list []*held
	for m := s.last; m != nil && l.fromPartition > most; m = m.prev {
		if m.state != isWaiting || m.key() != l.key || !m.tried {
			continue
		}
		r := l.recipients[m.out.To]
		if r == nil || !slices.Contains(r.msgs, m) || r.busy && r.awaits.IsZero() { // it stands aside; or a call, or the pause after that, ends soon
			continue
		}
		o.awaitRound(r, now.Add(retryMedium+backSlack))
		r.removeOne(m)
		list = append(list, m)
	}
	for _, m := range slices.Backward(list) { // in order, as they come back
		o.goRound(m, retryMedium)
	}
}

// returned lets go of a message that goes back to its queue.
func (p *pages) returned(m *held) {
	p.metrics.returned.Inc()
	p.trace("message returned", m)
	p.letGo(m)
}

// moved takes note of what the mover has done.
func (o *outcomes) moved() {
	s := o.settler
	s.mu.Lock()
	events := s.events
	s.events = nil
	s.mu.Unlock()
	for _, ev := range events {
		t := ev.Item.Tag.(move) //nolint:forcetypeassert // all that is added has one
		spill := t.to.spill
		switch ev.State {
		case transfer.Blocked:
			if spill != nil {
				o.lanes.fails(spill, o.Now())
			}
			continue
		case transfer.Done:
			var to queue.Message
			if len(ev.Item.To) > 0 { // else what core was to be told was left out
				to = ev.Item.To[0]
			}
			o.spanMove(t, to)
			if spill != nil && to.Delay == 0 {
				spill.lane.serves()
			}
			o.countMoved(t, to)
		case transfer.Stale:
			o.metrics.stale.Inc()
		case transfer.Failed: // it stays unsettled, and goes back with its subscription
			o.metrics.returned.Inc()
		}
		t.m.source.moving--
		if spill != nil {
			spill.moving--
		}
		o.pages.letGo(t.m)
	}
}

// countMoved counts a message that is on another queue.
func (o *outcomes) countMoved(t move, to queue.Message) {
	switch {
	case to.Delay > 0: // also in place of where it was to go
		o.metrics.delayed.Inc()
		o.trace("message moved", t.m, slog.String("queue", to.Queue), slog.Duration("for", to.Delay))
		return
	case t.to.reason != "":
		o.trace("message is dead", t.m, slog.String("reason", string(t.to.reason)))
	default:
		o.trace("message moved", t.m, slog.String("queue", to.Queue))
	}
	t.to.ends.Inc()
}
