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
		{"settling twice", settleTwice},
		{"settled once by many", settleRace},
		{"transfer goes elsewhere", transfer},
		{"transfer that fails leaves the delivery", transferFails},
		{"transfers are settled each by itself", transferAll},
		{"dead letter keeps the reason", deadLetter},
	}
}

func ackRemoves(e env) {
	want := ids("m", 5)
	e.publish(e.plain(), want...)
	s := e.consume(e.plain(), 5)
	e.ack(e.receiveIDs(s, want...)...)
	e.close(s)
	e.awaitInfo(e.plain(), queue.Info{}) // unacknowledged messages would be ready again
}

func ackAnyOrder(e env) {
	want := ids("m", 6)
	e.publish(e.plain(), want...)
	s := e.consume(e.plain(), 6)
	ds := e.receiveIDs(s, want...)
	e.ack(ds[5], ds[0], ds[3])
	e.close(s)
	e.ack(e.receiveIDs(e.consume(e.plain(), 6), want[1], want[2], want[4])...)
}

func settleTwice(e env) {
	want := ids("m", 3)
	e.publish(e.plain(), want...)
	s := e.consume(e.plain(), 3)
	ds := e.receiveIDs(s, want...)
	first := []error{
		ds[0].Ack(),
		e.transfer(ds[1], queue.Message{Queue: e.top.Outbound(0), ID: "transferred"}),
		e.deadLetter(ds[2], message.Death{Reason: message.ReasonGone}),
	}
	for i, err := range first {
		if err != nil {
			e.Errorf("first settling of %q = %v, want nil", want[i], err)
		}
	}
	for _, d := range ds {
		for name, again := range map[string]error{
			"Ack":         d.Ack(),
			"Transfer":    e.transfer(d, queue.Message{Queue: e.top.Outbound(0), ID: "twice"}),
			"dead letter": e.deadLetter(d, message.Death{}),
		} {
			if !errors.Is(again, queue.ErrSettled) {
				e.Errorf("%s(settled %q) = %v, want %v", name, d.ID, again, queue.ErrSettled)
			}
		}
	}
	e.awaitInfo(e.plain(), queue.Info{Consumers: 1})
	e.awaitInfo(e.top.Outbound(0), queue.Info{Ready: 1})
	e.awaitInfo(e.top.Dead(), queue.Info{Ready: 1})
}

func settleRace(e env) {
	want := ids("m", 10)
	e.publish(e.plain(), want...)
	s := e.consume(e.plain(), 10)
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
	e.awaitInfo(e.plain(), queue.Info{Consumers: 1})
}

func transfer(e env) {
	e.publish(e.plain(), "m0")
	d := e.receive(e.consume(e.plain(), 1))
	want := []queue.Message{
		{Queue: e.top.Outbound(0), ID: "m0", Body: []byte("later"), Headers: map[string]string{"attempt": "2"}},
		{Queue: e.top.Outbound(0), ID: "m0/1", Body: []byte("and this")},
	}
	if err := e.transfer(d, want...); err != nil {
		e.Fatalf("TransferAll(2 messages) = %v, want nil", err)
	}
	s := e.consume(e.top.Outbound(0), 2)
	for i, d := range e.receiveIDs(s, "m0", "m0/1") {
		if diff := cmp.Diff(want[i], d.Message); diff != "" {
			e.Errorf("transferred message %d differs (-given +received):\n%s", i, diff)
		}
		e.ack(d)
	}
	e.awaitInfo(e.plain(), queue.Info{Consumers: 1})
}

func transferFails(e env) {
	e.publish(e.plain(), "m0")
	s := e.consume(e.plain(), 1)
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
	e.close(s)
	again := e.receive(e.consume(e.plain(), 1))
	if again.ID != "m0" || !again.Redelivered {
		e.Errorf("received %q, Redelivered %t, want %q, true", again.ID, again.Redelivered, "m0")
	}
	if err := e.transfer(again, queue.Message{Queue: e.top.Dead(), ID: "m0"}); err != nil {
		e.Errorf("TransferAll(to dead) = %v, want nil", err)
	}
	e.awaitInfo(e.plain(), queue.Info{Consumers: 1})
}

func transferAll(e env) {
	e.publish(e.plain(), "m0", "m1", "m2")
	s := e.consume(e.plain(), 3)
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
	e.close(s)
	e.ack(e.receiveIDs(e.consume(e.plain(), 3), "m1")...)
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
