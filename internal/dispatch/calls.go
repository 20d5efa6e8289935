package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chatclub/internal/aimd"
	"chatclub/internal/breaker"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// minCalls is the fewest calls in flight that the limit is cut to: with fewer
// a page at its limit could not be served at any latency seen (300/s × 30 ms).
const minCalls = 8

// call is one call, and once it has ended what it came to. It is made for all
// of msgs, of one recipient.
type call struct {
	recipient *recipient
	msgs      []*held
	out       *message.Outbound
	permit    excess.Permit
	circuit   *breaker.Call
	began     time.Time
	result    sender.Result
	code      string // of its result
}

// calls makes calls, and knows how many there may be and what was sent of late.
type calls struct {
	due     chan *call // as many places as calls, so that nobody waits
	results chan *call // likewise
	ctx     context.Context
	abort   context.CancelFunc
	workers sync.WaitGroup
	started int // workers: as many as there ever were calls in flight

	limit    *aimd.Limiter
	inFlight int
	waiting  []*line // for a call to end, in rotation
	freed    bool    // one has ended since they were tried
	latency  time.Duration
	learned  time.Time // when a call was last accepted, from which latency comes
	tried    time.Time // when the last call began
	health   health
	sent     sentLog
}

func newCalls(d *Dispatcher) (*calls, error) {
	limit, err := aimd.New(aimd.Config{
		Min: min(minCalls, d.MaxInFlight), Max: d.MaxInFlight, Start: d.MaxInFlight, Target: d.LatencyTarget,
	})
	if err != nil {
		return nil, fmt.Errorf("limit of calls in flight: %w", err)
	}
	ctx, abort := context.WithCancel(context.Background())
	return &calls{
		due: make(chan *call, d.MaxInFlight), results: make(chan *call, d.MaxInFlight), ctx: ctx, abort: abort, limit: limit,
		sent: sentLog{since: d.Now()},
	}, nil
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

// await puts a line among those that wait for a call to end.
func (c *calls) await(l *line) {
	if !l.rotating {
		l.rotating = true
		c.waiting = append(c.waiting, l)
	}
}

// hasRoom reports whether broadcasts may be sent, with what conversations leave.
func (c *calls) hasRoom() bool { return 2*c.inFlight < c.limit.Limit() && len(c.waiting) == 0 }

// call has the recipient's first message sent, with the texts behind it that can
// go with it.
func (e *engine) call(l *line, r *recipient, p excess.Permit, now time.Time) {
	c := &call{recipient: r, permit: p, began: now}
	var n int
	c.out, n = e.join(r, now)
	r.busy = true
	c.msgs = r.take(n)
	first := c.msgs[0]
	if e.suspended.probe(first.out.Page, now) {
		first.probe = true
		e.metrics.probes[probeSuspended].Inc()
	}
	c.circuit = e.breaker.Begin(now, first.out.Page, first.out.To, eventOf(first.out.ID, &first.out))
	if c.circuit.Probe() {
		e.metrics.probes[probeAPI].Inc()
	}
	if p.Probe() {
		e.metrics.probes[probePage].Inc()
	}
	e.calls.inFlight++
	e.calls.tried = now
	l.inFlight++
	for _, m := range c.msgs {
		m.calling = true
		m.source.inFlight++
	}
	e.calls.start(e.Dispatcher, c)
}

// join is what is sent of a recipient's messages, and of how many it is made.
func (e *engine) join(r *recipient, now time.Time) (*message.Outbound, int) {
	first := r.msgs[0]
	if len(r.msgs) == 1 || e.JoinTexts == 1 || first.single || !first.out.Joins {
		return &first.out, 1
	}
	list := append(make([]message.Outbound, 0, e.JoinTexts), first.out)
	for _, m := range r.msgs[1:] {
		if len(list) == e.JoinTexts || m.single || m.source.leaving || !m.delivery.Live() || e.isLate(m, now) {
			break
		}
		list = append(list, m.out)
	}
	out, n := message.Join(list, e.JoinTexts)
	return &out, n
}

// start makes a call. Workers stay, because a goroutine for each call would grow
// its stack anew each time.
func (c *calls) start(d *Dispatcher, next *call) {
	if c.inFlight > c.started {
		c.started++
		c.workers.Go(func() {
			for k := range c.due {
				k.result = d.send(c.ctx, k)
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
	for _, m := range c.msgs {
		m.calling = false
		s := m.source
		if s.inFlight--; s.inFlight == 0 && s.leaving {
			s.leftAt = now
		}
	}
	d := dispositionOf(c.result)
	e.gate.Done(now, c.permit, d.limit)
	if c.permit.Probe() { // what the page waits for has changed
		l.wakeAt = time.Time{}
	}
	l.traffic.called(now, c, d)
	e.report(now, c, d)
	e.learn(now, c, d)
	e.settle(now, c, d)
	e.calls.freed = true
	if len(e.calls.waiting) > 0 && len(l.ready) > 0 { // behind those that wait: the call that is free now is theirs
		e.calls.await(l)
	} else {
		e.pages.mark(l)
	}
}

// drainWaiting tries the lines that waited for a call to end, in turn: one
// message each, so that no page takes every call.
func (e *engine) drainWaiting() {
	now := e.Now()
	for range len(e.calls.waiting) {
		if e.calls.inFlight >= e.calls.limit.Limit() || e.ending {
			return
		}
		l := e.calls.waiting[0]
		e.calls.waiting[0] = nil
		e.calls.waiting = e.calls.waiting[1:]
		l.rotating = false
		if e.step(l, now) && len(l.ready) > 0 {
			e.calls.await(l)
		}
		e.pages.tidy(l)
	}
}

// report tells the breaker how a call went.
func (e *engine) report(now time.Time, c *call, d disposition) {
	ch := e.breaker.End(now, c.circuit, d.api)
	page, code, err := c.out.Page, c.code, c.result.Err
	switch {
	case ch.Opened:
		e.Log.Warn("the API takes no calls; holding messages back and probing", "code", code, "err", err)
	case ch.Closed:
		e.Log.Info("the API takes calls again")
		e.pages.wakeAll()
	case ch.PageOpened:
		e.Log.Warn("page takes no calls; probing it", "page", page, "code", code, "err", err)
	case ch.PageClosed:
		e.Log.Info("page takes calls again", "page", page)
	}
	if d.api == breaker.Answered {
		e.calls.health.silences = 0
		e.silent.Store(false)
	}
	e.apiDown.Store(e.breaker.IsOpen())
}

// learn learns from how long a call took. A refusal by a limit is answered
// without work and says nothing about the API's speed.
func (e *engine) learn(now time.Time, c *call, d disposition) {
	if !d.sample {
		return
	}
	e.calls.limit.Observe(now, c.result.Latency, e.calls.inFlight+1)
	if c.result.Outcome != sender.Sent {
		return
	}
	if now.Sub(e.calls.learned) > staleLatency {
		e.calls.latency = c.result.Latency
	}
	e.calls.learned = now
	e.calls.latency += (c.result.Latency - e.calls.latency) / 16 // a moving average over some 16 calls
}

// staleLatency is how long a latency is believed while no call is accepted. Otherwise
// a slow phase, in which everything is thought to be too late, would never end.
const staleLatency = 10 * time.Second

// expected is how long a call will take.
func (c *calls) expected(now time.Time) time.Duration {
	if now.Sub(c.learned) > staleLatency && now.Sub(c.tried) > staleLatency {
		return 0
	}
	return c.latency
}
