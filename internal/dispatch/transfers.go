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

// republishDelay is how long a message is held before it goes to the tail of its
// own queue. Without it, a queue that holds nothing else would go round as fast as
// the broker can.
const republishDelay = 50 * time.Millisecond

// encode returns the message as it is now: with its attempts.
func (e *engine) encode(m *item) []byte {
	if m.attempts == 0 {
		return m.delivery.Body
	}
	b, err := m.out.Encode()
	if err != nil {
		e.Log.Error("message moved without its attempts", "id", m.out.ID, "err", err)
		return m.delivery.Body
	}
	return b
}

// overflow moves a message to its page's lane.
func (e *engine) overflow(m *item) {
	to := queue.Message{
		Queue: e.Broker.Topology().LaneOf(m.out.Page), ID: m.delivery.ID, Body: e.encode(m), Headers: m.delivery.Headers,
	}
	e.moves.Add(transfer.Transfer{
		Transfer: queue.Transfer{Delivery: m.delivery, To: []queue.Message{to}},
		Done:     e.metrics.overflowed.Inc,
	})
}

// republish moves a message to the tail of its own queue, after pause, and
// publishes also with it.
func (e *engine) republish(m *item, pause time.Duration, also ...queue.Message) {
	to := queue.Message{Queue: m.delivery.Queue, ID: m.delivery.ID, Body: e.encode(m), Headers: m.delivery.Headers}
	t := transfer.Transfer{
		Transfer: queue.Transfer{Delivery: m.delivery, To: append([]queue.Message{to}, also...)},
		Done:     e.metrics.givenBack.Inc,
	}
	e.callers.Go(func() {
		backoff.Sleep(e.calls, pause)
		e.moves.Add(t)
	})
}

// bury moves a message to the dead-letter queue, and tells core when the
// disposition says so. The caller releases it.
func (e *engine) bury(m *item, disp disposition, code string) {
	if m.retry {
		e.Gate.Drop(m.key())
	}
	death := message.Death{Reason: disp.reason, Attempts: m.attempts, FirstCode: m.out.FirstCode, LastCode: code}
	if death.FirstCode == "" {
		death.FirstCode = code
	}
	to := []queue.Message{m.delivery.Dead(death)}
	if disp.tell {
		if event, err := e.feedback(m, disp.reason); err != nil {
			e.Log.Error("core is not told of a recipient", "reason", disp.reason, "err", err)
		} else {
			to = append(to, event)
		}
	}
	e.moves.Add(transfer.Transfer{
		Transfer: queue.Transfer{Delivery: m.delivery, To: to},
		Done:     e.metrics.dead.WithLabelValues(string(disp.reason)).Inc,
	})
	e.Log.Debug("message is dead", "id", m.delivery.ID, "reason", disp.reason, "code", code)
}

// feedback returns the event that tells core what was learned about a recipient,
// or until when the page is suspended or busy. Its time is that of the call: the
// API may not have known what the user or the page's operators did before the
// answer came. Its id is the digest of the copy's. A copy's id may have all of the
// 255 bytes that AMQP takes, and one message that is longer would keep the whole
// batch from moving.
func (e *engine) feedback(m *item, reason message.Reason) (queue.Message, error) {
	digest := sha256.Sum256([]byte(m.out.Page + "/" + m.out.ID))
	ev := message.Event{
		Kind: message.KindFeedback, Page: m.out.Page, ID: "feedback/" + hex.EncodeToString(digest[:16]), User: m.out.To,
		Time: m.called, Reason: string(reason),
	}
	switch reason { //nolint:exhaustive // the others are about a recipient
	case message.ReasonPageStopped:
		ev.Until = e.suspended.probeAt(m.out.Page).UnixMilli()
	case message.FeedbackBusy:
		// The same message comes round again, and every event has its own id.
		ev.Time = e.Now().UnixMilli() // no call was made
		ev.ID, ev.Until = fmt.Sprintf("busy/%x/%d", digest[:16], ev.Time), e.Now().Add(bulkHold).UnixMilli()
	}
	body, err := ev.Encode()
	if err != nil {
		return queue.Message{}, err
	}
	return queue.Message{Queue: e.Broker.Topology().Inbound(), ID: ev.ID, Body: body}, nil
}
