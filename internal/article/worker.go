package article

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/transfer"
	"chatclub/internal/sender"
)

// Caller makes one Send API call. *sender.Sender is one.
type Caller interface {
	Send(ctx context.Context, out message.Outbound) sender.Result
}

// Queue is the spec of the one queue that all workers of a topology consume.
func Queue(t queue.Topology) queue.Spec {
	return queue.Spec{Name: t.Prefix + ".shared", DeadLetter: t.Dead()}
}

// Divert returns messages as they go to that queue in place of their partitions. Events,
// dead letters and what is kept back for a while stay where they are.
func Divert(t queue.Topology, msgs []queue.Message) []queue.Message {
	stay := append(t.Events(), t.Dead())
	msgs = slices.Clone(msgs)
	for i, m := range msgs {
		if m.Delay == 0 && !slices.Contains(stay, m.Queue) {
			msgs[i].Queue = Queue(t).Name
		}
	}
	return msgs
}

// WorkerConfig is what a Worker needs. All fields must be set, but for Random
// and Now.
type WorkerConfig struct {
	Broker   queue.Broker
	Caller   Caller
	Strategy Gate
	Log      *slog.Logger

	Prefetch        int           // messages held at most
	MaxInFlight     int           // calls at a time
	MaxAttempts     int           // failed calls of one message before it is dead
	MessageTTL      time.Duration // a message older than this is not sent
	ShutdownTimeout time.Duration // how long Run waits for calls when it ends

	Random func() float64   // nil: math/rand; [0, 1), safe for concurrent use
	Now    func() time.Time // nil: time.Now
}

const (
	// mostWaiting is how many messages of one page may wait here for its pace.
	// When half of the prefetch waits, it is one.
	mostWaiting = 32
	// returnPause is how long a message is held before it goes to the tail of its
	// queue: a queue with nothing else would go round as fast as the broker can.
	returnPause = 50 * time.Millisecond
	// appPause is how long a message is kept that the app's limit refused.
	appPause = time.Second
	// flushTimeout is how long the broker may take for what is left at the end.
	flushTimeout = 5 * time.Second
)

// Worker consumes the shared queue and sends what its strategy lets through. At
// most one call per recipient is on its way at a time. What fails for a moment
// is tried again here, and what fails for good is dead. It is to a strategy what
// the dispatcher is to chatclub, without what comes of one sender for each page:
// no lanes, no joined texts, no breaker. One goroutine owns all state.
type Worker struct {
	WorkerConfig
	sub     queue.Subscription
	mover   *transfer.Mover
	due     chan *job // as many places as calls, so that nobody waits
	results chan result
	calls   context.Context
	abort   context.CancelFunc
	callers sync.WaitGroup
	held    held
	timers  timers
	flying  int // calls
	started int // goroutines that make calls
	latency time.Duration
	ending  bool
}

// result is how a call went.
type result struct {
	job *job
	sender.Result
}

// NewWorker returns a worker that does nothing before Run.
func NewWorker(cfg WorkerConfig) *Worker {
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	w := &Worker{
		WorkerConfig: cfg, held: newHeld(),
		due: make(chan *job, cfg.MaxInFlight), results: make(chan result, cfg.MaxInFlight),
		mover: transfer.New(transfer.Config{
			Broker: cfg.Broker, Log: cfg.Log, Now: cfg.Now, Random: cfg.Random,
			Notify: func(transfer.Event) {}, // what is not moved goes back with its subscription
		}),
	}
	w.calls, w.abort = context.WithCancel(context.Background())
	return w
}

// Run sends until ctx ends, then takes no more, lets the calls in flight finish
// within ShutdownTimeout, and hands back everything else. Call it once.
func (w *Worker) Run(ctx context.Context) (err error) {
	defer w.abort()
	if w.sub, err = w.Broker.Consume(Queue(w.Broker.Topology()).Name, queue.ConsumeOptions{Prefetch: w.Prefetch}); err != nil {
		return err
	}
	moving, stopMoving := context.WithCancel(context.WithoutCancel(ctx))
	defer stopMoving()
	moved := make(chan struct{})
	go func() { defer close(moved); w.mover.Run(moving) }()
	w.loop(ctx)
	w.finish()
	w.mover.End()
	flush := time.AfterFunc(flushTimeout, stopMoving)
	defer flush.Stop()
	<-moved
	return w.sub.Close()
}

func (w *Worker) loop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	arrivals := w.sub.Deliveries()
	for {
		timer.Reset(w.timers.next(w.Now()))
		select {
		case <-ctx.Done():
			return
		case d, ok := <-arrivals:
			if !ok {
				arrivals = nil // the broker was closed
				continue
			}
			w.arrive(d)
		case r := <-w.results:
			w.ended(r)
		case <-timer.C:
			for do := w.timers.pop(w.Now()); do != nil; do = w.timers.pop(w.Now()) {
				do()
			}
		}
	}
}

// finish waits for the calls in flight.
func (w *Worker) finish() {
	w.ending = true
	deadline := time.AfterFunc(w.ShutdownTimeout, w.abort)
	defer deadline.Stop()
	for w.flying > 0 {
		w.ended(<-w.results)
	}
	close(w.due)
	w.callers.Wait()
}

func (w *Worker) arrive(d *queue.Delivery) {
	out, err := message.DecodeOutbound(d.Body)
	if err != nil {
		w.Log.Error("outbound message cannot be decoded", "id", d.ID, "err", err)
		w.mover.Add(&transfer.Item{Transfer: queue.Transfer{Delivery: d, To: []queue.Message{d.Dead(message.Death{Reason: message.ReasonUndecodable})}}})
		return
	}
	j := &job{delivery: d, out: out}
	first := w.held.add(j)
	w.checkWaiting(j.page)
	if first {
		w.ready(j)
	}
}

// ready makes a job one of those that can be sent.
func (w *Worker) ready(j *job) {
	j.page.push(j)
	w.pump(j.page)
}

// pump sends of a page what may be sent now.
func (w *Worker) pump(p *pageQueue) {
	for len(p.ready) > 0 && !w.ending && w.step(p) {
	}
}

// step handles the first message of a page. It reports whether the next may
// follow.
func (w *Worker) step(p *pageQueue) bool {
	now, j := w.Now(), p.ready[0]
	switch {
	case !j.delivery.Live():
		w.drop(p.pop())
		return true
	case j.out.Age(now)+w.latency > w.MessageTTL:
		w.bury(p.pop(), message.ReasonExpired, "")
		return true
	case p.wakeAt.After(now):
		return false
	case w.flying >= w.MaxInFlight:
		w.held.await(p)
		return false
	}
	d := w.Strategy.Offer(now, p.key, j.retry)
	p.gated = d.Action == Wait
	switch d.Action {
	case Send:
		w.call(p.pop())
		return true
	case Return:
		w.giveBack(p.pop())
		return true
	case Wait:
		w.wake(p, now.Add(d.Wait))
		w.checkWaiting(p)
	}
	return false
}

// wake has a page looked at again.
func (w *Worker) wake(p *pageQueue, at time.Time) {
	p.wakeAt = at
	w.timers.add(at, func() {
		if p.wakeAt.Equal(at) {
			p.wakeAt = time.Time{}
			w.pump(p)
		}
	})
}

// checkWaiting tells the strategy when too much of a page waits for its pace.
func (w *Worker) checkWaiting(p *pageQueue) {
	n, most := p.held-p.flying, mostWaiting
	if w.held.n-w.flying > w.Prefetch/2 {
		most = 1
	}
	if p.gated && n > most {
		w.Strategy.Overflow(w.Now(), p.key, n)
	}
}

// call has a call made. Goroutines stay, because each would grow its stack anew.
func (w *Worker) call(j *job) {
	w.flying++
	j.page.flying++
	if w.flying > w.started {
		w.started++
		w.callers.Go(func() {
			for j := range w.due {
				w.results <- result{j, w.Caller.Send(w.calls, j.out)}
			}
		})
	}
	w.due <- j
}

// ended settles a message by its call's outcome.
func (w *Worker) ended(r result) {
	j, p := r.job, r.job.page
	w.flying--
	p.flying--
	pause := w.Strategy.Done(w.Now(), p.key, j.retry, limitResult(r.Outcome))
	if j.retry && r.Outcome != sender.PageThrottled {
		j.retry = false // Done has counted it out
	}
	switch r.Outcome {
	case sender.Sent:
		w.latency += (r.Latency - w.latency) / 16 // a moving average over some 16 calls
		_ = j.delivery.Ack()                      // stale: it is delivered and sent again
		w.release(j)
	case sender.PageThrottled:
		j.retry = true
		w.delay(j, pause)
	case sender.AppThrottled:
		w.delay(j, appPause)
	case sender.RecipientThrottled, sender.Transient:
		w.failed(j, r.CodeString())
	case sender.Canceled, sender.NoToken: // it goes back with its subscription
		w.release(j)
	case sender.Ambiguous:
		w.bury(j, message.ReasonAmbiguous, r.CodeString())
	case sender.RecipientGone:
		w.bury(j, message.ReasonGone, r.CodeString())
	case sender.WindowClosed:
		w.bury(j, message.ReasonWindowClosed, r.CodeString())
	case sender.NotOurs:
		w.bury(j, message.ReasonNotOurs, r.CodeString())
	case sender.BadMessage:
		w.bury(j, message.ReasonBadMessage, r.CodeString())
	case sender.PageStopped, sender.NotAllowed, sender.PageStoppedForATime:
		w.bury(j, message.ReasonPageStopped, r.CodeString())
	}
	switch {
	case len(w.held.waiting) == 0:
		w.pump(p)
	case len(p.ready) > 0: // behind those that wait: the call that is free now is theirs
		w.held.await(p)
	}
	w.drainWaiting()
}

// limitResult is an outcome as the strategy sees it.
func limitResult(o sender.Outcome) Result {
	switch o { //nolint:exhaustive // the others say nothing about the limit
	case sender.PageThrottled:
		return Refused
	case sender.Sent, sender.Ambiguous:
		return Accepted
	}
	return Other
}

// drainWaiting tries the pages that waited for a call to end, in turn: one
// message each, so that no page takes every call.
func (w *Worker) drainWaiting() {
	for w.flying < w.MaxInFlight && !w.ending {
		p := w.held.next()
		if p == nil {
			return
		}
		if len(p.ready) > 0 && w.step(p) && len(p.ready) > 0 {
			w.held.await(p)
		}
	}
}

// failed counts a failed attempt; after the last one the message is dead.
func (w *Worker) failed(j *job, code string) {
	j.out.Attempts++
	if j.out.FirstCode == "" {
		j.out.FirstCode = code
	}
	if j.out.Attempts >= w.MaxAttempts {
		w.bury(j, message.ReasonExhausted, code)
		return
	}
	w.delay(j, backoff.Policy{Min: 250 * time.Millisecond, Max: 30 * time.Second, High: 1, Random: w.Random}.Delay(j.out.Attempts))
}

// delay brings a message back; those behind it to the same recipient wait.
func (w *Worker) delay(j *job, d time.Duration) {
	w.timers.add(w.Now().Add(d), func() { w.ready(j) })
}

// giveBack moves a message to the tail of its queue.
func (w *Worker) giveBack(j *job) {
	w.release(j)
	body := j.delivery.Body
	if j.out.Attempts > 0 {
		b, err := j.out.Encode()
		if err != nil {
			w.Log.Error("message given back without its attempts", "id", j.out.ID, "err", err)
			b = body
		}
		body = b
	}
	to := queue.Message{Queue: j.delivery.Queue, ID: j.delivery.ID, Body: body, Headers: j.delivery.Headers}
	w.timers.add(w.Now().Add(returnPause), func() {
		w.mover.Add(&transfer.Item{Transfer: queue.Transfer{Delivery: j.delivery, To: []queue.Message{to}}})
	})
}

// bury moves a message to the dead-letter queue.
func (w *Worker) bury(j *job, reason message.Reason, code string) {
	dead := j.delivery.Dead(message.Death{Reason: reason, Attempts: j.out.Attempts, FirstCode: j.out.FirstCode, LastCode: code})
	w.mover.Add(&transfer.Item{Transfer: queue.Transfer{Delivery: j.delivery, To: []queue.Message{dead}}})
	w.drop(j)
}

// drop lets go of a message that is not tried again here.
func (w *Worker) drop(j *job) {
	if j.retry {
		w.Strategy.Drop(j.page.key)
	}
	w.release(j)
}

// release ends a message's turn; the next to its recipient follows.
func (w *Worker) release(j *job) {
	if next := w.held.remove(j); next != nil {
		next.page.push(next)
		if next.page != j.page {
			w.pump(next.page)
		}
	}
}

// errEnded is why a worker is not ready.
var errEnded = errors.New("the worker has ended")

// Ready returns nil while messages can be taken.
func (w *Worker) Ready() error {
	if w.calls.Err() != nil {
		return errEnded
	}
	return w.Broker.Ready()
}
