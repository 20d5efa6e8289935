// Package memorytest gives tests a broker in memory, and the content of its queues.
package memorytest

import (
	"os"
	"testing"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// KeepsDead names the variable that makes the broker of every test like RabbitMQ 4.3: see
// memory.Options.
const KeepsDead = "MEMORY_KEEPS_DEAD"

// New is a broker with the topology's queues, all empty.
func New(t testing.TB, top queue.Topology) *memory.Broker {
	t.Helper()
	b, err := memory.NewWith(top, memory.Options{KeepsDead: os.Getenv(KeepsDead) != ""})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Drain takes everything off a queue that nobody else consumes.
func Drain(t testing.TB, b *memory.Broker, name string) (msgs []queue.Message) {
	t.Helper()
	info, err := b.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := b.Consume(name, queue.ConsumeOptions{Prefetch: max(1, info.Ready)})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for range info.Ready {
		d := <-sub.Deliveries()
		msgs = append(msgs, d.Message)
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	return msgs
}

// Lose ends a subscription as the loss of its connection does.
func Lose(s queue.Subscription) { s.(interface{ Lose() }).Lose() }
