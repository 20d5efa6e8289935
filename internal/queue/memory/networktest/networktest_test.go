package networktest_test

import (
	"testing"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/networktest"
)

// A message that is published, delivered, left unsettled, delivered again and
// acknowledged takes four operations.
func TestOperationsAreCounted(t *testing.T) {
	t.Parallel()
	b, err := networktest.NewBroker(queue.Topology{Prefix: "t", Partitions: 1}, networktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	out := b.Topology().Inbound(0)
	if err := b.Publish(t.Context(), queue.Message{Queue: out, ID: "1"}); err != nil {
		t.Fatal(err)
	}
	sub, err := b.Consume(out, queue.ConsumeOptions{Prefetch: 1})
	if err != nil {
		t.Fatal(err)
	}
	<-sub.Deliveries()
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
	if sub, err = b.Consume(out, queue.ConsumeOptions{Prefetch: 1}); err != nil {
		t.Fatal(err)
	}
	if err := (<-sub.Deliveries()).Ack(); err != nil {
		t.Fatal(err)
	}
	if got := b.Operations(); got != 4 {
		t.Errorf("Operations() = %d, want 4", got)
	}
}
