package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// TestForeignMessage takes a message that somebody else has put on a queue,
// without an id and with long headers: it can be transferred like any other.
func TestForeignMessage(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	name, dead := b.Topology().Inbound(0), b.Topology().Dead()
	onChannel(t, func(ch *amqp.Channel) error {
		for range 2 {
			if err := ch.PublishWithContext(t.Context(), "", name, false, false, amqp.Publishing{
				Body: []byte("test"), Headers: amqp.Table{"trace": strings.Repeat("x", 3500)},
			}); err != nil {
				return err
			}
		}
		return ch.Close() // waits until both are there
	})
	s := consume(t, b, name, 2)
	d, same := receive(t, s), receive(t, s)
	if d.ID == "" || d.ID != same.ID {
		t.Errorf("ids are %q and %q, want the same twice", d.ID, same.ID)
	}
	if err := queue.TransferAll(t.Context(), b, []queue.Transfer{{Delivery: d, To: []queue.Message{d.Dead(message.Death{Reason: message.ReasonUndecodable})}}})[0]; err != nil {
		t.Fatalf("TransferAll() = %v, want nil", err)
	}
	if err := queue.TransferAll(t.Context(), b, []queue.Transfer{{Delivery: same, To: []queue.Message{{Queue: dead, ID: same.ID, Body: same.Body, Headers: same.Headers}}}})[0]; err != nil {
		t.Fatalf("TransferAll() = %v, want nil", err)
	}
	got := consume(t, b, dead, 2)
	for range 2 {
		if m := receive(t, got); string(m.Body) != "test" || m.ID != d.ID {
			t.Errorf("dead letter is %q with id %q, want %q with %q", m.Body, m.ID, "test", d.ID)
		}
	}
}

// TestMissingQueueIsDeclaredAgain deletes the dead-letter queue, which nobody
// consumes: who publishes to it is told, and finds it there later.
func TestMissingQueueIsDeclaredAgain(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	dead := b.Topology().Dead()
	deleteQueue(t, dead)
	tries := 0
	eventually(t, "a dead letter is taken", func() (string, bool) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		tries++
		err := b.Publish(ctx, queue.Message{Queue: dead, ID: "1"})
		// A queue that is on its way out or in may refuse.
		if err != nil && !errors.Is(err, queue.ErrUnroutable) && !errors.Is(err, queue.ErrRefused) {
			t.Errorf("Publish() = %v, want nil, %v or %v", err, queue.ErrUnroutable, queue.ErrRefused)
		}
		return fmt.Sprint(err), err == nil
	})
	if tries == 1 {
		t.Error("the first Publish to a deleted queue returned nil")
	}
	awaitQueued(t, b, dead, queue.Info{Ready: 1})
}

// TestMissingExchangeIsDeclaredAgain deletes the exchange of a delay, for which
// RabbitMQ closes the channel of the publisher: the message arrives all the same,
// and so does what was published with it.
func TestMissingExchangeIsDeclaredAgain(t *testing.T) {
	t.Parallel()
	// Of two addresses one is away: that it cannot be reached says nothing about exchanges.
	b := open(t, rabbit.Config{
		URLs:     []string{rabbittest.URL(t), "amqp://127.0.0.1:1"},
		Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 2},
	})
	awaitReady(t, b)
	top := b.Topology()
	onChannel(t, func(ch *amqp.Channel) error { return ch.ExchangeDelete(top.Retry(time.Second), false, false) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Publish(ctx,
		queue.Message{Queue: top.Outbound(0), ID: "at once"},
		queue.Message{Queue: top.Inbound(0), ID: "later", Delay: time.Second},
	); err != nil {
		t.Fatalf("Publish() = %v, want nil", err)
	}
	if d := receive(t, consume(t, b, top.Inbound(0), 1)); d.ID != "later" {
		t.Errorf("received %q, want %q", d.ID, "later")
	}
	if d := receive(t, consume(t, b, top.Outbound(0), 1)); d.ID != "at once" {
		t.Errorf("received %q, want %q", d.ID, "at once")
	}
}
