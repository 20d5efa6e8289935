package queue

import (
	"context"
	"fmt"
	"sync/atomic"

	"chatclub/internal/message"
)

// Settler is the broker's side of a delivery. Ack and Requeue return ErrStale
// when the channel that delivered the tag is gone, and then must not touch any
// message. Ack does not wait for the broker, however busy that is.
type Settler interface {
	Ack(tag uint64) error
	Requeue(tag uint64) error
	Live() bool
}

// Delivery is a message in the hands of a consumer, to be settled exactly once
// by Ack, Requeue, Move or DeadLetter: the first that succeeds wins, every
// later one returns ErrSettled and does nothing. The zero value is not useful;
// a Broker makes deliveries. Safe for concurrent use.
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

// Stale tells that the message is, or will be, delivered again: settling this
// delivery would do nothing.
func (d *Delivery) Stale() bool { return !d.settler.Live() }

// Live tells whether the delivery can still be settled. A consumer that held a
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

// Requeue gives the message back to its queue, at no particular place. It is
// for shutdown only: RabbitMQ versions differ in where the message lands and
// in how often they allow it before they drop the message. To give back a
// message that cannot be handled now, Move it to its own queue.
func (d *Delivery) Requeue() error {
	if !d.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	return d.settler.Requeue(d.tag)
}

// Move publishes msgs in place of the delivery and acknowledges it once they
// are confirmed. When publishing fails the delivery stays unsettled, so that
// nothing is lost and Move may be called again. When the acknowledgement fails
// with ErrStale the message exists twice: as msgs, and delivered again.
func (d *Delivery) Move(ctx context.Context, msgs ...Message) error {
	if !d.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	if err := d.broker.Publish(ctx, msgs...); err != nil {
		d.settled.Store(false)
		return fmt.Errorf("move delivery: %w", err)
	}
	return d.settler.Ack(d.tag)
}

// DeadLetter moves the message to the dead-letter queue with the death's
// headers; death.Queue is filled in. What must be told to others because of it
// goes along in also, confirmed before the acknowledgement.
func (d *Delivery) DeadLetter(ctx context.Context, death message.Death, also ...Message) error {
	return d.Move(ctx, append([]Message{d.Dead(death)}, also...)...)
}

// Dead is the dead letter that DeadLetter publishes. It has the message's id.
func (d *Delivery) Dead(death message.Death) Message {
	death.Queue = d.Queue
	return Message{Queue: d.broker.Topology().Dead(), ID: d.ID, Body: d.Body, Headers: death.Headers()}
}

// Transfer is one delivery and what is published in its place.
type Transfer struct {
	Delivery *Delivery
	To       []Message
}

// MoveAll is Move for many deliveries with one publish. It returns what became
// of each: nil once all that takes its place is confirmed and it is
// acknowledged; ErrStale or ErrSettled, and nothing of it was published;
// ErrInvalid, likewise, when some of it never could be; or why publishing
// failed. In the last two cases the delivery stays unsettled. To then holds
// what is not known to be confirmed, so that to move it again publishes nothing
// for a second time that a broker has.
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

// begin settles the delivery for all others.
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

// end acknowledges the delivery when none of what takes its place has a fault.
func (t *Transfer) end(fault func(i int) error) error {
	var rest []Message
	var first error
	for i, m := range t.To {
		if err := fault(i); err != nil {
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
