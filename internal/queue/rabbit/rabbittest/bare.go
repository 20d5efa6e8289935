package rabbittest

import (
	"context"
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

// Bare is a publisher with confirms as the client library's documentation
// writes one, to compare with: no reconnecting, no window, no return looked at.
type Bare struct{ ch *amqp.Channel }

// NewBare opens a channel of its own on a connection of its own.
func NewBare(t testing.TB, amqpURL string) Bare {
	t.Helper()
	conn, err := amqp.Dial(amqpURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Bare{ch}
}

// Publish returns when every message is confirmed.
func (b Bare) Publish(ctx context.Context, msgs []queue.Message) error {
	confirms := make([]*amqp.DeferredConfirmation, len(msgs))
	for i, m := range msgs {
		var err error
		confirms[i], err = b.ch.PublishWithDeferredConfirmWithContext(ctx, "", m.Queue, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, MessageId: m.ID, Body: m.Body,
		})
		if err != nil {
			return err
		}
	}
	for _, c := range confirms {
		if acked, err := c.WaitContext(ctx); err != nil || !acked {
			return errors.Join(err, errors.New("not confirmed"))
		}
	}
	return nil
}
