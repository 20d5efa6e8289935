package queuetest

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/queue"
)

func delayCases() []testCase {
	return []testCase{
		{"delayed messages arrive later in order", delayed},
		{"a transfer can delay", delayedTransfer},
		{"delays that no queue has, or to no queue of the topology", badDelay},
	}
}

func delayed(e env) {
	const delay = time.Second
	late := func(name, id string) queue.Message {
		return queue.Message{Queue: name, ID: id, Body: []byte(id), Headers: map[string]string{"attempt": "2"}, Delay: delay}
	}
	in, out := e.plain(), e.top.Outbound(0)
	start := time.Now()
	if err := e.broker.Publish(e.Context(),
		queue.Message{Queue: in, ID: "much later", Delay: 10 * delay}, // keeps none of the others back
		late(in, "m0"), late(out, "n0"), late(in, "m1"), late(in, "m2"),
		queue.Message{Queue: in, ID: "at once"},
	); err != nil {
		e.Fatalf("Publish(delayed) = %v, want nil", err)
	}
	s := e.consume(in, 10)
	e.ack(e.receiveIDs(s, "at once")...)
	ds := e.receiveIDs(s, "m0", "m1", "m2")
	if took := time.Since(start); took < delay {
		e.Errorf("delayed messages arrived after %s, want %s or more", took, delay)
	}
	want := late(in, "m0")
	want.Delay = 0
	if diff := cmp.Diff(want, ds[0].Message); diff != "" {
		e.Errorf("delayed message differs (-want +received):\n%s", diff)
	}
	if ds[0].Redelivered {
		e.Error("Redelivered = true of a delayed message, want false")
	}
	e.ack(ds...)
	e.ack(e.receiveIDs(e.consume(out, 1), "n0")...)
}

// delayedTransfer is the way of a retry: the delivery is settled now, and comes
// again later, as often as one likes.
func delayedTransfer(e env) {
	name := e.top.Outbound(0)
	e.publish(name, "m0")
	s := e.consume(name, 1)
	for range 2 {
		d := e.receiveIDs(s, "m0")[0]
		again := d.Message
		again.Delay = time.Second
		if err := e.transfer(d, again); err != nil {
			e.Fatalf("TransferAll(delayed) = %v, want nil", err)
		}
		e.awaitInfo(name, queue.Info{Consumers: 1})
	}
	e.ack(e.receiveIDs(s, "m0")...)
}

func badDelay(e env) {
	good := queue.Message{Queue: e.plain(), ID: "good"}
	for what, bad := range map[string]queue.Message{
		"a delay that no queue has": {Queue: e.plain(), ID: "bad", Delay: 2 * time.Second},
		"a negative delay":          {Queue: e.plain(), ID: "bad", Delay: -time.Second},
		"a queue of one's own":      {Queue: e.top.Prefix + ".own", ID: "bad", Delay: time.Second},
	} {
		if err := e.broker.Publish(e.Context(), good, bad); !errors.Is(err, queue.ErrInvalid) {
			e.Errorf("Publish(delayed, %s) = %v, want %v", what, err, queue.ErrInvalid)
		}
	}
	e.awaitInfo(e.plain(), queue.Info{})
}
