package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/loadtest/peers/keys"
	"chatclub/loadtest/peers/peer"
)

// queues are those on the broker.
type queues struct {
	settings peer.Settings
	conn     *amqp.Connection
	publish  *amqp.Channel
}

// feed declares the queues. They are classic ones, which cost the broker least.
func feed(_ context.Context, s peer.Settings) (peer.Queue, error) {
	conn, err := dial(s)
	if err != nil {
		return nil, err
	}
	q := &queues{settings: s, conn: conn}
	if q.publish, err = confirming(conn); err == nil {
		err = q.declare()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return q, nil
}

func (q *queues) declare() error {
	if _, err := q.publish.QueueDeclare(mainQueue(q.settings), true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare queue: %w", err)
	}
	_, err := q.publish.QueueDeclare(delayQueue(q.settings), true, false, false, false, amqp.Table{
		amqp.QueueMessageTTLArg: delay.Milliseconds(), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": mainQueue(q.settings),
	})
	if err != nil {
		return fmt.Errorf("declare queue: %w", err)
	}
	return nil
}

// confirming opens a channel on which the broker confirms what it has taken.
func confirming(conn *amqp.Connection) (*amqp.Channel, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	err = ch.Confirm(false)
	return ch, err
}

// publishAll returns when the broker has confirmed all.
func publishAll(ctx context.Context, ch *amqp.Channel, queue string, bodies ...[]byte) error {
	confirms := make([]*amqp.DeferredConfirmation, len(bodies))
	for i, body := range bodies {
		var err error
		confirms[i], err = ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, Body: body,
		})
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	for _, c := range confirms {
		if acked, err := c.WaitContext(ctx); err != nil || !acked {
			return errors.Join(errors.New("publish: not confirmed"), err)
		}
	}
	return nil
}

// Put publishes the messages and waits for the confirmation of the last.
func (q *queues) Put(ctx context.Context, list []peer.Message) error {
	bodies := make([][]byte, len(list))
	for i, m := range list {
		var err error
		if bodies[i], err = json.Marshal(m); err != nil {
			return err
		}
	}
	return publishAll(ctx, q.publish, mainQueue(q.settings), bodies...)
}

// Left takes everything off the queues. The delay queue is first: what leaves it
// by itself is found on the other.
func (q *queues) Left(context.Context) (left peer.Left, err error) {
	for _, name := range []string{delayQueue(q.settings), mainQueue(q.settings)} {
		for {
			d, ok, err := q.publish.Get(name, true)
			if err != nil {
				return left, fmt.Errorf("get from queue: %w", err)
			}
			if !ok {
				break
			}
			var m peer.Message
			if err := json.Unmarshal(d.Body, &m); err != nil {
				return left, fmt.Errorf("decode message: %w", err)
			}
			left.Waiting = append(left.Waiting, m.ID)
		}
	}
	return left, nil
}

// Remove deletes the queues and the buckets.
func (q *queues) Remove(ctx context.Context) error {
	var faults []error
	for _, name := range []string{mainQueue(q.settings), delayQueue(q.settings)} {
		_, err := q.publish.QueueDelete(name, false, false, false)
		faults = append(faults, err)
	}
	client, err := keys.Open(q.settings.RedisURL)
	if err == nil {
		err = errors.Join(keys.Remove(ctx, client, "rate:"+q.settings.Namespace+":*"), client.Close())
	}
	return errors.Join(append(faults, err, q.conn.Close())...)
}
