package rabbit_test

import (
	"errors"
	"strings"
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
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 2}
	cfg := rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top}
	b, err := rabbit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	awaitReady(t, b) // each of its connections declares the queues
	lane := top.Lane("page", "text")
	if err := b.Declare(t.Context(), top.LaneSpec(lane)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{top.Inbound(), lane} {
		if err := b.Publish(t.Context(), queue.Message{Queue: name, ID: "1", Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if version, err := rabbit.Version(t.Context(), cfg.URLs[0]); err != nil || !strings.HasPrefix(version, "RabbitMQ ") {
		t.Errorf("Version() = %q, %v, want RabbitMQ and its version, nil", version, err)
	}
	for range 2 {
		version, err := rabbit.Delete(t.Context(), cfg.URLs[0], top, lane)
		if err != nil || !strings.HasPrefix(version, "RabbitMQ ") {
			t.Errorf("Delete() = %q, %v, want RabbitMQ and its version, nil", version, err)
		}
	}
	// A Publish would have the topology declared again.
	for _, name := range []string{top.Inbound(), top.Dead(), top.Retry(time.Second), top.Outbound(1), lane} {
		if _, err := b.Inspect(t.Context(), name); !errors.Is(err, queue.ErrUnroutable) {
			t.Errorf("Inspect(%q) after Delete() = %v, want ErrUnroutable", name, err)
		}
	}
	for _, name := range []string{top.Lanes(), top.Retry(time.Minute)} {
		exists := true
		onChannel(t, func(ch *amqp.Channel) error {
			err := ch.ExchangeDeclarePassive(name, amqp.ExchangeFanout, true, false, false, false, nil)
			var reply *amqp.Error
			exists = !errors.As(err, &reply) || reply.Code != amqp.NotFound
			return nil
		})
		if exists {
			t.Errorf("exchange %q is there after Delete()", name)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
