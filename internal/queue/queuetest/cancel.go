package queuetest

import (
	"errors"
	"slices"
	"time"

	"chatclub/internal/queue"
)

func cancelCases() []testCase {
	return []testCase{
		{"cancel keeps what was delivered", cancelKeeps},
		{"cancel hands out what was not read", cancelUnread},
		{"cancel lets the next consumer take over", cancelTakeOver},
		{"closing after cancel returns the rest", cancelClose},
		{"many that are returned after cancel stand in order", cancelReturn},
		{"closing ends a return, and the order stays", cancelReturnClose},
	}
}

// cancel cancels the subscription, twice.
func (e env) cancel(s queue.Subscription) {
	e.Helper()
	for range 2 {
		if err := s.Cancel(); err != nil {
			e.Fatalf("Cancel() = %v, want nil", err)
		}
	}
}

// drain returns what can still be read from a subscription that has ended.
func (e env) drain(s queue.Subscription) []*queue.Delivery {
	e.Helper()
	var rest []*queue.Delivery
	for {
		select {
		case d, ok := <-s.Deliveries():
			if !ok {
				return rest
			}
			rest = append(rest, d)
		case <-time.After(patience):
			e.Fatal("Deliveries() is open after Cancel, want it closed")
		}
	}
}

func cancelKeeps(e env) {
	name, want := e.top.Inbound(), ids("m", 6)
	e.publish(name, want...)
	s := e.consume(name, 3)
	held := e.receiveIDs(s, want[:3]...)
	e.cancel(s)
	if rest := e.drain(s); len(rest) > 0 {
		e.Errorf("received %q after Cancel, want nothing", rest[0].ID)
	}
	e.ack(held[0]) // must not bring the next message
	if err := e.transfer(held[1], queue.Message{Queue: e.top.Dead(), ID: "m1"}); err != nil {
		e.Errorf("TransferAll(after Cancel) = %v, want nil", err)
	}
	if !held[2].Live() {
		e.Error("Live() = false after Cancel, want true")
	}
	e.ack(held[2])
	e.awaitInfo(name, queue.Info{Ready: 3})
	e.awaitInfo(e.top.Dead(), queue.Info{Ready: 1})
	if err := held[2].Ack(); !errors.Is(err, queue.ErrSettled) {
		e.Errorf("second Ack = %v, want %v", err, queue.ErrSettled)
	}
	e.ack(e.receiveIDs(e.consume(name, 3), want[3:]...)...)
}

// cancelUnread: what the broker had delivered and nobody had read comes before
// the end, and can be given back in order.
func cancelUnread(e env) {
	name, want := e.top.Outbound(1), ids("m", 6)
	e.publish(name, want...)
	s := e.consume(name, 4)
	e.awaitInfo(name, queue.Info{Ready: 2, Consumers: 1})
	first := e.receiveIDs(s, "m0")
	e.cancel(s)
	for _, d := range append(first, e.drain(s)...) {
		if err := d.Requeue(); err != nil {
			e.Errorf("Requeue(%q) = %v, want nil", d.ID, err)
		}
	}
	e.awaitInfo(name, queue.Info{Ready: 6})
	e.ack(e.receiveIDs(e.consume(name, 6), want...)...)
}

// cancelTakeOver: consumers of one partition are cancelled one after another, while
// what they hold is not settled. Each time another is given what is next, at once: what
// waits already, and what is published after the cancel. There are many, because nobody
// can see when one that is not active has come to the broker: the later ones have.
func cancelTakeOver(e env) {
	const consumers = 8
	name, want := e.top.Outbound(0), ids("m", 2*consumers+2)
	subs := make([]queue.Subscription, consumers)
	for i := range subs {
		subs[i] = e.consume(name, 2)
	}
	e.publish(name, want[:2]...)
	waiting, order := slices.Clone(subs), make([]queue.Subscription, 0, consumers)
	var acked []*queue.Delivery
	for i := range consumers {
		active, first := e.receiveAny(waiting)
		second := e.receive(active)
		if first.ID != want[2*i] || second.ID != want[2*i+1] || first.Redelivered || second.Redelivered {
			e.Fatalf("consumer %d received %q and %q (redelivered %t, %t), want %q, new", i, first.ID, second.ID, first.Redelivered, second.Redelivered, want[2*i:2*i+2])
		}
		late := i % 2 // how many are published after the cancel
		e.publish(name, want[2*i+2:2*i+4-late]...)
		e.awaitWaiting(name, 2-late)
		waiting = slices.DeleteFunc(waiting, func(s queue.Subscription) bool { return s == active })
		for _, s := range waiting {
			e.nothing(s)
		}
		e.cancel(active)
		e.publish(name, want[2*i+4-late:2*i+4]...)
		order, acked = append(order, active), append(acked, first)
	}
	e.ack(acked...)
	for _, s := range order {
		if err := s.Close(); err != nil {
			e.Fatalf("Close() = %v, want nil", err)
		}
	}
	rest := e.consume(name, len(want))
	again := make(map[string]bool)
	for range consumers {
		d := e.receive(rest)
		again[d.ID] = d.Redelivered
	}
	for i := range consumers {
		if _, twice := again[want[2*i]]; twice || !again[want[2*i+1]] {
			e.Errorf("received again: %v, want the second of each two, and not the first, which was acknowledged", again)
			break
		}
	}
}

func cancelClose(e env) {
	name, want := e.top.Outbound(0), ids("m", 4)
	e.publish(name, want...)
	s := e.consume(name, 3)
	held := e.receiveIDs(s, want[:3]...)
	e.cancel(s)
	e.ack(held[1])
	if err := s.Close(); err != nil {
		e.Fatalf("Close() = %v, want nil", err)
	}
	if err := held[0].Requeue(); !errors.Is(err, queue.ErrStale) {
		e.Errorf("Requeue(after Close) = %v, want %v", err, queue.ErrStale)
	}
	if err := s.Cancel(); err != nil {
		e.Errorf("Cancel(after Close) = %v, want nil", err)
	}
	e.ack(e.receiveIDs(e.consume(name, 3), "m0", "m2", "m3")...)
}

// cancelledWith returns a subscription that was cancelled with n messages in hand.
func (e env) cancelledWith(n int) (queue.Subscription, []*queue.Delivery) {
	e.Helper()
	name, want := e.top.Outbound(0), ids("m", n)
	e.publish(name, want...)
	s := e.consume(name, n)
	held := e.receiveIDs(s, want...)
	e.cancel(s)
	return s, held
}

// cancelReturn: a consumer with calls under way keeps those, and gives much back.
func cancelReturn(e env) {
	s, held := e.cancelledWith(2000)
	var calls, waiting []*queue.Delivery
	for i, d := range held {
		if i < 400 && i%2 == 0 {
			calls = append(calls, d)
		} else {
			waiting = append(waiting, d)
		}
	}
	ended := make(chan struct{})
	go func() { // calls end meanwhile
		defer close(ended)
		for _, d := range calls[1:] {
			e.ack(d)
			time.Sleep(time.Millisecond)
		}
	}()
	if err := s.Return(waiting); err != nil {
		e.Fatalf("Return(%d) = %v, want nil", len(waiting), err)
	}
	next := e.consume(e.top.Outbound(0), len(held))
	for i, d := range waiting {
		if got := e.receive(next); got.ID != d.ID || !got.Redelivered {
			e.Fatalf("message %d after Return is %q (redelivered %t), want %q (true)", i, got.ID, got.Redelivered, d.ID)
		}
	}
	<-ended
	if err := calls[0].Ack(); err != nil {
		e.Errorf("Ack(after Return) = %v, want nil", err)
	}
}

// cancelReturnClose: who closes does not wait for a return. What was not given
// back yet comes behind what was.
func cancelReturnClose(e env) {
	s, held := e.cancelledWith(2000)
	returned := make(chan error, 1)
	go func() { returned <- s.Return(held) }()
	for held[100].Live() {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		e.Fatalf("Close() = %v, want nil", err)
	}
	if err := <-returned; err != nil && !errors.Is(err, queue.ErrStale) {
		e.Errorf("Return(until Close) = %v, want nil or %v", err, queue.ErrStale)
	}
	e.ack(e.receiveIDs(e.consume(e.top.Outbound(0), len(held)), ids("m", len(held))...)...)
}
