package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"chatclub/internal/aimd"
	"chatclub/internal/circuit"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// call is one call, and once it has ended what it came to. It is made for all
// of msgs, of one recipient.
type call struct {
	recipient *recipient
	msgs      []*held
	out       *message.Outbound
	permit    excess.Permit
	circuit   *circuit.Call
	began     time.Time
	result    sender.Result
	code      string // of its result
}

// calls makes calls. It has their limit, and a log of the messages sent last.
type calls struct {
	*Dispatcher
	due     chan *call // as many places as calls, so that nobody waits
	results chan *call // with as many places
	ctx     context.Context
	abort   context.CancelFunc
	workers sync.WaitGroup
	started int // workers: as many as there ever were calls in flight

	limit    *aimd.Limiter
	inFlight int
	progress time.Time // when the last one began or ended
	turns    []*line   // those that wait for a call to end, in this order
	freed    bool      // one has ended since they were tried
	sent     sentLog
}

func newCalls(d *Dispatcher) (*calls, error) {
	limit, err := aimd.New(d.Latency)
	if err != nil {
		return nil, fmt.Errorf("limit of calls in flight: %w", err)
	}
	ctx, abort := context.WithCancel(context.Background())
	return &calls{
		Dispatcher: d,
		due:        make(chan *call, d.MaxInFlight), results: make(chan *call, d.MaxInFlight), ctx: ctx, abort: abort, limit: limit,
		sent: sentLog{since: d.Now()},
	}, nil
}

// observe learns a call's latency, and logs when the limit comes to its least.
func (c *calls) observe(now time.Time, latency time.Duration) {
	was := c.limit.Limit()
	c.limit.Observe(now, latency, c.inFlight+1)
	if is := c.limit.Limit(); is < was && is == c.Latency.Min {
		c.Log.Warn("no fewer calls are made, although they take longer than LATENCY_TARGET", "calls", is)
	}
}

// A line may have this many calls for each that is free (dynamic thresholds, as
// of switches that share a buffer: Choudhury and Hahne, 1998). Those in excess
// come to equal parts of what the others leave: one alone to two thirds, two to
// two fifths each. The others may have four times as many, so that they never
// wait for one in excess, and one that hangs still leaves a ninth of all.
const (
	partInExcess = 2
	partOfOthers = 4 * partInExcess
)

// full reports whether a line may have no more calls now, by its part. The last
// free one is for a line that has none.
func (c *calls) full(l *line, part int) bool {
	free := c.limit.Limit() - c.inFlight
	return free <= 0 || l.inFlight > 0 && l.inFlight >= part*(free-1)
}

// awaitTurn puts a line among those that wait for a call to end.
func (c *calls) awaitTurn(l *line) {
	if !l.inTurn {
		l.inTurn = true
		c.turns = append(c.turns, l)
	}
}

// hasRoom reports whether broadcasts may be sent, with what conversations leave.
func (c *calls) hasRoom() bool { return 2*c.inFlight < c.limit.Limit() && len(c.turns) == 0 }

// call has the recipient's first message sent, with the texts behind it that can
// go with it.
func (e *engine) call(l *line, r *recipient, p excess.Permit, now time.Time) {
	c := &call{recipient: r, permit: p, began: now}
	var n int
	c.out, n = e.calls.join(r, now)
	r.busy, r.calling = true, true
	c.msgs = r.take(n)
	c.circuit = e.circuits.Begin(now, &c.msgs[0].out)
	api, permission := e.circuits.Probes(c.circuit)
	if api {
		e.metrics.probes[probeAPI].Inc()
	}
	if permission {
		e.metrics.probes[probeSuspended].Inc()
	}
	if p.Probe() {
		e.metrics.probes[probePage].Inc()
	}
	e.standing.calling(now)
	e.calls.inFlight++
	l.inFlight++
	l.progress, e.calls.progress = now, now
	for _, m := range c.msgs {
		m.state = isCalling
		m.source.inFlight++
		l.countCall(m, +1)
	}
	e.calls.start(c)
}

// join returns the next message to a recipient, and the number of messages that it is made of.
func (c *calls) join(r *recipient, now time.Time) (*message.Outbound, int) {
	first := r.msgs[0]
	if len(r.msgs) == 1 || c.JoinTexts == 1 || first.single || !first.out.Joins {
		return &first.out, 1
	}
	list := append(make([]message.Outbound, 0, c.JoinTexts), first.out)
	for _, m := range r.msgs[1:] {
		if len(list) == c.JoinTexts || m.single || m.tried != first.tried || !m.delivery.Live() || c.isLate(m, now) || r.line.awaitsLane(m) || c.sent.has(m) || isIn(list, m) {
			break
		}
		list = append(list, m.out)
	}
	out, n := message.Join(list, c.JoinTexts)
	return &out, n
}

// isIn reports whether a message is one of a list, which a repetition is.
func isIn(list []message.Outbound, m *held) bool {
	return slices.ContainsFunc(list, func(o message.Outbound) bool { return o.ID == m.out.ID })
}

// start makes a call. Workers stay, because a goroutine for each call would grow
// its stack each time.
func (c *calls) start(next *call) {
	if c.inFlight > c.started {
		c.started++
		c.workers.Go(func() {
			for k := range c.due {
				k.result = c.send(c.ctx, k)
				k.code = k.result.CodeString()
				c.results <- k
			}
		})
	}
	c.due <- next
}

// ended settles what a call was made for, by its outcome.
func (e *engine) ended(c *call) {
	now := e.Now()
	l := c.recipient.line
	e.calls.inFlight--
	l.inFlight--
	l.progress, e.calls.progress, c.recipient.calling = now, now, false
	for _, m := range c.msgs {
		l.countCall(m, -1)
		if m.state == isCalling {
			m.state = isWaiting
		}
		m.source.inFlight--
	}
	d := dispositionOf(c.result)
	e.gate.Done(now, c.permit, d.limit)
	e.takeHints(now, c, d)
	if c.permit.Probe() { // what the page waits for has changed
		l.wakeAt = time.Time{}
	}
	full := l.traffic.isFull(now)
	if l.traffic.called(now, c, d, e.Random()); !full && l.traffic.isFull(now) {
		e.Log.Warn("page has nearly used up a quota; its broadcasts wait", "page", l.key.Page, "class", l.key.Class, "percent", l.traffic.usage)
	}
	e.report(now, c, d)
	if d.sample { // a refusal by a limit is answered without work, and says nothing about the API's speed
		e.calls.observe(now, c.result.Latency)
	}
	e.outcomes.settle(now, c, d)
	e.calls.freed = true
	if len(e.calls.turns) > 0 && len(l.ready) > 0 { // behind those that wait: the call that is free now is theirs
		e.calls.awaitTurn(l)
	} else {
		e.pages.mark(l)
	}
}

// takeHints has the excess map learn what an answer says beside its outcome. A page that
// waits as the platform asked, for longer than the limit's own second, is logged once a
// minute.
func (e *engine) takeHints(now time.Time, c *call, d disposition) {
	pause := c.result.RetryAfter
	if d.limit != excess.Refused { // it is the app's
		pause = 0
	}
	wait := e.gate.Hint(now, c.permit, c.result.Usage, pause)
	if l := c.recipient.line; wait > shutTime && now.Sub(l.traffic.heldAt) >= hintTime {
		l.traffic.heldAt = now
		e.Log.Warn("page waits as the platform asked; resume ends that", "page", l.key.Page, "class", l.key.Class,
			"code", c.code, "asked", pause, "until", now.Add(wait).UTC())
	}
}

// giveTurns tries the lines that waited for a call to end, in turn: one call each, so that no
// page takes every call, and round until all that are free are used.
func (e *engine) giveTurns() {
	now := e.Now()
	for made := true; made; {
		made = false
		for range len(e.calls.turns) {
			if e.calls.inFlight >= e.calls.limit.Limit() || e.ending {
				return
			}
			l := e.calls.turns[0]
			e.calls.turns[0] = nil
			e.calls.turns = e.calls.turns[1:]
			l.inTurn = false
			was := e.calls.inFlight
			for e.calls.inFlight == was && e.step(l, now) { // what needs no call costs no turn
			}
			if e.calls.inFlight > was && len(l.ready) > 0 {
				e.calls.awaitTurn(l)
				made = true
			}
			e.pages.tidy(l)
		}
	}
}

// report tells the circuits how a call went, and core and people what that changed.
func (e *engine) report(now time.Time, c *call, d disposition) {
	changes := e.circuits.End(now, c.circuit, circuit.Report{Answer: d.says, Code: c.code, Hint: c.result.RetryAfter})
	e.logChanges(changes, c.code, c.result.Err)
	for _, ch := range changes {
		switch {
		case ch.Open:
		case ch.Scope < circuit.Page:
			e.pages.wakeAll()
		case ch.Scope == circuit.Permission || ch.Scope == circuit.Block:
			e.news.add(ch.Page, "", now)
		case ch.Scope == circuit.Person:
			e.news.add(ch.Page, ch.To, now)
		}
	}
	if d.says.IsFromAPI() && d.says != circuit.Throttled {
		e.standing.answered(c.began)
	}
	e.apiDown.Store(e.circuits.IsOpen())
}

// askAbout asks the API about pages of which one call was told that they may not send.
func (e *engine) askAbout(pages []string) {
	for _, page := range pages {
		var r sender.Result
		e.standing.question(func(ctx context.Context) error {
			r = e.Sender.Ask(ctx, page)
			return nil
		}, func(error) {
			e.logChanges(e.circuits.Confirm(e.Now(), page, dispositionOf(r).says), r.CodeString(), r.Err)
		})
	}
}

// logChanges logs what has opened and closed.
func (d *Dispatcher) logChanges(changes []circuit.Change, code string, err error) {
	for _, ch := range changes {
		log := d.Log.With("page", ch.Page)
		switch {
		case ch.Scope == circuit.App && ch.Open:
			d.Log.Warn("the app is throttled; holding messages back and probing", "code", code, "err", err)
		case ch.Scope < circuit.Page && ch.Open:
			d.Log.Warn("the API takes no calls; holding messages back and probing", "code", code, "err", err)
		case ch.Scope < circuit.Page:
			d.Log.Info("the API takes calls again")
		case ch.Scope == circuit.Page && ch.Open:
			log.Warn("page takes no calls; probing it", "code", code, "err", err)
		case ch.Scope == circuit.Page:
			log.Info("page takes calls again")
		case ch.Scope == circuit.Person && ch.Open:
			log.Info("recipient cannot be reached; messages to it are dead for a while", "code", code)
		case ch.Scope == circuit.Person:
			log.Info("recipient can be reached again")
		case ch.Open:
			log.Error("page suspended: its messages wait, and are dead where it takes none for longer", "code", code, "err", err)
		default:
			log.Info("page resumed: a probe was answered")
		}
	}
}
