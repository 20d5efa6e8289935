package rabbit_test

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// Deleted queues are gone with what was on them, and deleting them again is no
// error.
func TestDelete(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 2, WithShared: true}
	cfg := rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top}
	b, err := rabbit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	awaitReady(t, b) // each of its connections declares the queues
	if err := b.Publish(t.Context(), queue.Message{Queue: top.Inbound(0), ID: "1", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := rabbit.Delete(t.Context(), cfg.URLs[0], top); err != nil {
			t.Errorf("Delete() = %v, want nil", err)
		}
	}
	// A Publish would have the topology declared again.
	for _, name := range []string{top.Inbound(0), top.Dead(), top.Retry(time.Second), top.Outbound(1), top.Lane(1, 3), top.Shared()} {
		if _, err := b.Inspect(t.Context(), name); !errors.Is(err, queue.ErrUnroutable) {
			t.Errorf("Inspect(%q) after Delete() = %v, want ErrUnroutable", name, err)
		}
	}
	onChannel(t, func(ch *amqp.Channel) error {
		name := top.Retry(time.Minute)
		err := ch.ExchangeDeclarePassive(name, amqp.ExchangeFanout, true, false, false, false, nil)
		if reply, ok := errors.AsType[*amqp.Error](err); !ok || reply.Code != amqp.NotFound {
			t.Errorf("declare exchange %q passively after Delete() = %v, want not found", name, err)
		}
		return nil
	})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
