package dispatch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/breaker"
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

// triesHere is after how many failed attempts a message waits on the broker.
const triesHere = 3

// retryAfter is the wait after the n-th failed attempt, n from 1. The first
// three are here, with full jitter, for faults of a moment; from then on the
// message waits on the broker.
func (e *engine) retryAfter(n int) (d time.Duration, onBroker bool) {
	switch {
	case n <= triesHere:
		return backoff.Policy{Min: 250 * time.Millisecond, Max: time.Second, High: 1, Random: e.Random}.Delay(n), false
	case n <= 6:
		return retryMedium, true
	}
	return retryLong, true
}

// The codes of calls that nobody answered: in time, and because there was no
// connection or it ended.
const (
	timedOut     = "timeout"
	noConnection = "network"
)

// settle does with the messages of a call what its outcome says.
func (e *engine) settle(now time.Time, c *call, d disposition) {
	first, r, page := c.msgs[0], c.recipient, c.out.Page
	if first.probe {
		first.probe = false // or it would be one for ever
		e.suspended.probed(page, now, d.works || d.stops)
		if d.works && e.suspended.resume(page, now) {
			e.Log.Info("page resumed: a probe was answered", "page", page, "outcome", c.result.Outcome.String())
		}
	}
	if d.works {
		delete(e.denials, page)
	}
	for _, m := range c.msgs {
		m.tried = true
		e.trace("message called", m, slog.String("outcome", c.result.Outcome.String()), slog.Int("attempt", m.out.Attempts+1),
			slog.Duration("age", m.out.Age(now)), slog.Int("joined", len(c.msgs)))
	}
	switch d.do {
	case acknowledge:
		if told := e.people.answered(&first.out); told {
			e.suspended.reach(page, first.out.To, now)
		}
		for _, m := range c.msgs {
			e.acknowledge(m, now)
		}
		e.metrics.joined.Add(float64(len(c.msgs) - 1))
	case keep:
		e.kept(c)
	case slowDown:
		if e.retry(now, c, e.people.throttle(c.out, now)) {
			return // the recipient is busy until its next try
		}
	case tryAgain:
		if d.stops && e.isDenied(c, now) {
			e.stopPage(now, c)
			break
		}
		if e.failed(now, c, d) {
			return
		}
	case suspend:
		e.stopPage(now, c)
	case discard:
		if len(c.msgs) > 1 && d.single {
			for _, m := range c.msgs {
				m.single = true
			}
			e.putBack(c)
			break
		}
		e.discard(now, c, d)
	case leave:
		for _, m := range c.msgs {
			e.returned(m, nil)
		}
	}
	r.setBusy(false)
}

// trace logs what became of a message, under the id that travels with it.
func (e *engine) trace(what string, m *held, attrs ...slog.Attr) {
	if e.Log.Enabled(context.Background(), slog.LevelDebug) {
		e.Log.LogAttrs(context.Background(), slog.LevelDebug, what, append([]slog.Attr{slog.String("id", m.delivery.ID)}, attrs...)...) //nolint:sloglint // the callers give constants
	}
}

// kept puts messages back that were refused, at their place.
func (e *engine) kept(c *call) {
	switch c.result.Outcome { //nolint:exhaustive // the disposition keeps these alone
	case sender.PageThrottled:
		e.metrics.refused.Inc()
	case sender.AppThrottled:
		e.metrics.refusedApp.Inc()
	}
	e.putBack(c)
}

// stopPage suspends a page that the API refuses, and its messages wait or are dead.
// One that Meta has blocked is not right again within minutes.
func (e *engine) stopPage(now time.Time, c *call) {
	page, grace := c.out.Page, stopGrace
	if c.result.Outcome == sender.PageStoppedForATime {
		grace = 0
	}
	if e.suspended.isStale(page, c.began) { // it has another token by now
		e.putBack(c)
		return
	}
	if e.suspended.suspend(page, c.code, grace, now) {
		delete(e.denials, page)
		e.Log.Error("page suspended: its messages wait, and are dead where it takes none for longer", "page", page, "code", c.code, "err", c.result.Err, "wait", grace)
	}
	if c.result.Outcome == sender.NoToken || e.suspended.waits(page, now) {
		e.putBack(c)
		return
	}
	e.discard(now, c, disposition{reason: message.ReasonPageStopped})
}

// denial is the first person whom a page was not allowed to send to since it could
// send to anybody.
type denial struct {
	to string
	at time.Time
}

// isDenied notes the answer that something is not allowed, and reports whether it is
// about the page. It is where a second person gets it too, by a later call. A person
// who got it while others were sent to says nothing.
func (e *engine) isDenied(c *call, now time.Time) bool {
	if e.suspended.has(c.out.Page) {
		return true
	}
	first, known := e.denials[c.out.Page]
	since := e.people.deny(c.out, now)
	switch {
	case !known && since.Equal(now):
		e.denials[c.out.Page] = denial{c.out.To, now}
		return false
	case !known || since.Before(first.at):
		return false
	}
	return first.to != c.out.To && c.began.After(first.at)
}

// putBack returns the messages of a call to their place, or to their queue when
// what was held of it went there already. Where their queue is given up the
// attempts must travel with those that have any.
func (e *engine) putBack(c *call) {
	n := 0
	for _, m := range c.msgs {
		switch {
		case m.source.leaving && m.out.Attempts > 0:
			e.postpone(m, retryShort)
		case m.source.phase == over:
			e.requeue(m)
		default:
			c.msgs[n] = m
			n++
		}
	}
	c.recipient.putBack(c.msgs[:n])
}

// acknowledge takes a sent message off its queue; the broker does not keep the
// engine waiting for that.
func (e *engine) acknowledge(m *held, now time.Time) {
	e.observeAge(m, now)
	if err := m.delivery.Ack(); err != nil {
		// The connection was lost after the call: the message is delivered
		// and sent again, with the same id in its metadata.
		e.metrics.stale.Inc()
		e.Log.Debug("acknowledge sent message", "id", m.delivery.ID, "err", err)
	} else {
		e.metrics.sent.Inc()
		e.calls.sent.add(m, now)
	}
	e.letGo(m)
}

// discard makes the messages of a call dead.
func (e *engine) discard(now time.Time, c *call, d disposition) {
	var failing time.Time
	if d.reason == message.ReasonBadMessage && d.api == breaker.Answered && e.people.noteBad(c.out, now) {
		failing = e.fail(now, c)
	}
	for i, m := range c.msgs {
		m.out.Attempts++
		e.bury(m, death{reason: d.reason, tell: d.tell || i == 0 && !failing.IsZero() && isTold(c.out), until: failing, code: c.code, at: c.began})
	}
}

// fail makes the recipient of a call one who is failing, until the time returned.
func (e *engine) fail(now time.Time, c *call) time.Time {
	until := e.people.fail(c.out, now)
	e.Log.Info("recipient cannot be reached; messages to it are dead for a while", "page", c.out.Page, "code", c.code, "until", until)
	return until
}

// failed counts a failed attempt; after the last one the messages are dead.
// While the API as a whole is down attempts do not count: it is not the
// message's fault. But a call that nobody answered may have been made, and
// counts. It reports whether the recipient waits here for its next try.
func (e *engine) failed(now time.Time, c *call, d disposition) bool {
	code := c.code
	c.recipient.behind = e.pages.seq
	down := e.breaker.IsOpen() && d.api != breaker.Answered
	if down && code != timedOut {
		e.metrics.retries[c.result.Outcome].Inc()
		e.putBack(c)
		return false
	}
	most := 0
	for _, m := range c.msgs {
		m.out.Attempts++
		if m.out.FirstCode == "" {
			m.out.FirstCode = code[:min(len(code), message.MaxCode)]
		}
		most = max(most, m.out.Attempts)
	}
	sick := down || e.breaker.IsPageOpen(c.out.Page) // then it is not the recipient's fault
	if !sick {
		e.people.noteFailed(c.out, now)
	}
	if most >= e.MaxAttempts || e.people.onProbation(c.out) && !sick {
		var until time.Time
		switch {
		case sick:
		case e.people.isCause(c.out):
			until = e.fail(now, c)
		default:
			e.people.acquit(c.out)
		}
		for i, m := range c.msgs {
			e.bury(m, death{reason: d.reason, tell: i == 0 && !until.IsZero() && isTold(c.out), until: until, code: code, at: c.began})
		}
		return false
	}
	if down {
		e.metrics.retries[c.result.Outcome].Inc()
		e.putBack(c)
		return false
	}
	return e.retry(now, c, most)
}

// retry has the messages of a call tried again, after the wait that follows n
// failures. It reports whether the recipient waits here for that.
func (e *engine) retry(now time.Time, c *call, n int) bool {
	r := c.recipient
	r.behind = e.pages.seq
	e.metrics.retries[c.result.Outcome].Inc()
	delay, onBroker := e.retryAfter(n)
	if e.ending || c.msgs[0].source.leaving { // the attempts must travel
		delay, onBroker = max(delay, retryShort), true
	}
	if onBroker {
		e.people.retry(c.out, now, delay)
		for _, m := range c.msgs {
			e.postpone(m, delay)
		}
		return false
	}
	r.putBack(c.msgs)
	e.timers.add(now.Add(delay), func() {
		r.setBusy(false)
		e.pages.mark(r.line)
	})
	return true
}

// letGo ends what is known of a message: it is settled, or another's.
func (e *engine) letGo(m *held) {
	if m.gone {
		return
	}
	m.gone = true
	if !m.token {
		e.pages.held--
	}
	m.source.drop(m)
}

// requeue returns one message to its queue.
func (e *engine) requeue(m *held) { e.returned(m, m.delivery.Requeue()) }

// returned lets go of a message that went back to its queue, by itself where
// there is an error.
func (e *engine) returned(m *held, err error) {
	switch {
	case m.token:
	case err != nil:
		e.metrics.stale.Inc()
	default:
		e.metrics.returned.Inc()
		e.trace("message returned", m)
	}
	e.letGo(m)
}

// encode is the message as it is now: with its attempts.
func (e *engine) encode(m *held) []byte {
	if m.out.Attempts == 0 {
		return m.delivery.Body
	}
	b, err := m.out.Encode()
	if err != nil {
		e.Log.Error("message moved without its attempts", "id", m.out.ID, "err", err)
		return m.delivery.Body
	}
	return b
}

// postpone moves a message, already out of its line, to a retry queue, from
// which it comes back to its partition.
func (e *engine) postpone(m *held, delay time.Duration, also ...queue.Message) {
	to := queue.Message{
		Queue: e.Broker.Topology().OutboundOf(m.out.Page), ID: m.delivery.ID, Body: e.encode(m), Headers: m.delivery.Headers, Delay: delay,
	}
	e.move(m, destination{retry: true}, append([]queue.Message{to}, also...)...)
}

// death is why a message is dead.
type death struct {
	reason message.Reason
	tell   bool // core is told
	code   string
	at     time.Time // when the call began
	until  time.Time // when the recipient that fails, or the page that is suspended, is tried again
}

// bury moves a message, already out of its line, to the dead-letter queue, and
// tells core when it should know.
func (e *engine) bury(m *held, d death) {
	now := e.Now()
	if d.at.IsZero() {
		d.at = now
	}
	switch d.reason { //nolint:exhaustive // of the others the caller knows all
	case message.ReasonPageStopped:
		d.code, d.until, d.tell = e.suspended.tell(m.out.Page, now)
	case message.ReasonFailing:
		d.until, d.tell = e.people.tell(&m.out, now)
	}
	record := message.Death{
		Reason: d.reason, Attempts: m.out.Attempts,
		FirstCode: cmp.Or(m.out.FirstCode, d.code), LastCode: cmp.Or(d.code, m.out.FirstCode),
		Time: now, Page: m.out.Page, Recipient: m.out.To,
	}
	var also []queue.Message
	if d.tell {
		if f, err := e.feedback(m, d); err != nil {
			e.Log.Error("core is not told of a recipient", "reason", d.reason, "err", err)
		} else {
			also = append(also, f)
		}
	}
	e.toDead(m, record, also...)
}

// toDead moves a message to the dead-letter queue. While that takes none, it goes
// round by a retry queue as the dead letter that it is, so that it is not sent
// again.
func (e *engine) toDead(m *held, record message.Death, also ...queue.Message) {
	to, where := m.delivery.Dead(record), destination{reason: record.Reason}
	if e.settler.Blocked(to.Queue) >= mostBlocked {
		to.Queue, to.Delay, where = e.Broker.Topology().OutboundOf(m.out.Page), retryMedium, destination{retry: true}
		to.Headers[message.HeaderDead] = "1"
	}
	e.move(m, where, append([]queue.Message{to}, also...)...)
}

// feedback is the event that tells core what was learned about a recipient, or
// that the page is suspended or busy and until when. Its time is that of the
// call: what the user wrote, or the page's operators did, before the answer came
// may be news to the API. Its id is the digest of the copy's, because a copy's id
// may have all of the 255 bytes that AMQP takes.
func (e *engine) feedback(m *held, d death) (queue.Message, error) {
	id := digest(m.out.Page + "/" + m.out.ID)
	ev := message.Event{
		Kind: message.KindFeedback, Page: m.out.Page, ID: "feedback/" + id, User: m.out.To,
		Time: d.at.UnixMilli(), Reason: string(d.reason),
	}
	switch {
	case d.reason == message.ReasonPageStopped: // again and again, for as long as it lasts
		ev.Until = d.until.UnixMilli()
	case d.reason == message.FeedbackBusy: // the same message goes round again, and every event has its own id
		ev.ID, ev.Until = fmt.Sprintf("busy/%s/%d", id, ev.Time), d.at.Add(busyTime).UnixMilli()
	case !d.until.IsZero():
		ev.ID = fmt.Sprintf("failing/%s/%d", id, ev.Time)
		ev.Reason, ev.Until = message.FeedbackFailing, d.until.UnixMilli()
	}
	body, err := ev.Encode()
	if err != nil {
		return queue.Message{}, err
	}
	return queue.Message{Queue: e.Broker.Topology().Inbound(), ID: ev.ID, Body: body, Headers: message.CarryTrace(nil, m.delivery.Headers)}, nil
}

// tellNews tells core of pages and persons that can be sent to again. What it cannot
// be told now it is told a second later.
func (e *engine) tellNews(now time.Time) {
	news, changed := e.suspended.take()
	top := e.Broker.Topology()
	for _, page := range changed {
		if !e.sources.partitions[top.PartitionOf(page)].last.IsZero() { // this replica is its owner
			news = append(news, reached{page: page, at: now})
		}
	}
	if len(news) == 0 {
		return
	}
	msgs := make([]queue.Message, 0, len(news))
	for _, n := range news {
		ev := message.Event{
			Kind: message.KindFeedback, Page: n.page, User: n.to, Time: n.at.UnixMilli(), Reason: message.FeedbackResumed,
			ID: message.FeedbackResumed + "/" + digest(fmt.Sprintf("%s/%s/%d", n.page, n.to, n.at.UnixNano())),
		}
		body, err := ev.Encode()
		if err != nil {
			e.Log.Error("core is not told that somebody can be sent to again", "page", n.page, "err", err)
			continue
		}
		msgs = append(msgs, queue.Message{Queue: top.Inbound(), ID: ev.ID, Body: body})
	}
	e.beside(flushTimeout, func(ctx context.Context) error { return e.Broker.Publish(ctx, msgs...) }, func(e *engine, err error) {
		if err != nil {
			e.Log.Warn("tell core who can be sent to again", "err", err)
			e.suspended.putBack(news)
		}
	})
}

// digest is a short id that is made of another one.
func digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// mostBlocked is how many messages may wait here for a queue that takes none.
const mostBlocked = 64

// destination says where a message goes, for the counters.
type destination struct {
	lane   *lane          // or
	retry  bool           // or
	reason message.Reason // of the dead-letter queue
}

// moving is a message on its way to another queue.
type moving struct {
	m  *held
	to destination
}

// settler finishes with the broker what the engine decided.
type settler struct {
	*transfer.Mover
	runs sync.WaitGroup
	stop context.CancelFunc
	more chan struct{} // one place: set when there are events

	mu     sync.Mutex
	events []transfer.Event
}

func newSettler(d *Dispatcher) *settler {
	s := &settler{more: make(chan struct{}, 1)}
	s.Mover = transfer.New(transfer.Config{Broker: d.Broker, Log: d.Log, Now: d.Now, Random: d.Random, Notify: s.notify, Most: d.sickRoom()})
	return s
}

func (s *settler) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.runs.Go(func() { s.Run(ctx) })
}

func (s *settler) notify(ev transfer.Event) {
	s.mu.Lock()
	s.events = append(s.events, ev)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// move hands a message to the mover.
func (e *engine) move(m *held, to destination, msgs ...queue.Message) {
	m.source.moving++
	m.moving = true
	it := &transfer.Item{Transfer: queue.Transfer{Delivery: m.delivery, To: msgs}, Tag: moving{m, to}}
	if to.lane != nil {
		it.Until = e.Now().Add(sickLane)
	}
	e.settler.Add(it)
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
		switch ev.State {
		case transfer.Blocked:
			if k := t.to.lane; k != nil {
				k.fail(e.Now())
				if errors.Is(ev.Err, queue.ErrUnroutable) { // somebody has deleted it, or is about to
					e.retire(k)
				}
			}
			continue
		case transfer.Done:
			to := ev.Item.To[0]
			e.spanMove(t, to)
			switch {
			case t.to.lane != nil:
				t.to.lane.serve()
				e.metrics.overflowed.Inc()
				e.trace("message moved", t.m, slog.String("queue", to.Queue))
			case t.to.retry:
				e.metrics.delayed.Inc()
				e.trace("message moved", t.m, slog.String("queue", to.Queue), slog.Duration("for", to.Delay))
			default:
				e.metrics.dead[t.to.reason].Inc()
				e.trace("message is dead", t.m, slog.String("reason", string(t.to.reason)))
			}
		case transfer.Stale:
			e.metrics.stale.Inc()
		case transfer.Failed: // it stays unsettled, and goes back with its subscription
			if !errors.Is(ev.Err, transfer.ErrGivenUp) {
				e.metrics.returned.Inc()
			}
		}
		t.m.source.moving--
		if l := t.to.lane; l != nil {
			l.moving--
		}
		if errors.Is(ev.Err, transfer.ErrGivenUp) { // its lane is sick
			e.postpone(t.m, retryMedium)
			continue
		}
		e.letGo(t.m)
	}
}
