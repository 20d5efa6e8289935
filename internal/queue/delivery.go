package queue

import (
	"context"
	"fmt"
	"sync/atomic"

	"chatclub/internal/message"
)

// Settler is the broker's side of a delivery. Ack returns ErrStale when the
// channel that delivered the tag is gone, and then must not touch any message. It
// does not wait for the broker, however busy that is.
type Settler interface {
	Ack(tag uint64) error
	Live() bool
}

// Delivery is a message in the hands of a consumer, to be settled exactly once
// by Ack, DeadLetter or MoveAll. The first that succeeds wins; every later one
// returns ErrSettled and does nothing. The zero value is not useful; a Broker
// makes deliveries. Safe for concurrent use.
type Delivery struct {
	Message
	Redelivered bool // it was delivered before, perhaps to another consumer

	broker  Broker
	settler Settler
	tag     uint64
	settled atomic.Bool
}

// NewDelivery makes a delivery; for implementations of Broker.
func NewDelivery(b Broker, s Settler, tag uint64, msg Message, redelivered bool) *Delivery {
	return &Delivery{Message: msg, Redelivered: redelivered, broker: b, settler: s, tag: tag}
}

// Stale reports whether the message is, or will be, delivered again. To settle
// this delivery would do nothing then.
func (d *Delivery) Stale() bool { return !d.settler.Live() }

// Live reports whether the delivery can still be settled. A consumer that held a
// delivery for a while asks before it acts on it. When the answer is false, the
// message is another consumer's again.
func (d *Delivery) Live() bool { return !d.settled.Load() && d.settler.Live() }

// Ack takes the message off its queue: its effect has happened. It does not
// wait, neither for the broker nor for I/O.
func (d *Delivery) Ack() error {
	if !d.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	return d.settler.Ack(d.tag)
}

// DeadLetter moves the message to the dead-letter queue with the death's
// headers, as MoveAll moves it; death.Queue is filled in.
func (d *Delivery) DeadLetter(ctx context.Context, death message.Death) error {
	return MoveAll(ctx, d.broker, []Transfer{{Delivery: d, To: []Message{d.Dead(death)}}})[0]
}

// Dead returns the dead letter that DeadLetter publishes. It has the message's id.
func (d *Delivery) Dead(death message.Death) Message {
	death.Queue = d.Queue
	return Message{Queue: d.broker.Topology().Dead(), ID: d.ID, Body: d.Body, Headers: death.Headers()}
}

// Transfer is one delivery and what is published in its place.
type Transfer struct {
	Delivery *Delivery
	To       []Message
}

// MoveAll publishes, with one call, what takes the place of many deliveries, and
// acknowledges each delivery once all of its own is confirmed. It returns what
// became of each:
//
//   - nil: it has moved. An acknowledgement that fails is ErrStale, too: the
//     message exists twice, as what was published, and delivered again.
//   - ErrStale or ErrSettled: it was so before, and nothing of it was published.
//   - ErrInvalid: some of it never could be published, and nothing of it was.
//   - any other error: publishing failed.
//
// In the last two cases the delivery stays unsettled. To then holds what is not
// known to be confirmed. So MoveAll again publishes nothing for a second time
// that the broker has.
func MoveAll(ctx context.Context, p Publisher, transfers []Transfer) []error {
	errs := make([]error, len(transfers))
	var msgs []Message
	for i := range transfers {
		t := &transfers[i]
		if errs[i] = t.begin(); errs[i] == nil {
			msgs = append(msgs, t.To...)
		}
	}
	var published error
	if len(msgs) > 0 {
		published = p.Publish(ctx, msgs...)
	}
	next := 0
	for i := range transfers {
		t := &transfers[i]
		if errs[i] != nil {
			continue
		}
		first := next
		next += len(t.To)
		errs[i] = t.end(func(k int) error { return faultOf(published, first+k) })
	}
	return errs
}

// begin settles the delivery, so that no one else does.
func (t *Transfer) begin() error {
	if !t.Delivery.settler.Live() {
		return ErrStale
	}
	for _, m := range t.To {
		if err := m.Validate(); err != nil {
			return fmt.Errorf("move delivery: %w", err)
		}
	}
	if !t.Delivery.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	return nil
}

// end acknowledges the delivery when all of what takes its place is confirmed.
func (t *Transfer) end(errOf func(i int) error) error {
	var rest []Message
	var first error
	for i, m := range t.To {
		if err := errOf(i); err != nil {
			if first == nil {
				first = err
			}
			rest = append(rest, m)
		}
	}
	if first == nil {
		return t.Delivery.settler.Ack(t.Delivery.tag)
	}
	t.To = rest
	t.Delivery.settled.Store(false)
	return fmt.Errorf("move delivery: %w", first)
}
