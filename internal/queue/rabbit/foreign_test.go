package rabbit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// TestForeignMessage takes a message that somebody else has put on a queue,
// without an id and with long headers. It can be moved like any other.
func TestForeignMessage(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	name, dead := b.Topology().Outbound(), b.Topology().Dead()
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
	if err := d.DeadLetter(t.Context(), message.Death{Reason: message.ReasonUndecodable}); err != nil {
		t.Fatalf("DeadLetter() = %v, want nil", err)
	}
	if err := queue.MoveAll(t.Context(), b, []queue.Transfer{
		{Delivery: same, To: []queue.Message{{Queue: dead, ID: same.ID, Body: same.Body, Headers: same.Headers}}},
	})[0]; err != nil {
		t.Fatalf("MoveAll() = %v, want nil", err)
	}
	got := consume(t, b, dead, 2)
	for range 2 {
		if m := receive(t, got); string(m.Body) != "test" || m.ID != d.ID {
			t.Errorf("dead letter is %q with id %q, want %q with %q", m.Body, m.ID, "test", d.ID)
		}
	}
}

// TestMissingQueueIsDeclaredAgain deletes the dead-letter queue, which has no
// consumer: a publisher gets an error first, and finds it there later.
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
		if err != nil && !errors.Is(err, queue.ErrUnroutable) {
			t.Errorf("Publish() = %v, want nil or %v", err, queue.ErrUnroutable)
		}
		return "unroutable", err == nil
	})
	if tries == 1 {
		t.Error("the first Publish to a deleted queue returned nil")
	}
	awaitQueued(t, b, dead, queue.Info{Ready: 1})
}
