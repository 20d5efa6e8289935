package rabbit_test

import (
	"fmt"
	"testing"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// The subscription of a stream goes on behind what it gave to its reader when the
// connection is lost, and at the beginning when the stream was deleted.
func TestStreamGoesOn(t *testing.T) {
	t.Parallel()
	p, url := rabbittest.Wire(t)
	b := open(t, rabbit.Config{URLs: []string{url}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}})
	awaitReady(t, b)
	name := b.Topology().Orders()
	sub := consume(t, b, name, 10)
	want := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			d := receive(t, sub)
			if d.ID != id {
				t.Fatalf("message %q of the stream, want %q", d.ID, id)
			}
			_ = d.Ack() // stale where the connection was lost meanwhile
		}
	}
	for i := range 5 {
		publish(t, b, name, fmt.Sprint("a", i))
	}
	want("a0", "a1", "a2")
	p.Cut()
	awaitReady(t, b)
	publish(t, b, name, "b")
	want("a3", "a4", "b")
	deleteQueue(t, name)
	eventually(t, "the stream is there again", func() (string, bool) {
		info, err := b.Inspect(t.Context(), name)
		return fmt.Sprint(info, err), err == nil
	})
	publish(t, b, name, "c")
	want("c")
}
