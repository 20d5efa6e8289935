package rabbit_test

import (
	"errors"
	"testing"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// A passive broker makes no queue, not even when one is missing.
func TestPassive(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}
	b := open(t, rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top, Passive: true})
	for range 2 { // the second time something was missing before
		if err := b.Publish(t.Context(), queue.Message{Queue: top.Inbound(0), ID: "1"}); !errors.Is(err, queue.ErrUnroutable) {
			t.Errorf("Publish() = %v, want ErrUnroutable", err)
		}
		for _, spec := range top.Specs() {
			if _, err := b.Inspect(t.Context(), spec.Name); !errors.Is(err, queue.ErrUnroutable) {
				t.Errorf("Inspect(%q) = %v, want ErrUnroutable", spec.Name, err)
			}
		}
	}
}
