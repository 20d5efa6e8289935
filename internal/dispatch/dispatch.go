// Package dispatch is the dispatcher's loop: it takes outbound messages off
// the queue, asks the gate whether the message's page may be sent to, calls
// the Send API, and settles each delivery exactly once — acknowledged when it
// was sent, moved to the dead-letter queue with a reason, or confirmed on
// another queue. What it could not settle when it ends goes back to its queue.
//
// At most one message per recipient is on its way at a time, so that copies to
// one recipient leave in queue order, whatever the calls' latency.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// Caller makes one Send API call. *sender.Sender is one.
type Caller interface {
	Send(ctx context.Context, out message.Outbound) sender.Result
}

// Config is what a Dispatcher needs. Broker, Sender, Gate, Log and Registerer
// must be set; the numbers too.
type Config struct {
	Broker     queue.Broker
	Sender     Caller
	Gate       Gate
	Log        *slog.Logger
	Registerer prometheus.Registerer

	Prefetch        int           // deliveries held at most
	MaxInFlight     int           // calls in flight at most
	MaxAttempts     int           // failed calls of one message before it is dead
	MessageTTL      time.Duration // a message older than this is not sent
	ShutdownTimeout time.Duration // how long Run waits for calls in flight when it ends

	Now    func() time.Time // nil: time.Now
	Random func() float64   // nil: math/rand; [0, 1), safe for concurrent use
}

// Validate names every fault.
func (c Config) Validate() error {
	var faults []error
	for _, f := range []struct {
		name  string
		unset bool
	}{
		{"Broker", c.Broker == nil},
		{"Sender", c.Sender == nil},
		{"Gate", c.Gate == nil},
		{"Log", c.Log == nil},
		{"Registerer", c.Registerer == nil},
	} {
		if f.unset {
			faults = append(faults, fmt.Errorf("%s must be set", f.name))
		}
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Prefetch", int64(c.Prefetch)},
		{"MaxInFlight", int64(c.MaxInFlight)},
		{"MaxAttempts", int64(c.MaxAttempts)},
		{"MessageTTL", int64(c.MessageTTL)},
		{"ShutdownTimeout", int64(c.ShutdownTimeout)},
	} {
		if f.value < 1 {
			faults = append(faults, fmt.Errorf("%s must be above 0", f.name))
		}
	}
	return errors.Join(faults...)
}

// Dispatcher sends what is on `outbound`. Make one with New.
type Dispatcher struct {
	Config
	metrics *metrics
	slots   *semaphore.Weighted // one per call in flight; first come, first served
	lines   *lines
	valve   *valve
	stops   *stops
}

// New checks the configuration and registers the metrics.
func New(cfg Config) (*Dispatcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("new dispatcher: %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Random = defaultRandom(cfg.Random)
	stops := newStops()
	return &Dispatcher{
		Config:  cfg,
		metrics: newMetrics(cfg.Registerer, cfg.Gate.InExcess, stops.len),
		slots:   semaphore.NewWeighted(int64(cfg.MaxInFlight)),
		lines:   newLines(),
		valve:   &valve{random: cfg.Random},
		stops:   stops,
	}, nil
}

// Run sends until ctx is cancelled, then takes no more, lets the calls in
// flight finish within ShutdownTimeout, settles them, and hands back
// everything else. It returns nil on cancel, once all its goroutines ended.
// Call it once.
func (d *Dispatcher) Run(ctx context.Context) error {
	sub, err := d.Broker.Consume(d.Broker.Topology().Outbound(), queue.ConsumeOptions{Prefetch: d.Prefetch})
	if err != nil {
		return fmt.Errorf("consume outbound: %w", err)
	}
	// Calls outlive ctx, so that what was sent is known and settled.
	calls, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()

	var jobs sync.WaitGroup
	d.take(ctx, sub, func(j *job) {
		jobs.Go(func() {
			for ; j != nil; j = d.lines.next(j) {
				d.metrics.held.Inc()
				d.handle(ctx, calls, j)
				d.metrics.held.Dec()
			}
		})
	})
	ended := make(chan struct{})
	go func() { // owned by this function: it ends with the jobs, which abort ends
		jobs.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(d.ShutdownTimeout):
		d.Log.Warn("calls still in flight at the shutdown timeout are abandoned; their messages will be sent again",
			"timeout", d.ShutdownTimeout)
		abort()
		<-ended
	}
	if err := sub.Close(); err != nil {
		return fmt.Errorf("close subscription of outbound: %w", err)
	}
	return nil
}

// take starts every job that is first in its line, until ctx ends.
func (d *Dispatcher) take(ctx context.Context, sub queue.Subscription, start func(*job)) {
	for {
		var del *queue.Delivery
		select {
		case <-ctx.Done():
			return
		case got, ok := <-sub.Deliveries():
			if !ok {
				return
			}
			del = got
		}
		if !del.Live() {
			continue
		}
		j := &job{delivery: del}
		out, err := message.DecodeOutbound(del.Body)
		if err != nil {
			// Handled like any other job, so that one place settles; it has no
			// recipient, so its id stands in for a line of its own.
			d.Log.Error("outbound message cannot be decoded", "id", del.ID, "err", err)
			j.out = message.Outbound{ID: del.ID, To: del.ID}
			j.lastCode = undecodable
		} else {
			j.out, j.attempts, j.lastCode = out, out.Attempts, out.FirstCode
		}
		if d.lines.join(j) {
			start(j)
		}
	}
}

// errAPIDown is what readiness says while the valve is shut.
var errAPIDown = errors.New("the Send API takes no calls")

// undecodable marks a job whose body is none of ours.
const undecodable = "undecodable"

// handle brings one message as far as it gets: settled, or ctx ended.
func (d *Dispatcher) handle(ctx, calls context.Context, j *job) {
	var pass Pass
	defer func() {
		if pass != nil {
			pass.Leave()
		}
	}()
	for ctx.Err() == nil && j.delivery.Live() {
		if reason, code, dead := d.hopeless(j); dead {
			d.bury(ctx, calls, j, rule{reason: reason}, code)
			return
		}
		if d.slots.Acquire(ctx, 1) != nil {
			return // ctx ended
		}
		if pass == nil {
			p, ok := d.Gate.Enter(excess.Key{Page: j.out.Page, Class: string(j.out.Class)})
			if !ok {
				d.slots.Release(1)
				d.giveBack(ctx, calls, j)
				return
			}
			pass = p
		}
		wait, probe := d.valve.enter(d.Now())
		if wait == 0 {
			wait = d.call(ctx, calls, j, pass, probe)
		}
		d.slots.Release(1)
		if wait == settled {
			return
		}
		sleep(ctx, wait)
	}
}

// settled is the wait of a message that needs no further call.
const settled time.Duration = -1

// hopeless tells whether the message must not be sent any more, and why.
func (d *Dispatcher) hopeless(j *job) (reason message.Reason, code string, dead bool) {
	now := d.Now()
	if j.lastCode == undecodable {
		return message.ReasonUndecodable, "", true
	}
	if j.out.Age(now) > d.MessageTTL {
		return message.ReasonExpired, j.lastCode, true
	}
	if code, held := d.stops.holds(j.out.Page, now); held {
		return message.ReasonPageStopped, code, true
	}
	return "", "", false
}

// call sends the message and settles it by its outcome. It returns settled, or
// how long to wait before the next try.
func (d *Dispatcher) call(ctx, calls context.Context, j *job, pass Pass, probe bool) time.Duration {
	d.metrics.inFlight.Inc()
	res := d.Sender.Send(calls, j.out)
	d.metrics.inFlight.Dec()
	r := settleRule(res.Outcome)
	shut := d.report(probe, r.api, res)
	switch r.do {
	case acknowledge:
		if d.stops.resume(j.out.Page) {
			d.Log.Info("page resumed: a probe was sent", "page", j.out.Page)
		}
		d.metrics.sent.Inc()
		d.metrics.age.Observe(j.out.Age(d.Now()).Seconds())
		d.acknowledge(j)
		return settled
	case waitPage:
		d.metrics.refused.Inc()
		return pass.Refused()
	case waitApp:
		d.metrics.refusedApp.Inc()
		return 0 // the valve, shut now, says how long
	case tryAgain:
		if shut && r.api == apiFails {
			// The whole API is down: not this message's fault, so no attempt.
			d.metrics.retries.WithLabelValues(res.Outcome.String()).Inc()
			return 0 // the valve says how long
		}
		return d.failed(ctx, calls, j, res)
	case stopPage:
		if d.stops.stop(j.out.Page, res.CodeString(), d.Now()) {
			d.Log.Error("page stopped", "page", j.out.Page, "code", res.CodeString(), "err", res.Err)
		}
		fallthrough
	case bury:
		j.attempts++
		d.bury(ctx, calls, j, r, res.CodeString())
		return settled
	case leave:
	}
	return settled
}

// report tells the valve how the call went and returns whether it is shut.
func (d *Dispatcher) report(probe bool, how verdict, res sender.Result) bool {
	shut, changed := d.valve.result(d.Now(), probe, how)
	switch {
	case changed && shut:
		d.Log.Warn("the API takes no calls; holding all messages back and probing", "code", res.CodeString(), "err", res.Err)
	case changed:
		d.Log.Info("the API takes calls again")
	}
	return shut
}

// failed counts a failed attempt; after the last one the message is dead.
func (d *Dispatcher) failed(ctx, calls context.Context, j *job, res sender.Result) time.Duration {
	j.attempts++
	if j.out.FirstCode == "" {
		j.out.FirstCode = res.CodeString()
	}
	j.out.Attempts, j.lastCode = j.attempts, res.CodeString()
	if j.attempts >= d.MaxAttempts {
		d.bury(ctx, calls, j, settleRule(res.Outcome), res.CodeString())
		return settled
	}
	d.metrics.retries.WithLabelValues(res.Outcome.String()).Inc()
	return backoff(j.attempts, d.Random)
}

// sleep waits for wait or until ctx ends.
func sleep(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
