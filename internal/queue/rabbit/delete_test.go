package rabbit_test

import (
	"errors"
	"strings"
	"testing"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// Deleted queues are gone with what was on them, and deleting them again is no
// error.
func TestDelete(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Lanes: 2}
	cfg := rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top}
	b, err := rabbit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), queue.Message{Queue: top.Outbound(), ID: "1", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		version, err := rabbit.Delete(t.Context(), cfg.URLs[0], top)
		if err != nil || !strings.HasPrefix(version, "RabbitMQ ") {
			t.Errorf("Delete() = %q, %v, want RabbitMQ and its version, nil", version, err)
		}
	}
	if err := b.Publish(t.Context(), queue.Message{Queue: top.Outbound(), ID: "2", Body: []byte("x")}); !errors.Is(err, queue.ErrUnroutable) {
		t.Errorf("Publish() after Delete() = %v, want ErrUnroutable", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
