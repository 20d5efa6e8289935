package chaos_test

import (
	"testing"

	"chatclub/internal/chaos"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// watched calls back once a queue hears something.
type watched struct {
	memory.Direct
	heard func(queue string)
}

func (w *watched) To(queue string, operations int, do func()) {
	w.Direct.To(queue, operations, do)
	w.heard(queue)
}

// TestCut: what is dead settles nothing while its queues are given to others one by one.
func TestCut(t *testing.T) {
	t.Parallel()
	net := &watched{heard: func(string) {}}
	b, err := memory.NewWith(queue.Topology{Prefix: "t", Partitions: 2}, memory.Options{Network: net})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	link := chaos.NewLink(b)
	var held []*queue.Delivery
	for i := range 2 {
		name := b.Topology().Inbound(i)
		sub, err := link.Consume(name, queue.ConsumeOptions{Prefetch: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := link.Publish(t.Context(), queue.Message{Queue: name, ID: "id"}); err != nil {
			t.Fatal(err)
		}
		held = append(held, <-sub.Deliveries())
	}
	ends := 0
	net.heard = func(name string) {
		ends++
		for _, d := range held {
			if !d.Stale() {
				t.Errorf("what came from %s is not stale while %s is taken over", d.Queue, name)
			}
		}
	}
	link.Cut()
	if ends != 2 {
		t.Errorf("%d queues heard of the end, want 2", ends)
	}
	net.heard = func(string) {}
}
