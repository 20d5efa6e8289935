package queuetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

func settleCases() []testCase {
	return []testCase{
		{"ack takes the message off", ackRemoves},
		{"ack in any order", ackAnyOrder},
		{"requeue delivers again", requeue},
		{"settling twice", settleTwice},
		{"settled once by many", settleRace},
		{"requeued messages stand in front in order", requeueInOrder},
		{"transfer goes elsewhere", transfer},
		{"transfer that fails leaves the delivery", transferFails},
		{"transfers are settled each by itself", transferAll},
		{"dead letter keeps the reason", deadLetter},
	}
}

func ackRemoves(e env) {
	want := ids("m", 5)
	e.publish(e.top.Inbound(), want...)
	s := e.consume(e.top.Inbound(), 5)
	e.ack(e.receiveIDs(s, want...)...)
	if err := s.Close(); err != nil {
		e.Fatalf("Close() = %v, want nil", err)
	}
	e.awaitInfo(e.top.Inbound(), queue.Info{}) // what was not acknowledged would be ready again
}

func ackAnyOrder(e env) {
	want := ids("m", 6)
	e.publish(e.top.Inbound(), want...)
	s := e.consume(e.top.Inbound(), 6)
	ds := e.receiveIDs(s, want...)
	e.ack(ds[5], ds[0], ds[3])
	if err := s.Close(); err != nil {
		e.Fatalf("Close() = %v, want nil", err)
	}
	e.ack(e.receiveIDs(e.consume(e.top.Inbound(), 6), want[1], want[2], want[4])...)
}

func requeue(e env) {
	e.publish(e.top.Inbound(), "m0")
	s := e.consume(e.top.Inbound(), 1)
	d := e.receiveIDs(s, "m0")[0]
	if err := d.Requeue(); err != nil {
		e.Fatalf("Requeue() = %v, want nil", err)
	}
	if d.Live() {
		e.Error("Live() = true after Requeue, want false")
	}
	again := e.receiveIDs(s, "m0")[0]
	if !again.Redelivered {
		e.Error("Redelivered = false after Requeue, want true")
	}
	e.ack(again)
}

func settleTwice(e env) {
	want := ids("m", 4)
	e.publish(e.top.Inbound(), want...)
	s := e.consume(e.top.Inbound(), 4)
	ds := e.receiveIDs(s, want...)
	first := []error{
		ds[0].Ack(),
		e.transfer(ds[1], queue.Message{Queue: e.top.Outbound(0), ID: "transferred"}),
		e.deadLetter(ds[2], message.Death{Reason: message.ReasonGone}),
		ds[3].Requeue(), // last: the others leave it the prefetch to come back
	}
	for i, err := range first {
		if err != nil {
			e.Errorf("first settling of %q = %v, want nil", want[i], err)
		}
	}
	e.ack(e.receiveIDs(s, want[3])...)
	for _, d := range ds {
		for name, again := range map[string]error{
			"Ack":         d.Ack(),
			"Requeue":     d.Requeue(),
			"Transfer":    e.transfer(d, queue.Message{Queue: e.top.Outbound(0), ID: "twice"}),
			"dead letter": e.deadLetter(d, message.Death{}),
		} {
			if !errors.Is(again, queue.ErrSettled) {
				e.Errorf("%s(settled %q) = %v, want %v", name, d.ID, again, queue.ErrSettled)
			}
		}
	}
	e.awaitInfo(e.top.Inbound(), queue.Info{Consumers: 1})
	e.awaitInfo(e.top.Outbound(0), queue.Info{Ready: 1})
	e.awaitInfo(e.top.Dead(), queue.Info{Ready: 1})
}

func settleRace(e env) {
	want := ids("m", 10)
	e.publish(e.top.Inbound(), want...)
	s := e.consume(e.top.Inbound(), 10)
	for _, d := range e.receiveIDs(s, want...) {
		var won atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				switch err := d.Ack(); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, queue.ErrSettled):
					e.Errorf("Ack(%q) = %v, want nil or %v", d.ID, err, queue.ErrSettled)
				}
			})
		}
		wg.Wait()
		if n := won.Load(); n != 1 {
			e.Errorf("%d of 4 concurrent Ack(%q) succeeded, want 1", n, d.ID)
		}
	}
	e.awaitInfo(e.top.Inbound(), queue.Info{Consumers: 1})
}

func transfer(e env) {
	e.publish(e.top.Inbound(), "m0")
	d := e.receive(e.consume(e.top.Inbound(), 1))
	want := []queue.Message{
		{Queue: e.top.Outbound(1), ID: "m0", Body: []byte("later"), Headers: map[string]string{"attempt": "2"}},
		{Queue: e.top.Outbound(1), ID: "m0/1", Body: []byte("and this")},
	}
	if err := e.transfer(d, want...); err != nil {
		e.Fatalf("TransferAll(2 messages) = %v, want nil", err)
	}
	s := e.consume(e.top.Outbound(1), 2)
	for i, d := range e.receiveIDs(s, "m0", "m0/1") {
		if diff := cmp.Diff(want[i], d.Message); diff != "" {
			e.Errorf("transferred message %d differs (-given +received):\n%s", i, diff)
		}
		e.ack(d)
	}
	e.awaitInfo(e.top.Inbound(), queue.Info{Consumers: 1})
}

func transferFails(e env) {
	e.publish(e.top.Inbound(), "m0")
	s := e.consume(e.top.Inbound(), 1)
	d := e.receive(s)
	cancelled, cancel := context.WithCancel(e.Context())
	cancel()
	if err := e.transferWithin(cancelled, d, queue.Message{Queue: e.top.Outbound(0), ID: "m0"}); !errors.Is(err, queue.ErrUnavailable) {
		e.Errorf("TransferAll(cancelled context) = %v, want %v", err, queue.ErrUnavailable)
	}
	missing := queue.Message{Queue: e.top.Prefix + ".no-such-queue", ID: "m0"}
	if err := e.transfer(d, missing); !errors.Is(err, queue.ErrUnroutable) {
		e.Errorf("TransferAll(to a missing queue) = %v, want %v", err, queue.ErrUnroutable)
	}
	if !d.Live() {
		e.Fatal("Live() = false after a transfer that failed, want true")
	}
	if err := s.Close(); err != nil {
		e.Fatalf("Close() = %v, want nil", err)
	}
	again := e.receive(e.consume(e.top.Inbound(), 1))
	if again.ID != "m0" || !again.Redelivered {
		e.Errorf("received %q, Redelivered %t, want %q, true", again.ID, again.Redelivered, "m0")
	}
	if err := e.transfer(again, queue.Message{Queue: e.top.Dead(), ID: "m0"}); err != nil {
		e.Errorf("TransferAll(to dead) = %v, want nil", err)
	}
	e.awaitInfo(e.top.Inbound(), queue.Info{Consumers: 1})
}

func transferAll(e env) {
	e.publish(e.top.Inbound(), "m0", "m1", "m2")
	s := e.consume(e.top.Inbound(), 3)
	var list []queue.Transfer
	for i, d := range e.receiveIDs(s, "m0", "m1", "m2") {
		to := queue.Message{Queue: e.top.Outbound(0), ID: d.ID}
		if i == 1 {
			to.Queue = e.top.Prefix + ".no-such-queue"
		}
		list = append(list, queue.Transfer{Delivery: d, To: []queue.Message{to}})
	}
	for i, err := range queue.TransferAll(e.Context(), e.broker, list) {
		if want := i == 1; errors.Is(err, queue.ErrUnroutable) != want || err != nil && !want {
			e.Errorf("TransferAll: m%d = %v, want %v: %v", i, err, queue.ErrUnroutable, want)
		}
	}
	e.ack(e.receiveIDs(e.consume(e.top.Outbound(0), 3), "m0", "m2")...)
	if err := s.Close(); err != nil {
		e.Fatalf("Close() = %v, want nil", err)
	}
	e.ack(e.receiveIDs(e.consume(e.top.Inbound(), 3), "m1")...)
}

func deadLetter(e env) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	m0 := queue.Message{Queue: e.top.Outbound(0), ID: "m0", Body: []byte("m0"), Headers: map[string]string{message.HeaderTrace: trace, "n": "1"}}
	if err := e.broker.Publish(e.Context(), m0); err != nil {
		e.Fatalf("Publish() = %v, want nil", err)
	}
	d := e.receive(e.consume(e.top.Outbound(0), 1))
	death := message.Death{Reason: message.ReasonExhausted, Attempts: 7, FirstCode: "613/1", LastCode: "2/2018364"}
	if err := e.deadLetter(d, death); err != nil {
		e.Fatalf("TransferAll(to dead) = %v, want nil", err)
	}
	dead := e.receive(e.consume(e.top.Dead(), 1))
	got, err := message.DeathFromHeaders(dead.Headers)
	if err != nil {
		e.Fatalf("DeathFromHeaders(%v) = %v, want nil", dead.Headers, err)
	}
	death.Queue = e.top.Outbound(0)
	if diff := cmp.Diff(death, got); diff != "" {
		e.Errorf("death differs (-given +received):\n%s", diff)
	}
	if dead.ID != "m0" || !slices.Equal(dead.Body, []byte("m0")) {
		e.Errorf("dead letter has id %q and body %q, want both %q", dead.ID, dead.Body, "m0")
	}
	if dead.Headers[message.HeaderTrace] != trace || dead.Headers["n"] != "" {
		e.Errorf("dead letter has headers %v, want the trace, and not what else the message had", dead.Headers)
	}
	e.ack(dead)
	e.awaitWaiting(e.top.Outbound(0), 0)
}

// transfer transfers one delivery.
func (e env) transfer(d *queue.Delivery, to ...queue.Message) error {
	return e.transferWithin(e.Context(), d, to...)
}

func (e env) transferWithin(ctx context.Context, d *queue.Delivery, to ...queue.Message) error {
	return queue.TransferAll(ctx, e.broker, []queue.Transfer{{Delivery: d, To: to}})[0]
}

func (e env) deadLetter(d *queue.Delivery, death message.Death) error {
	return e.transfer(d, d.Dead(death))
}

// requeueInOrder: what several consumers have in hand goes back in front of
// what was never delivered.
func requeueInOrder(e env) {
	want := ids("m", 8)
	e.publish(e.top.Outbound(0), want...)
	s := e.consume(e.top.Outbound(0), 5)
	held := e.receiveIDs(s, want[:5]...)
	if err := s.Cancel(); err != nil {
		e.Fatalf("Cancel() = %v, want nil", err)
	}
	e.ack(held[1])
	for _, d := range []*queue.Delivery{held[0], held[2], held[3], held[4]} {
		if err := d.Requeue(); err != nil {
			e.Fatalf("Requeue(%q) = %v, want nil", d.ID, err)
		}
	}
	e.awaitInfo(e.top.Outbound(0), queue.Info{Ready: 7})
	next := e.consume(e.top.Outbound(0), 10)
	for i, d := range e.receiveIDs(next, "m0", "m2", "m3", "m4", "m5", "m6", "m7") {
		if redelivered := i < 4; d.Redelivered != redelivered {
			e.Errorf("%q: Redelivered = %t, want %t", d.ID, d.Redelivered, redelivered)
		}
		e.ack(d)
	}
}
