package article

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"chatclub/internal/backoff"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/transfer"
	"chatclub/internal/sender"
)

// Caller makes one Send API call. *sender.Sender is one.
type Caller interface {
	Send(ctx context.Context, out message.Outbound) sender.Result
}

// Divert returns messages as they go to the shared queue in place of their partitions. Events,
// dead letters and delayed messages stay where they are.
func Divert(t queue.Topology, msgs []queue.Message) []queue.Message {
	msgs = slices.Clone(msgs)
	for i, m := range msgs {
		if m.Delay == 0 && !t.IsInbound(m.Queue) && m.Queue != t.Dead() {
			msgs[i].Queue = t.Shared()
		}
	}
	return msgs
}

// WorkerConfig is the configuration of a Worker. All fields must be set, but for Random.
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

	Random func() float64 // nil: math/rand; [0, 1), safe for concurrent use
}

const (
	// mostWaiting is the number of messages of one page that may wait here for its
	// pace. When half of the prefetch waits, it is one.
	mostWaiting = 32
	// returnPause is the pause before a message goes to the tail of its queue: a queue
	// with nothing else would go round as fast as the broker can.
	returnPause = 50 * time.Millisecond
	// appPause is the pause of a message that the app's limit refused.
	appPause = time.Second
	// flushTimeout bounds the last publishes, after the last call.
	flushTimeout = 5 * time.Second
)

// retryPolicy spaces the tries of a message that fails.
var retryPolicy = backoff.Policy{Min: 250 * time.Millisecond, Max: 30 * time.Second, High: 1}

// Worker consumes the shared queue and sends the messages that its strategy lets
// through. At most one call per recipient is on its way at a time. A message that fails
// for a moment is tried again here, and one that fails for good is dead. A Worker is the
// dispatcher of a strategy, without the gains of one sender for each page: no lanes, no
// joined texts, no breaker.
//
// Each recipient with messages here has a goroutine, which sends one after another. Of
// a page one of them at a time asks the strategy, and those that want a call get one in
// turn. So no page takes every call.
type Worker struct {
	WorkerConfig
	mover   *transfer.Mover
	slots   *semaphore.Weighted // for calls
	calls   context.Context
	abort   context.CancelFunc
	sending sync.WaitGroup

	mu           sync.Mutex
	held, flying int // messages here, and of them those in calls
	pages        map[excess.Key]*pageCalls
	lines        map[recipient][]*job // waiting behind the message that its goroutine has
	latency      time.Duration        // of calls, a moving average
}

// job is one delivery on its way.
type job struct {
	delivery *queue.Delivery
	out      message.Outbound
	page     *pageCalls
	retry    bool // it was refused and kept
}

// recipient is the person that a message is for.
type recipient struct{ page, to string }

// pageCalls counts the held messages and the calls of one page and class.
type pageCalls struct {
	key          excess.Key
	turn         *semaphore.Weighted // its holder asks the strategy
	held, flying int
	gated        bool // the strategy said to wait
}

// NewWorker returns a worker that does nothing before Run.
func NewWorker(cfg WorkerConfig) *Worker {
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	w := &Worker{
		WorkerConfig: cfg, slots: semaphore.NewWeighted(int64(cfg.MaxInFlight)),
		pages: make(map[excess.Key]*pageCalls), lines: make(map[recipient][]*job),
		mover: transfer.New(transfer.Config{
			Broker: cfg.Broker, Log: cfg.Log, Now: time.Now, Random: cfg.Random,
			Notify: func(transfer.Event) {}, // an item that is not moved goes back with its subscription
		}),
	}
	w.calls, w.abort = context.WithCancel(context.Background())
	return w
}

// Run sends until ctx ends, then takes no more, lets the calls in flight finish
// within ShutdownTimeout, and hands back everything else. Call it once.
func (w *Worker) Run(ctx context.Context) error {
	defer w.abort()
	sub, err := w.Broker.Consume(w.Broker.Topology().Shared(), queue.ConsumeOptions{Prefetch: w.Prefetch})
	if err != nil {
		return err
	}
	moving, stopMoving := context.WithCancel(context.WithoutCancel(ctx))
	defer stopMoving()
	moved := make(chan struct{})
	go func() { defer close(moved); w.mover.Run(moving) }()
	for arrivals := sub.Deliveries(); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case d, ok := <-arrivals:
			if !ok {
				arrivals = nil // the broker was closed
				continue
			}
			w.arrive(ctx, d)
		}
	}
	deadline := time.AfterFunc(w.ShutdownTimeout, w.abort)
	defer deadline.Stop()
	w.sending.Wait()
	w.mover.End()
	flush := time.AfterFunc(flushTimeout, stopMoving)
	defer flush.Stop()
	<-moved
	return sub.Close()
}

func (w *Worker) arrive(ctx context.Context, d *queue.Delivery) {
	out, err := message.DecodeOutbound(d.Body)
	if err != nil {
		w.Log.Error("outbound message cannot be decoded", "id", d.ID, "err", err)
		w.move(d, d.Dead(message.Death{Reason: message.ReasonUndecodable, Error: err.Error()}))
		return
	}
	j := &job{delivery: d, out: out}
	first := w.add(j)
	w.checkWaiting(j.page)
	if first {
		w.sending.Go(func() {
			for next := j; next != nil; next = w.remove(next) {
				w.send(ctx, next)
			}
		})
	}
}

// add takes a message, and reports whether it is the first of its recipient.
func (w *Worker) add(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held++
	k := excess.Key{Page: j.out.Page, Class: string(j.out.Class)}
	if w.pages[k] == nil {
		w.pages[k] = &pageCalls{key: k, turn: semaphore.NewWeighted(1)}
	}
	j.page = w.pages[k]
	j.page.held++
	r := recipient{j.out.Page, j.out.To}
	line, busy := w.lines[r]
	if busy {
		w.lines[r] = append(line, j)
	} else {
		w.lines[r] = nil
	}
	return !busy
}

// remove lets go of a message, and returns the next to its recipient, nil without.
func (w *Worker) remove(j *job) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held--
	if j.page.held--; j.page.held == 0 {
		delete(w.pages, j.page.key)
	}
	r := recipient{j.out.Page, j.out.To}
	line := w.lines[r]
	if len(line) == 0 {
		delete(w.lines, r)
		return nil
	}
	w.lines[r] = line[1:]
	return line[0]
}

// send sends a message, or moves it elsewhere. One that is neither when ctx ends goes
// back with its subscription.
func (w *Worker) send(ctx context.Context, j *job) {
	for w.claim(ctx, j) {
		r := w.Caller.Send(w.calls, j.out) //nolint:contextcheck // a call outlives ctx, for ShutdownTimeout
		w.fly(j.page, -1)
		w.slots.Release(1)
		pause, again := w.settle(j, r)
		if !again || !backoff.Sleep(ctx, pause) {
			return
		}
	}
}

// claim waits until a message may be sent, and takes a call for it. It returns false
// where the message has been moved, and when ctx has ended.
func (w *Worker) claim(ctx context.Context, j *job) bool {
	if j.page.turn.Acquire(ctx, 1) != nil {
		return false
	}
	defer j.page.turn.Release(1)
	for w.slots.Acquire(ctx, 1) == nil {
		d := w.ask(ctx, j)
		if d.Action == Send {
			w.fly(j.page, 1)
			return true
		}
		w.slots.Release(1)
		w.checkWaiting(j.page)
		if d.Action != Wait || !backoff.Sleep(ctx, d.Wait) {
			return false
		}
	}
	return false
}

// ask asks the strategy about a message, unless it is of no use to send that. A
// message that is not to wait, and not to be sent, has been moved.
func (w *Worker) ask(ctx context.Context, j *job) Decision {
	now := time.Now()
	w.mu.Lock()
	latency := w.latency
	w.mu.Unlock()
	switch {
	case !j.delivery.Live():
		w.drop(j)
		return Decision{}
	case j.out.Age(now)+latency > w.MessageTTL:
		w.bury(j, message.ReasonExpired, "")
		return Decision{}
	}
	d := w.Strategy.Offer(now, j.page.key, j.retry)
	if d.Action == Return {
		w.giveBack(ctx, j)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	j.page.gated = d.Action == Wait
	return d
}

// checkWaiting tells the strategy when too much of a page waits for its pace.
func (w *Worker) checkWaiting(p *pageCalls) {
	w.mu.Lock()
	n, most := p.held-p.flying, mostWaiting
	if w.held-w.flying > w.Prefetch/2 {
		most = 1
	}
	over := p.gated && n > most
	w.mu.Unlock()
	if over {
		w.Strategy.Overflow(time.Now(), p.key, n)
	}
}

// fly counts calls.
func (w *Worker) fly(p *pageCalls, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying += n
	p.flying += n
}

// settle settles a message by its call's outcome, or says when it is sent again.
func (w *Worker) settle(j *job, r sender.Result) (pause time.Duration, again bool) {
	pause = w.Strategy.Done(time.Now(), j.page.key, j.retry, limitResult(r.Outcome))
	if j.retry && r.Outcome != sender.PageThrottled {
		j.retry = false // Done has counted it out
	}
	switch r.Outcome {
	case sender.Sent:
		w.mu.Lock()
		w.latency += (r.Latency - w.latency) / 16 // over some 16 calls
		w.mu.Unlock()
		_ = j.delivery.Ack() // stale: it is delivered and sent again
	case sender.PageThrottled:
		j.retry = true
		return pause, true
	case sender.AppThrottled:
		return appPause, true
	case sender.RecipientThrottled, sender.Transient:
		return w.failed(j, r.CodeString())
	case sender.Canceled, sender.NoToken: // it goes back with its subscription
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
	return 0, false
}

// limitResult is an outcome as the strategy sees it.
func limitResult(o sender.Outcome) excess.Result {
	switch o { //nolint:exhaustive // the others say nothing about the limit
	case sender.PageThrottled:
		return excess.Refused
	case sender.Sent, sender.Ambiguous:
		return excess.Accepted
	}
	return excess.Other
}

// failed counts a failed attempt; after the last one the message is dead.
func (w *Worker) failed(j *job, code string) (pause time.Duration, again bool) {
	j.out.Attempts++
	if j.out.FirstCode == "" {
		j.out.FirstCode = code
	}
	if j.out.Attempts >= w.MaxAttempts {
		w.bury(j, message.ReasonExhausted, code)
		return 0, false
	}
	policy := retryPolicy
	policy.Random = w.Random
	return policy.Delay(j.out.Attempts), true
}

// giveBack moves a message to the tail of its queue, after a while.
func (w *Worker) giveBack(ctx context.Context, j *job) {
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
	w.sending.Go(func() {
		if backoff.Sleep(ctx, returnPause) {
			w.move(j.delivery, to)
		}
	})
}

// bury moves a message to the dead-letter queue.
func (w *Worker) bury(j *job, reason message.Reason, code string) {
	w.move(j.delivery, j.delivery.Dead(message.Death{Reason: reason, Attempts: j.out.Attempts, FirstCode: j.out.FirstCode, LastCode: code}))
	w.drop(j)
}

func (w *Worker) move(d *queue.Delivery, to queue.Message) {
	w.mover.Add(&transfer.Item{Transfer: queue.Transfer{Delivery: d, To: []queue.Message{to}}})
}

// drop tells the strategy of a message that is not tried again here.
func (w *Worker) drop(j *job) {
	if j.retry {
		w.Strategy.Drop(j.page.key)
	}
}

// errEnded is the error of Ready after the end of the worker.
var errEnded = errors.New("the worker has ended")

// Ready returns nil while messages can be taken.
func (w *Worker) Ready() error {
	if w.calls.Err() != nil {
		return errEnded
	}
	return w.Broker.Ready()
}
