package dispatch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/transfer"
)

// giveBackDelay is how long a message is held before it goes to the tail of
// its own queue. Without it, a queue that holds nothing else would go round
// as fast as the broker can.
const giveBackDelay = 50 * time.Millisecond

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
	e.moves.Add(transfer.Transfer{
		Transfer: queue.Transfer{Delivery: j.delivery, To: []queue.Message{to}},
		Done:     e.metrics.spilled.Inc,
	})
}

// giveBack moves a message to the tail of its own queue, after pause, and
// publishes what goes with it.
func (e *engine) giveBack(j *job, pause time.Duration, also ...queue.Message) {
	to := queue.Message{Queue: j.delivery.Queue, ID: j.delivery.ID, Body: e.encode(j), Headers: j.delivery.Headers}
	t := transfer.Transfer{
		Transfer: queue.Transfer{Delivery: j.delivery, To: append([]queue.Message{to}, also...)},
		Done:     e.metrics.givenBack.Inc,
	}
	e.callers.Go(func() {
		backoff.Sleep(e.calls, pause)
		e.moves.Add(t)
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
	e.moves.Add(transfer.Transfer{
		Transfer: queue.Transfer{Delivery: j.delivery, To: to},
		Done:     e.metrics.dead.WithLabelValues(string(r.reason)).Inc,
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
