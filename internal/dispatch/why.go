package dispatch

import (
	"slices"
	"time"

	"chatclub/internal/circuit"
)

// Reason says why a message waits. The list is closed.
type Reason string

// The reasons, in the order in which decide looks for them.
const (
	WaitsForBroker     Reason = "broker"     // does not answer, or the message came on a lost connection
	WaitsForResume     Reason = "paused"     // by an operator's order
	WaitsForHandover   Reason = "handover"   // the owner before, or a lane, may have older messages
	WaitsForCalls      Reason = "calls"      // every call that the page may have is taken
	WaitsForPage       Reason = "page"       // is sick, and probed
	WaitsForPermission Reason = "permission" // the page's token is missing or refused, and probed
	WaitsForBlock      Reason = "block"      // Meta's of the page, which is probed
	WaitsForApp        Reason = "app"        // is throttled
	WaitsForAPI        Reason = "api"        // takes no calls
	WaitsForLimit      Reason = "limit"      // the page's
	WaitsForHint       Reason = "hint"       // the platform told the page to wait
	WaitsForPerson     Reason = "person"     // whose next try is due later
	WaitsForAnswer     Reason = "answer"     // to the person's call before
	WaitsAside         Reason = "broadcast"  // behind the page's conversations
)

// WaitsForTime is the reason of one message on its way to a retry queue: it must not be sent
// before a time. No line waits for that.
const WaitsForTime Reason = "not_before"

// reasons lists every reason.
func reasons() []Reason {
	return []Reason{
		WaitsForBroker, WaitsForResume, WaitsForHandover, WaitsForCalls, WaitsForPage, WaitsForPermission, WaitsForBlock, WaitsForApp, WaitsForAPI,
		WaitsForLimit, WaitsForHint, WaitsForPerson, WaitsForAnswer, WaitsAside,
	}
}

// reasonOfCircuit returns the reason of messages that a circuit holds.
func reasonOfCircuit(by circuit.Scope) Reason {
	switch by {
	case circuit.API, circuit.Network:
		return WaitsForAPI
	case circuit.App:
		return WaitsForApp
	case circuit.Permission:
		return WaitsForPermission
	case circuit.Block:
		return WaitsForBlock
	case circuit.Person, circuit.Event:
		return WaitsForPerson
	case circuit.Page:
	}
	return WaitsForPage
}

// waiting says why the messages of a page and class wait.
type waiting struct {
	reason Reason
	until  time.Time // when it ends by itself; zero: when that for which they wait happens
}

// why returns why the first message of a line is in no call. The zero value says that nothing
// keeps it: it is sent in this step of the engine. It changes nothing.
func (e *engine) why(l *line, now time.Time) waiting {
	if len(l.ready) > 0 {
		return e.whyFirst(l, l.ready[0].msgs[0], now)
	}
	switch first := l.firstBusy(); {
	case first != nil:
		return first.why()
	case len(l.aside) > 0: // until it goes round
		return waiting{WaitsAside, l.aside[0].since.Add(retryLong + asideTime)}
	}
	return waiting{}
}

// firstBusy returns the recipient whose message came first, of a line without one who could be
// sent something; nil if nothing waits.
func (l *line) firstBusy() (first *recipient) {
	for _, r := range l.recipients {
		if len(r.msgs) > 0 && (first == nil || r.msgs[0].seq < first.msgs[0].seq) {
			first = r
		}
	}
	return first
}

// oldest returns the first message that waits, nil if there is none. A broadcast that stands
// aside is behind all others.
func (l *line) oldest() *held {
	switch first := l.firstBusy(); {
	case len(l.ready) > 0:
		return l.ready[0].msgs[0]
	case first != nil:
		return first.msgs[0]
	case len(l.aside) > 0:
		return l.aside[0]
	}
	return nil
}

// whyFirst is why of a line with a recipient who could be sent m.
func (e *engine) whyFirst(l *line, m *held, now time.Time) waiting {
	a := e.decide(l, m, now)
	w := waiting{reason: a.why}
	switch {
	case a.do == offer:
		if delay := e.gate.Next(now, l.key); delay > 0 {
			w = waiting{WaitsForLimit, now.Add(delay)}
		}
		if asked := e.gate.View(l.key).Asked; asked.After(now) {
			w = waiting{WaitsForHint, asked}
		}
	case a.why == WaitsForHandover: // they go on without a queue that says nothing
		w.until = later(m.source.claim.unknownSince, m.source.claim.begun).Add(2 * sickLane)
	case a.why == WaitsForResume:
		w.until = e.orders.Page(m.out.Page).Until
	case a.judged:
		w.until = e.circuits.Until(&m.out)
	}
	return w
}

// whyMessage returns why one message is in no call.
func (e *engine) whyMessage(m *held, now time.Time) waiting {
	if due := time.UnixMilli(m.out.NotBefore); m.state == isMoving && due.After(now) {
		return waiting{WaitsForTime, due}
	}
	l := e.pages.lines[m.key()]
	if m.state != isWaiting || l == nil {
		return waiting{}
	}
	r := l.recipients[m.out.To]
	switch {
	case slices.Contains(l.aside, m):
		return waiting{WaitsAside, m.since.Add(retryLong + asideTime)}
	case r == nil:
		return waiting{}
	case r.busy:
		return r.why()
	}
	return e.whyFirst(l, r.msgs[0], now)
}

// why returns why the messages of a recipient wait who is busy.
func (r *recipient) why() waiting {
	switch {
	case r.calling:
		return waiting{reason: WaitsForAnswer}
	case !r.awaits.IsZero():
		return waiting{WaitsForPerson, r.awaits}
	case !r.next.IsZero():
		return waiting{WaitsForPerson, r.next}
	}
	return waiting{}
}

const (
	// longWait is the wait of a line's first message, without any call of the line meanwhile,
	// from which on its reason is checked; overdue the time after its end from which it is wrong.
	longWait = 10 * time.Second
	overdue  = 5 * time.Second
)

// isExplained reports whether a wait's reason holds: what ends it has not passed for long, and
// somebody will look then. A call ends before ShutdownTimeout.
func (e *engine) isExplained(l *line, w waiting, now time.Time) bool {
	isLate := !w.until.IsZero() && now.Sub(w.until) > overdue
	if l.changed { // it is looked at now
		return true
	}
	switch w.reason {
	case "": // what kept it may have ended a moment ago
		return now.Sub(l.kept) <= overdue
	case WaitsForBroker, WaitsForResume, WaitsForPerson, WaitsForHandover, WaitsAside:
		return !isLate
	case WaitsForCalls: // one of which ends
		return l.inTurn && now.Sub(e.calls.progress) <= e.ShutdownTimeout+overdue
	case WaitsForAnswer:
		return l.inFlight > 0 && now.Sub(l.progress) <= e.ShutdownTimeout+overdue
	case WaitsForLimit, WaitsForHint, WaitsForPage, WaitsForPermission, WaitsForBlock, WaitsForApp, WaitsForAPI, WaitsForTime:
	}
	return !isLate && (l.shared != nil || l.inFlight > 0 || now.Sub(l.wakeAt) <= overdue)
}

// watch looks once a second whether what waits for long does so for a reason that holds. It
// renews the claim of what does not, so that all of that begins anew.
func (e *engine) watch(now time.Time) {
	count := make(map[Reason]int)
	for _, l := range e.pages.lines {
		if l.waiting+len(l.aside) == 0 {
			continue
		}
		w := e.why(l, now)
		count[w.reason] += l.waiting + len(l.aside)
		if w.reason != "" {
			l.kept = now
		}
		since, c := l.waitsSince(), e.claims.of(l.key.Page)
		if now.Sub(since) < longWait || e.isExplained(l, w, now) {
			continue
		}
		if l.shared != nil {
			c = l.shared.claim
		}
		e.metrics.unexplained.Inc()
		e.Log.Error("messages wait without a reason that holds; their partition is taken anew", "page", l.key.Page, "class", l.key.Class,
			"reason", string(w.reason), "until", w.until, "since", since, "messages", l.waiting, "calls", l.inFlight)
		l.progress, l.kept = now, now
		if c != nil {
			e.claims.renew(c.partition, "unexplained")
		}
	}
	for _, r := range reasons() {
		e.metrics.waiting[r].Set(float64(count[r]))
	}
}

// waitsSince returns since when a line's first message has waited without any call of it.
func (l *line) waitsSince() time.Time {
	since := l.progress
	if len(l.ready) > 0 {
		return later(since, l.ready[0].msgs[0].since)
	}
	for _, r := range l.recipients {
		if len(r.msgs) > 0 {
			return later(since, r.msgs[0].since)
		}
	}
	if len(l.aside) > 0 {
		return later(since, l.aside[0].since)
	}
	return since
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
