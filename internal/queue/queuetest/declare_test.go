package queuetest

import (
	"context"
	"errors"

	"chatclub/internal/queue"
)

func declareCases() []testCase {
	return []testCase{
		{"a queue that is not of the topology", ownQueue},
		{"declare heeds its context", declareContext},
	}
}

// ownOf returns a queue that is not of the topology, and that a case may leave behind.
func ownOf(top queue.Topology) queue.Spec {
	return queue.Spec{Name: top.Prefix + ".own", DeadLetter: top.Dead()}
}

func ownQueue(e env) {
	own := ownOf(e.top)
	if err := e.broker.Publish(e.Context(), queue.Message{Queue: own.Name, ID: "m0"}); !errors.Is(err, queue.ErrUnroutable) {
		e.Errorf("Publish(before Declare) = %v, want %v", err, queue.ErrUnroutable)
	}
	for range 2 { // the second time it exists
		if err := e.broker.Declare(e.Context(), own); err != nil {
			e.Fatalf("Declare(%q) = %v, want nil", own.Name, err)
		}
	}
	e.publish(own.Name, "m1", "m2")
	ds := e.receiveIDs(e.consume(own.Name, 2), "m1", "m2")
	if ds[0].Queue != own.Name {
		e.Errorf("received from %q, want %q", ds[0].Queue, own.Name)
	}
	e.ack(ds...)
	e.awaitInfo(own.Name, queue.Info{Consumers: 1})
}

func declareContext(e env) {
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	if err := e.broker.Declare(ctx, ownOf(e.top)); err != nil && !errors.Is(err, context.Canceled) {
		e.Errorf("Declare(cancelled context) = %v, want nil or %v", err, context.Canceled)
	}
	if err := e.broker.Close(); err != nil {
		e.Fatalf("Close() = %v, want nil", err)
	}
	if err := e.broker.Declare(e.Context(), ownOf(e.top)); !errors.Is(err, queue.ErrClosed) {
		e.Errorf("Declare(after Close) = %v, want %v", err, queue.ErrClosed)
	}
}
