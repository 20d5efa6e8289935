package queuetest

import (
	"errors"

	"chatclub/internal/queue"
)

func consumeCases() []testCase {
	return []testCase{
		{"prefetch bounds what is unsettled", prefetch},
		{"several consumers share a queue", share},
		{"a partition has one active consumer", singleActive},
		{"partitions do not affect each other", separatePartitions},
		{"subscription made before its messages", subscribeFirst},
		{"inspect counts messages and consumers", inspect},
		{"consume refuses a prefetch below one", badPrefetch},
	}
}

func prefetch(e env) {
	want := ids("m", 10)
	e.publish(e.plain(), want...)
	s := e.consume(e.plain(), 3)
	held := e.receiveIDs(s, want[:3]...)
	e.awaitInfo(e.plain(), queue.Info{Ready: 7, Consumers: 1})
	e.nothing(s)
	e.ack(held[1])
	next := e.receiveIDs(s, want[3])
	e.awaitInfo(e.plain(), queue.Info{Ready: 6, Consumers: 1})
	e.nothing(s)
	e.ack(held[0], held[2], next[0])
	e.ack(e.receiveIDs(s, want[4:7]...)...)
	e.ack(e.receiveIDs(s, want[7:]...)...)
}

func share(e env) {
	a, b := e.consume(e.plain(), 5), e.consume(e.plain(), 5)
	e.awaitInfo(e.plain(), queue.Info{Consumers: 2})
	e.publish(e.plain(), ids("m", 10)...)
	seen := make(map[string]bool)
	for _, s := range []queue.Subscription{a, b} {
		for range 5 {
			d := e.receive(s)
			seen[d.ID] = true
			e.ack(d)
		}
	}
	if len(seen) != 10 {
		e.Errorf("two consumers received %d different messages, want 10", len(seen))
	}
}

// singleActive: while one consumer of a partition lives, a second gets nothing;
// when the first ends, the second goes on where it stopped.
func singleActive(e env) {
	name := e.top.Outbound(0)
	want := ids("m", 8)
	first := e.consume(name, 4)
	e.publish(name, want...)
	held := e.receiveIDs(first, want[:4]...)
	second := e.consume(name, 4)
	e.ack(held[0])
	held = append(held, e.receiveIDs(first, want[4])...)
	e.awaitWaiting(name, 3)
	e.nothing(second)
	e.close(first)
	if err := held[1].Ack(); !errors.Is(err, queue.ErrStale) {
		e.Errorf("Ack(after Close) = %v, want %v", err, queue.ErrStale)
	}
	for _, id := range want[1:] {
		e.ack(e.receiveIDs(second, id)...)
	}
	e.awaitWaiting(name, 0)
}

func separatePartitions(e env) {
	a, b := e.consume(e.top.Outbound(0), 1), e.consume(e.top.Inbound(0), 1)
	e.publish(e.top.Outbound(0), "a0", "a1")
	e.publish(e.top.Inbound(0), "b0")
	held := e.receiveIDs(a, "a0") // keeps partition 0 from going on
	e.ack(e.receiveIDs(b, "b0")...)
	e.ack(held...)
	e.ack(e.receiveIDs(a, "a1")...)
}

func subscribeFirst(e env) {
	s := e.consume(e.top.Outbound(0), 2)
	e.publish(e.top.Outbound(0), "m0", "m1")
	e.ack(e.receiveIDs(s, "m0", "m1")...)
}

func inspect(e env) {
	name := e.plain()
	e.awaitInfo(name, queue.Info{})
	e.publish(name, ids("m", 3)...)
	e.awaitInfo(name, queue.Info{Ready: 3})
	a := e.consume(name, 1)
	e.awaitInfo(name, queue.Info{Ready: 2, Consumers: 1})
	b := e.consume(name, 1)
	e.awaitInfo(name, queue.Info{Ready: 1, Consumers: 2})
	for _, s := range []queue.Subscription{a, b} {
		e.close(s)
	}
	e.awaitInfo(name, queue.Info{Ready: 3})
	missing := e.top.Prefix + ".no-such-queue"
	for range 2 { // the first must not spoil the second
		if _, err := e.broker.Inspect(e.Context(), missing); !errors.Is(err, queue.ErrUnroutable) {
			e.Errorf("Inspect(%q) = %v, want %v", missing, err, queue.ErrUnroutable)
		}
	}
	e.awaitInfo(name, queue.Info{Ready: 3})
}

func badPrefetch(e env) {
	for _, n := range []int{0, -1} {
		s, err := e.broker.Consume(e.plain(), queue.ConsumeOptions{Prefetch: n})
		if err == nil {
			_ = s.Close()
			e.Errorf("Consume(prefetch %d) = nil, want an error", n)
		}
	}
}
