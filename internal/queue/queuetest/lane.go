package queuetest

import (
	"context"
	"errors"

	"chatclub/internal/queue"
)

func laneCases() []testCase {
	return []testCase{
		{"a lane comes and goes", laneLife},
		{"a lane in use is not deleted", laneInUse},
		{"a lane has one active consumer", laneSingleActive},
		{"queues of the topology are not deleted", topologyStays},
		{"declare and delete heed their context", laneContext},
	}
}

// declare declares one of Lanes.
func (e env) declare(i int) string {
	e.Helper()
	name := Lanes(e.top)[i]
	if err := e.broker.Declare(e.Context(), e.top.LaneSpec(name)); err != nil {
		e.Fatalf("Declare(%q) = %v, want nil", name, err)
	}
	return name
}

func (e env) delete(name string) {
	e.Helper()
	if err := e.broker.Delete(e.Context(), name, e.top.Inbound()); err != nil {
		e.Fatalf("Delete(%q) = %v, want nil", name, err)
	}
}

func laneLife(e env) {
	for range 2 {
		name := e.declare(0)
		e.declare(0) // it exists
		e.publish(name, "m0", "m1")
		s := e.consume(name, 2)
		ds := e.receiveIDs(s, "m0", "m1")
		if ds[0].Queue != name {
			e.Errorf("received from %q, want %q", ds[0].Queue, name)
		}
		e.ack(ds...)
		if err := s.Close(); err != nil {
			e.Fatalf("Close() = %v, want nil", err)
		}
		e.awaitInfo(name, queue.Info{})
		e.delete(name)
		e.delete(name) // it does not exist
		if err := e.broker.Publish(e.Context(), queue.Message{Queue: name, ID: "m2"}); !errors.Is(err, queue.ErrUnroutable) {
			e.Errorf("Publish(to a deleted lane) = %v, want %v", err, queue.ErrUnroutable)
		}
		if _, err := e.broker.Inspect(e.Context(), name); !errors.Is(err, queue.ErrUnroutable) {
			e.Errorf("Inspect(deleted lane) = %v, want %v", err, queue.ErrUnroutable)
		}
	}
}

func laneInUse(e env) {
	inUse := func(name, what string) {
		e.Helper()
		if err := e.broker.Delete(e.Context(), name, e.top.Inbound()); !errors.Is(err, queue.ErrInUse) {
			e.Errorf("Delete(lane with %s) = %v, want %v", what, err, queue.ErrInUse)
		}
	}
	name, other := e.declare(0), e.declare(1)
	e.publish(name, "m0")
	inUse(name, "a message")
	e.delete(other)
	s := e.consume(name, 1)
	d := e.receiveIDs(s, "m0")
	inUse(name, "a consumer")
	e.ack(d...)
	e.awaitInfo(name, queue.Info{Consumers: 1})
	inUse(name, "a consumer and nothing on it")
	if err := e.broker.Publish(e.Context(), queue.Message{Queue: name, ID: "m1"}); !errors.Is(err, queue.ErrUnroutable) {
		e.Errorf("Publish(to a lane that is about to be deleted) = %v, want %v", err, queue.ErrUnroutable)
	}
	if err := s.Close(); err != nil {
		e.Fatalf("Close() = %v, want nil", err)
	}
	e.awaitInfo(name, queue.Info{})
	e.delete(name)
}

// laneSingleActive: two consumers of a lane take over from each other, in the
// lane's order.
func laneSingleActive(e env) {
	name, want := e.declare(0), ids("m", 6)
	first := e.consume(name, 2)
	e.awaitInfo(name, queue.Info{Consumers: 1})
	e.publish(name, want...)
	second := e.consume(name, 2)
	held := e.receiveIDs(first, want[:2]...)
	e.awaitWaiting(name, 4)
	e.nothing(second)
	e.ack(held[0])
	e.receiveIDs(first, want[2])
	if err := first.Close(); err != nil {
		e.Fatalf("Close() = %v, want nil", err)
	}
	for _, id := range want[1:] {
		e.ack(e.receiveIDs(second, id)...)
	}
}

func topologyStays(e env) {
	for _, spec := range e.top.Specs() {
		if err := e.broker.Delete(e.Context(), spec.Name, e.top.Inbound()); !errors.Is(err, queue.ErrInUse) {
			e.Errorf("Delete(%q) = %v, want %v", spec.Name, err, queue.ErrInUse)
		}
		if _, err := e.broker.Inspect(e.Context(), spec.Name); err != nil {
			e.Errorf("Inspect(%q) = %v, want nil", spec.Name, err)
		}
	}
}

func laneContext(e env) {
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	name := Lanes(e.top)[0]
	if err := e.broker.Declare(ctx, e.top.LaneSpec(name)); err != nil && !errors.Is(err, context.Canceled) {
		e.Errorf("Declare(cancelled context) = %v, want nil or %v", err, context.Canceled)
	}
	if err := e.broker.Delete(ctx, name, e.top.Inbound()); err != nil && !errors.Is(err, context.Canceled) {
		e.Errorf("Delete(cancelled context) = %v, want nil or %v", err, context.Canceled)
	}
	if err := e.broker.Close(); err != nil {
		e.Fatalf("Close() = %v, want nil", err)
	}
	if err := e.broker.Declare(e.Context(), e.top.LaneSpec(name)); !errors.Is(err, queue.ErrClosed) {
		e.Errorf("Declare(after Close) = %v, want %v", err, queue.ErrClosed)
	}
	if err := e.broker.Delete(e.Context(), name, e.top.Inbound()); !errors.Is(err, queue.ErrClosed) {
		e.Errorf("Delete(after Close) = %v, want %v", err, queue.ErrClosed)
	}
}
