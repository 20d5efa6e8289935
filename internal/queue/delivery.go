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
// by Ack or TransferAll: the first that succeeds wins, every later one returns
// ErrSettled and does nothing. An unsettled delivery goes back when its subscription
// closes. The zero value is not useful; a Broker makes deliveries. Safe for
// concurrent use.
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

// Stale reports that the message is, or will be, delivered again: settling this
// delivery would do nothing.
func (d *Delivery) Stale() bool { return !d.settler.Live() }

// Live reports whether the delivery can still be settled. A consumer that held a
// delivery for a while asks before it acts on it: when the answer is false,
// the message is somebody else's again.
func (d *Delivery) Live() bool { return !d.settled.Load() && d.settler.Live() }

// Ack takes the message off its queue: its effect has happened. It does not
// wait, neither for the broker nor for I/O.
func (d *Delivery) Ack() error {
	if !d.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	return d.settler.Ack(d.tag)
}

// Dead is the message's dead letter, for Transfer. It has the message's id and trace.
func (d *Delivery) Dead(death message.Death) Message {
	death.Queue = d.Queue
	return Message{Queue: d.broker.Topology().Dead(), ID: d.ID, Body: d.Body, Headers: message.CarryTrace(death.Headers(), d.Headers)}
}

// Transfer is one delivery and the messages published in its place.
type Transfer struct {
	Delivery *Delivery
	To       []Message
}

// TransferAll publishes the messages in place of each delivery, all with one publish, and
// acknowledges each delivery once its messages are confirmed. It returns one error for
// each delivery: nil once its messages are confirmed and it is acknowledged; ErrStale or
// ErrSettled, when none of them was published; ErrInvalid, when none was, because no broker
// takes one of them; or the error of publishing. In the last two cases the delivery stays
// unsettled. To then holds only messages that are not known to be confirmed, so a second
// transfer doubles nothing that a broker has.
func TransferAll(ctx context.Context, p Publisher, transfers []Transfer) []error {
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
		errs[i] = t.end(func(k int) error { return ErrorOf(published, first+k) })
	}
	return errs
}

// begin settles the delivery for all others.
func (t *Transfer) begin() error {
	if !t.Delivery.settler.Live() {
		return ErrStale
	}
	if err := ValidateAll(t.Delivery.broker.Topology(), t.To); err != nil {
		return fmt.Errorf("transfer delivery: %w", err)
	}
	if !t.Delivery.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	return nil
}

// end acknowledges the delivery when no message in its place has an error.
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
	return fmt.Errorf("transfer delivery: %w", first)
}
