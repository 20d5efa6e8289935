package dispatch

import (
	"context"
	"errors"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// giveBackDelay is how long a message of a page in excess is held before
	// it goes to the tail of its queue. Without it, a queue that holds nothing
	// else would go round as fast as the broker can; with it a full prefetch
	// of 512 goes round ten thousand times a second at most, a fraction of
	// what one queue carries.
	giveBackDelay = 50 * time.Millisecond
	// moveTimeout bounds one try to publish, so that a delivery that became
	// stale meanwhile is noticed and not published as well.
	moveTimeout = 5 * time.Second
)

// acknowledge takes a sent message off its queue.
func (d *Dispatcher) acknowledge(j *job) {
	if err := j.delivery.Ack(); err != nil {
		// The connection was lost after the call: the message is delivered and
		// sent again, with the same id in its metadata.
		d.metrics.staleAcks.Inc()
		d.Log.Debug("acknowledge sent message", "id", j.out.ID, "err", err)
	}
}

// giveBack moves a message of a page in excess to the tail of its own queue.
// Nack-requeue would put it at the head on some versions of RabbitMQ, where it
// starves all others, and count towards its being dropped.
func (d *Dispatcher) giveBack(ctx, calls context.Context, j *job) {
	sleep(ctx, giveBackDelay)
	body := j.delivery.Body
	if j.attempts > 0 {
		b, err := j.out.Encode() // carries the attempts on
		if err != nil {
			d.Log.Error("message given back without its attempts", "id", j.out.ID, "err", err)
		} else {
			body = b
		}
	}
	msg := queue.Message{Queue: j.delivery.Queue, ID: j.delivery.ID, Body: body, Headers: j.delivery.Headers}
	if d.move(ctx, calls, j, func(try context.Context) error { return j.delivery.Move(try, msg) }) {
		d.metrics.givenBack.Inc()
	}
}

// bury moves a message to the dead-letter queue, and tells core when the rule
// says so.
func (d *Dispatcher) bury(ctx, calls context.Context, j *job, r rule, code string) {
	var also []queue.Message
	if r.tell {
		if m, err := d.feedback(j, r.reason); err != nil {
			d.Log.Error("core is not told of a recipient", "reason", r.reason, "err", err)
		} else {
			also = append(also, m)
		}
	}
	death := message.Death{Reason: r.reason, Attempts: j.attempts, FirstCode: j.out.FirstCode, LastCode: code}
	if death.FirstCode == "" {
		death.FirstCode = code
	}
	if d.move(ctx, calls, j, func(try context.Context) error { return j.delivery.DeadLetter(try, death, also...) }) {
		d.metrics.dead.WithLabelValues(string(r.reason)).Inc()
		d.Log.Debug("message is dead", "id", j.out.ID, "reason", r.reason, "code", code)
	}
}

// feedback is the event that tells core what was learned about a recipient.
func (d *Dispatcher) feedback(j *job, reason message.Reason) (queue.Message, error) {
	ev := message.Event{
		Kind: message.KindFeedback, Page: j.out.Page, ID: "feedback/" + j.out.ID, User: j.out.To,
		Time: d.Now().UnixMilli(), Reason: string(reason),
	}
	body, err := ev.Encode()
	if err != nil {
		return queue.Message{}, err
	}
	return queue.Message{Queue: d.Broker.Topology().Inbound(), ID: ev.Page + "/" + ev.ID, Body: body}, nil
}

// move repeats do, which publishes and acknowledges, until it succeeds, the
// delivery is stale, or Run ends. In all but the first case the message is
// still, or again, on its queue. It tells whether the message has moved.
func (d *Dispatcher) move(ctx, calls context.Context, j *job, do func(context.Context) error) bool {
	for n := 1; j.delivery.Live(); n++ {
		try, cancel := context.WithTimeout(calls, moveTimeout)
		err := do(try)
		cancel()
		if err == nil {
			return true
		}
		if errors.Is(err, queue.ErrStale) {
			d.metrics.staleAcks.Inc()
			return true // published; the broker delivers the original again
		}
		d.Log.Warn("move message", "id", j.out.ID, "err", err)
		if ctx.Err() != nil {
			return false
		}
		sleep(ctx, backoff(n, d.Random))
	}
	return false
}
