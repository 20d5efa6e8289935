package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/wait"
)

const (
	// giveBackDelay is how long a message is held before it goes to the tail of
	// its own queue. Without it, a queue that holds nothing else would go round
	// as fast as the broker can.
	giveBackDelay = 50 * time.Millisecond
	// moveTimeout bounds one try to publish, so that deliveries that became
	// stale meanwhile are noticed and not published as well.
	moveTimeout = 5 * time.Second
	// moveBatch is how many messages move with one publish: far more than that
	// gains nothing, and a failure repeats them all.
	moveBatch = 256
)

// encode is the message as it is now: with its attempts.
func (e *engine) encode(j *job) []byte {
	if j.attempts == 0 {
		return j.delivery.Body
	}
	b, err := j.out.Encode()
	if err != nil {
		e.Log.Error("message moved without its attempts", "id", j.out.ID, "err", err)
		return j.delivery.Body
	}
	return b
}

// spill moves a message to its page's lane.
func (e *engine) spill(j *job) {
	to := queue.Message{
		Queue: e.Broker.Topology().LaneOf(j.out.Page), ID: j.delivery.ID, Body: e.encode(j), Headers: j.delivery.Headers,
	}
	e.moves.add(move{
		Transfer: queue.Transfer{Delivery: j.delivery, To: []queue.Message{to}},
		done:     e.metrics.spilled.Inc,
	})
}

// giveBack moves a message to the tail of its own queue, after pause, and
// publishes what goes with it.
func (e *engine) giveBack(j *job, pause time.Duration, also ...queue.Message) {
	to := queue.Message{Queue: j.delivery.Queue, ID: j.delivery.ID, Body: e.encode(j), Headers: j.delivery.Headers}
	m := move{
		Transfer: queue.Transfer{Delivery: j.delivery, To: append([]queue.Message{to}, also...)},
		done:     e.metrics.givenBack.Inc,
	}
	e.callers.Go(func() {
		wait.For(e.calls, pause)
		e.moves.add(m)
	})
}

// bury moves a message to the dead-letter queue, and tells core when the rule
// says so. The caller releases it.
func (e *engine) bury(j *job, r rule, code string) {
	if j.again {
		e.Gate.Drop(j.key())
	}
	death := message.Death{Reason: r.reason, Attempts: j.attempts, FirstCode: j.out.FirstCode, LastCode: code}
	if death.FirstCode == "" {
		death.FirstCode = code
	}
	to := []queue.Message{j.delivery.Dead(death)}
	if r.tell {
		if m, err := e.feedback(j, r.reason); err != nil {
			e.Log.Error("core is not told of a recipient", "reason", r.reason, "err", err)
		} else {
			to = append(to, m)
		}
	}
	e.moves.add(move{
		Transfer: queue.Transfer{Delivery: j.delivery, To: to},
		done:     e.metrics.dead.WithLabelValues(string(r.reason)).Inc,
	})
	e.Log.Debug("message is dead", "id", j.delivery.ID, "reason", r.reason, "code", code)
}

// feedback is the event that tells core what was learned about a recipient, or
// that the page is stopped or busy and until when. Its time is that of the call: what
// the user wrote, or the page's operators did, before the answer came may be
// news to the API. Its id is the digest of the copy's, because a copy's id may
// have all of the 255 bytes that AMQP takes, and one message that is longer
// would keep the whole batch from moving.
func (e *engine) feedback(j *job, reason message.Reason) (queue.Message, error) {
	digest := sha256.Sum256([]byte(j.out.Page + "/" + j.out.ID))
	ev := message.Event{
		Kind: message.KindFeedback, Page: j.out.Page, ID: "feedback/" + hex.EncodeToString(digest[:16]), User: j.out.To,
		Time: j.called, Reason: string(reason),
	}
	switch reason { //nolint:exhaustive // the others are about a recipient
	case message.ReasonPageStopped:
		ev.Until = e.stops.probeAt(j.out.Page).UnixMilli()
	case message.FeedbackBusy:
		// The same message goes round again, and every event has its own id.
		ev.Time = e.Now().UnixMilli() // no call was made
		ev.ID, ev.Until = fmt.Sprintf("busy/%x/%d", digest[:16], ev.Time), e.Now().Add(bulkHold).UnixMilli()
	}
	body, err := ev.Encode()
	if err != nil {
		return queue.Message{}, err
	}
	return queue.Message{Queue: e.Broker.Topology().Inbound(), ID: ev.ID, Body: body}, nil
}

// backlog hands work from the engine to one goroutine, in order and without
// ever blocking the engine. It is bounded by what the broker lets a dispatcher
// hold. The zero value is not useful.
type backlog[T any] struct {
	mu     sync.Mutex
	items  []T
	added  int // ever
	done   int // of them
	afters []after
	ending bool
	more   chan struct{} // one place: set when there is something to see
}

// after is what is called once so many items are done.
type after struct {
	done int
	call func()
}

func newBacklog[T any]() backlog[T] { return backlog[T]{more: make(chan struct{}, 1)} }

func (b *backlog[T]) add(item T) {
	b.mu.Lock()
	b.items = append(b.items, item)
	b.added++
	b.mu.Unlock()
	b.signal()
}

// after calls f, which must not block, once all that was added before is done.
func (b *backlog[T]) after(f func()) {
	b.mu.Lock()
	idle := b.done == b.added
	if !idle {
		b.afters = append(b.afters, after{b.added, f})
	}
	b.mu.Unlock()
	if idle {
		f()
	}
}

// finish tells that n items that were taken are done.
func (b *backlog[T]) finish(n int) {
	b.mu.Lock()
	b.done += n
	due := 0
	for due < len(b.afters) && b.afters[due].done <= b.done {
		due++
	}
	calls := b.afters[:due:due]
	b.afters = b.afters[due:]
	b.mu.Unlock()
	for _, a := range calls {
		a.call()
	}
}

// end makes take return nil once everything was taken.
func (b *backlog[T]) end() {
	b.mu.Lock()
	b.ending = true
	b.mu.Unlock()
	b.signal()
}

func (b *backlog[T]) signal() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// take returns at most limit items, waiting for at least one; nil at the end.
func (b *backlog[T]) take(limit int) []T {
	for {
		b.mu.Lock()
		n := min(limit, len(b.items))
		items, ending := b.items[:n:n], b.ending
		if b.items = b.items[n:]; len(b.items) == 0 {
			b.items = nil
		}
		left := len(b.items) > 0
		b.mu.Unlock()
		if n > 0 {
			if left {
				b.signal()
			}
			return items
		}
		if ending {
			return nil
		}
		<-b.more
	}
}

// move is a message that goes to another queue; done is called once it has.
type move struct {
	queue.Transfer
	done func()
}

// mover publishes messages elsewhere and then acknowledges them, in order.
type mover struct {
	d *Dispatcher
	backlog[move]
}

func newMover(d *Dispatcher) *mover { return &mover{d: d, backlog: newBacklog[move]()} }

// run ends with the backlog, or with ctx: what was not moved then stays on its
// queue.
func (m *mover) run(ctx context.Context) {
	for items := m.take(moveBatch); items != nil; items = m.take(moveBatch) {
		m.all(ctx, items)
		m.finish(len(items))
	}
}

// all repeats until the messages have moved, are stale, or ctx has ended. In
// all but the first case they are still, or again, on their queue.
func (m *mover) all(ctx context.Context, items []move) {
	transfers := make([]queue.Transfer, len(items))
	for i := range items {
		transfers[i] = items[i].Transfer
	}
	for n := 1; ctx.Err() == nil; n++ {
		try, cancel := context.WithTimeout(ctx, moveTimeout)
		errs, err := queue.MoveAll(try, m.d.Broker, transfers)
		cancel()
		if err == nil {
			for i, err := range errs {
				switch {
				case err == nil:
					items[i].done()
				case errors.Is(err, queue.ErrStale):
					m.d.metrics.stale.Inc()
				}
			}
			return
		}
		m.d.Log.Warn("move messages", "messages", len(items), "err", err)
		wait.For(ctx, backoff(n, m.d.Random))
	}
}
