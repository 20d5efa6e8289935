package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"chatclub/fakeapi/limit"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// made is one call as the platform saw it.
type made struct {
	at      time.Time // when it began
	replica int
	out     message.Outbound
	result  sender.Result
}

// platform is a Send API in virtual time that many dispatchers call. A call is
// decided after half of its latency. It knows the order in which the messages of
// each recipient, class and priority were published by the number that ends their ids.
type platform struct {
	latency func(o message.Outbound) time.Duration // nil: 40 ms
	// answer decides; nil, or a result without an outcome: the page's limit does.
	answer func(o message.Outbound, replica int) sender.Result
	limits func(page string, c message.Class) int // 0 or nil: none

	mu         sync.Mutex
	limiters   map[string]limit.Limiter
	calls      []made
	attempts   map[string]int // calls by id
	accepted   map[string]int // by id
	times      map[string]time.Time
	order      []string       // ids as they were accepted
	latest     map[string]int // recipient, class and priority → highest number accepted
	inversions []string
	inFlight   int
	most       int
}

func newPlatform() *platform {
	return &platform{
		limiters: make(map[string]limit.Limiter), attempts: make(map[string]int), accepted: make(map[string]int),
		times: make(map[string]time.Time), latest: make(map[string]int),
	}
}

// client is the platform as one replica sees it.
type client struct {
	*platform
	replica int
}

// Ask implements Caller. A question tells of a refused token, and of no right to send.
func (c client) Ask(_ context.Context, page string) sender.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer != nil {
		if r := c.answer(message.Outbound{Page: page}, c.replica); r.Outcome == sender.PageStopped {
			return r
		}
	}
	return sender.Result{Outcome: sender.Sent, Status: 200}
}

// Reach implements Caller.
func (client) Reach(context.Context) error { return nil }

// Send implements Caller.
func (c client) Send(ctx context.Context, o message.Outbound) sender.Result {
	p := c.platform
	began := time.Now()
	p.mu.Lock()
	for id := range strings.FieldsSeq(o.ID) {
		p.attempts[id]++
	}
	p.inFlight++
	p.most = max(p.most, p.inFlight)
	latency := 40 * time.Millisecond
	if p.latency != nil {
		latency = p.latency(o)
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.inFlight--
		p.mu.Unlock()
	}()
	if !pass(ctx, latency/2) {
		return sender.Result{Outcome: sender.Canceled, Err: ctx.Err()}
	}
	p.mu.Lock()
	r := p.decide(o, c.replica)
	r.Latency = latency
	p.calls = append(p.calls, made{began, c.replica, o, r})
	p.mu.Unlock()
	if !pass(ctx, latency-latency/2) {
		return sender.Result{Outcome: sender.Transient, Err: ctx.Err()}
	}
	return r
}

// decide is called with the lock.
func (p *platform) decide(o message.Outbound, replica int) sender.Result {
	if p.answer != nil {
		if r := p.answer(o, replica); r.Outcome != 0 {
			if r.Outcome == sender.Sent {
				p.accept(o)
			}
			return r
		}
	}
	if p.limits != nil {
		if n := p.limits(o.Page, o.Class); n > 0 && !p.limiter(o, n).Allow(time.Now()) {
			return fail(sender.PageThrottled)
		}
	}
	p.accept(o)
	return sender.Result{Outcome: sender.Sent, Status: 200}
}

func (p *platform) limiter(o message.Outbound, n int) limit.Limiter {
	k := o.Page + "/" + string(o.Class)
	l := p.limiters[k]
	if l == nil {
		var err error
		if l, err = limit.New(limit.Config{Algorithm: limit.FixedWindow, Limit: n}); err != nil {
			panic(err)
		}
		p.limiters[k] = l
	}
	return l
}

func (p *platform) accept(o message.Outbound) {
	k := fmt.Sprint(o.Page, "/", o.To, "/", o.Class, "/", o.Priority())
	for id := range strings.FieldsSeq(o.ID) {
		p.accepted[id]++
		p.order = append(p.order, id)
		if p.times[id].IsZero() {
			p.times[id] = time.Now()
		}
		n := number(id)
		if n < p.latest[k] && p.accepted[id] == 1 {
			p.inversions = append(p.inversions, id)
		}
		p.latest[k] = max(p.latest[k], n)
	}
}

// number is the place of a message among all that were published.
func number(id string) int {
	n, _ := strconv.Atoi(id[strings.LastIndexByte(id, '#')+1:])
	return n
}

// fail returns a result with an outcome other than Sent.
func fail(o sender.Outcome) sender.Result {
	r := sender.Result{Outcome: o, Status: 400, Code: 7, Err: errors.New("scripted")}
	switch o {
	case sender.Canceled, sender.NoToken:
		r.Status, r.Code = 0, 0
	case sender.Transient:
		r.Status, r.Code = 500, 0
	}
	return r
}

// timeout is a call that nobody answered.
func timeout() sender.Result {
	return sender.Result{Outcome: sender.Transient, Err: context.DeadlineExceeded}
}

// callsOf are the calls of a page.
func (p *platform) callsOf(page string) (calls []made) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if c.out.Page == page {
			calls = append(calls, c)
		}
	}
	return calls
}

// script changes what the platform answers.
func (p *platform) script(answer func(o message.Outbound, replica int) sender.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// ids are those that were accepted, in order.
func (p *platform) ids() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.order)
}

// mostAttempts returns the largest number of calls for one message.
func (p *platform) mostAttempts() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range maps.Values(p.attempts) {
		n = max(n, k)
	}
	return n
}

// pass lets time pass, and reports whether ctx lived on.
func pass(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// longTailed is a latency with this median and 99th percentile.
func longTailed(r *rand.Rand, median, p99 time.Duration) func(message.Outbound) time.Duration {
	sigma := math.Log(float64(p99)/float64(median)) / 2.326
	return func(message.Outbound) time.Duration {
		return time.Duration(float64(median) * math.Exp(sigma*r.NormFloat64()))
	}
}

// stuck answers nobody.
type stuck struct{}

// Send implements Caller.
func (stuck) Send(ctx context.Context, _ message.Outbound) sender.Result {
	pass(ctx, 10*time.Second)
	return timeout()
}

// Reach implements Caller.
func (stuck) Reach(ctx context.Context) error {
	pass(ctx, time.Hour)
	return ctx.Err()
}

// Ask implements Caller.
func (s stuck) Ask(ctx context.Context, _ string) sender.Result {
	return s.Send(ctx, message.Outbound{})
}

// mute answers questions, but no call.
type mute struct{ stuck }

// Reach implements Caller.
func (mute) Reach(context.Context) error { return nil }

// speechless answers calls, but no question.
type speechless struct{ client }

// Reach implements Caller.
func (speechless) Reach(ctx context.Context) error { return stuck{}.Reach(ctx) }

// cutOff reaches nobody.
type cutOff struct{}

// Send implements Caller.
func (cutOff) Send(ctx context.Context, _ message.Outbound) sender.Result {
	pass(ctx, time.Millisecond)
	return unreached()
}

// Reach implements Caller.
func (cutOff) Reach(context.Context) error { return unreached().Err }

// Ask implements Caller.
func (c cutOff) Ask(ctx context.Context, _ string) sender.Result {
	return c.Send(ctx, message.Outbound{})
}

// deaf answers nobody, whatever its context says.
type deaf struct{ stuck }

// Reach implements Caller.
func (deaf) Reach(context.Context) error { return nil }

// Send implements Caller.
func (deaf) Send(context.Context, message.Outbound) sender.Result {
	time.Sleep(20 * time.Second)
	return timeout()
}
