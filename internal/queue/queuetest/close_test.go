package queuetest

import (
	"errors"
	"time"

	"chatclub/internal/queue"
)

func closeCases() []testCase {
	return []testCase{
		{"unsettled returns to the front in order", returnsToFront},
		{"what returns twice keeps its order", returnsAgain},
		{"closing a subscription", closeSubscription},
		{"no number of returns makes a dead letter", manyReturns},
		{"closing while deliveries stream", closeUnderLoad},
		{"closing the broker", closeBroker},
	}
}

func returnsToFront(e env) {
	want := ids("m", 12)
	e.publish(e.plain(), want...)
	s := e.consume(e.plain(), 5)
	held := e.receiveIDs(s, want[:5]...)
	e.ack(held[1]) // m5 is delivered for it, and perhaps not received
	e.close(s)
	next := e.consume(e.plain(), 20)
	for i, d := range e.receiveIDs(next, append([]string{"m0", "m2", "m3", "m4"}, want[5:]...)...) {
		if i < 4 && !d.Redelivered {
			e.Errorf("%q: Redelivered = false, want true", d.ID)
		}
		if i > 4 && d.Redelivered {
			e.Errorf("%q: Redelivered = true, want false", d.ID)
		}
		e.ack(d)
	}
}

// returnsAgain: returned messages are a FIFO of their own, so that with different
// prefetches some would come back behind others.
func returnsAgain(e env) {
	name, want := e.top.Outbound(0), ids("m", 12)
	e.publish(name, want...)
	for range 3 {
		s := e.consume(name, 6)
		e.receiveIDs(s, want[:6]...)
		e.close(s)
		e.awaitWaiting(name, 12) // the server takes them back in its own time
	}
	e.ack(e.receiveIDs(e.consume(name, 12), want...)...)
}

func closeSubscription(e env) {
	e.publish(e.plain(), "m0", "m1")
	s := e.consume(e.plain(), 2)
	ds := e.receiveIDs(s, "m0", "m1")
	for range 2 {
		if err := s.Close(); err != nil {
			e.Errorf("Close() = %v, want nil", err)
		}
	}
	e.closed(s)
	for _, d := range ds {
		if d.Live() {
			e.Errorf("Live(%q) = true after Close, want false", d.ID)
		}
	}
	if err := ds[0].Ack(); !errors.Is(err, queue.ErrStale) {
		e.Errorf("Ack(after Close) = %v, want %v", err, queue.ErrStale)
	}
	if err := ds[0].Ack(); !errors.Is(err, queue.ErrSettled) {
		e.Errorf("second Ack(after Close) = %v, want %v", err, queue.ErrSettled)
	}
	e.awaitInfo(e.plain(), queue.Info{Ready: 2})
}

// manyReturns: what the owners of a lane hold comes back however often an owner
// ends. RabbitMQ counts that, up to a limit of 20 unless a queue has its own.
func manyReturns(e env) {
	name := e.top.Lane(0, 0)
	e.publish(name, "m0")
	for range 25 {
		s := e.consume(name, 1)
		e.receiveIDs(s, "m0")
		e.close(s)
	}
	e.ack(e.receiveIDs(e.consume(name, 1), "m0")...)
	e.awaitInfo(e.top.Dead(), queue.Info{})
}

// closed checks that the subscription's channel is closed; stale deliveries
// may stand before the end.
func (e env) closed(s queue.Subscription) {
	e.Helper()
	for {
		select {
		case d, ok := <-s.Deliveries():
			if !ok {
				return
			}
			if d.Live() {
				e.Errorf("received the live delivery %q after Close", d.ID)
			}
		case <-time.After(patience):
			e.Fatal("Deliveries() is open after Close, want it closed")
		}
	}
}

// closeUnderLoad: a consumer that closes in the middle loses nothing that it
// did not acknowledge, though nobody reads its deliveries.
func closeUnderLoad(e env) {
	want := ids("m", 200)
	e.publish(e.plain(), want...)
	for i := 0; i < 200; i += 20 {
		s := e.consume(e.plain(), 50)
		e.ack(e.receiveIDs(s, want[i:i+20]...)...)
		e.close(s)
		e.awaitInfo(e.plain(), queue.Info{Ready: 180 - i}) // a busy server takes a moment to have them back
	}
}

func closeBroker(e env) {
	e.publish(e.plain(), "m0")
	a, b := e.consume(e.plain(), 1), e.consume(e.top.Outbound(0), 1)
	d := e.receive(a)
	for range 2 {
		if err := e.broker.Close(); err != nil {
			e.Errorf("Close() = %v, want nil", err)
		}
	}
	e.closed(a)
	e.closed(b)
	if err := d.Ack(); !errors.Is(err, queue.ErrStale) {
		e.Errorf("Ack(after the broker's Close) = %v, want %v", err, queue.ErrStale)
	}
	if err := e.broker.Publish(e.Context(), queue.Message{Queue: e.plain(), ID: "m1"}); !errors.Is(err, queue.ErrClosed) {
		e.Errorf("Publish(after Close) = %v, want %v", err, queue.ErrClosed)
	}
	if _, err := e.broker.Consume(e.plain(), queue.ConsumeOptions{Prefetch: 1}); !errors.Is(err, queue.ErrClosed) {
		e.Errorf("Consume(after Close) = %v, want %v", err, queue.ErrClosed)
	}
	if _, err := e.broker.Inspect(e.Context(), e.plain()); !errors.Is(err, queue.ErrClosed) {
		e.Errorf("Inspect(after Close) = %v, want %v", err, queue.ErrClosed)
	}
	if err := e.broker.Ready(); err == nil {
		e.Error("Ready() = nil after Close, want an error")
	}
}
