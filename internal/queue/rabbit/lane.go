package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

const (
	// unboundRest is how long a lane that takes no new messages rests before it
	// is deleted. What RabbitMQ routed to it before is there by then, within
	// milliseconds on a healthy broker.
	unboundRest = 200 * time.Millisecond
	// rescuePrefetch is how many messages can come to a lane between the look and its
	// end, and be saved: there are none unless the broker is slow.
	rescuePrefetch = 1000
	// rescueTime is how long they are published for: they were confirmed, and the broker
	// may be lost at that moment.
	rescueTime = time.Minute
)

// Declare makes a lane, or another queue that is not of the topology, unless it
// exists: see queue.Broker.
func (b *Broker) Declare(ctx context.Context, spec queue.Spec) error {
	if spec.Delay > 0 {
		return fmt.Errorf("declare %q: %w: delay %s, want none", spec.Name, queue.ErrInvalid, spec.Delay)
	}
	return b.changeLane(ctx, "declare", spec.Name, func(_ *session, ch *amqp.Channel) error {
		if err := declareSpec(ch, spec, false); err != nil {
			return err
		}
		return ch.QueueBind(spec.Name, spec.Name, b.cfg.Topology.Lanes(), false, nil)
	})
}

// Delete removes a lane: see queue.Broker. A lane whose messages are all in the
// hands of cancelled subscriptions looks empty.
//
// Quorum queues cannot be deleted on the condition that they are empty, and
// RabbitMQ confirms what is published to a queue while it is deleted (tried on
// 3.10: 1 in 40 was lost, and half the collisions ended the publisher's
// connection). So a lane is first unbound from the exchange that publishers
// use: they learn that it does not exist. What was on its way there is seen by a
// look some time later, and what is later still by a consumer.
func (b *Broker) Delete(ctx context.Context, name, rescue string) error {
	if b.ours[name] {
		return fmt.Errorf("delete %q, a queue of the topology: %w", name, queue.ErrInUse)
	}
	return b.changeLane(ctx, "delete", name, func(s *session, ch *amqp.Channel) error {
		saved, err := b.deleteUnused(s, ch, name)
		if len(saved) > 0 {
			err = errors.Join(err, b.rescue(ctx, name, rescue, saved))
		}
		return err
	})
}

// deleteUnused deletes a lane without messages and consumers, and returns what
// came to it meanwhile.
func (b *Broker) deleteUnused(s *session, ch *amqp.Channel, name string) ([]queue.Message, error) {
	if err := ch.QueueUnbind(name, name, b.cfg.Topology.Lanes(), nil); err != nil {
		return nil, fmt.Errorf("unbind: %w", err)
	}
	select {
	case <-time.After(unboundRest):
	case <-s.lost:
		return nil, s.cause
	}
	switch info, err := look(ch, name); {
	case is(err, amqp.NotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case info != queue.Info{}:
		return nil, queue.ErrInUse
	}
	if err := ch.Qos(rescuePrefetch, 0, false); err != nil {
		return nil, err
	}
	in, err := ch.Consume(name, consumerTag, false, false, false, false, nil)
	if err != nil {
		return nil, err
	}
	if _, err := ch.QueueDelete(name, false, false, false); err != nil {
		return nil, err
	}
	var saved []queue.Message
	for {
		select {
		case d, ok := <-in: // ends with the broker's word that the queue is gone
			if !ok {
				return saved, nil
			}
			saved = append(saved, received(name, d))
		case <-time.After(closeTimeout):
			return saved, errors.New("the broker does not cancel the consumer of a deleted queue")
		}
	}
}

// rescue publishes what was confirmed on a lane that is gone: that does not end with
// the caller's context.
func (b *Broker) rescue(ctx context.Context, name, rescue string, saved []queue.Message) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rescueTime)
	defer cancel()
	for i := range saved {
		saved[i].Queue = rescue
	}
	err := b.Publish(ctx, saved...)
	if err != nil {
		b.cfg.Log.Error("messages lost with their lane", "queue", name, "messages", len(saved), "err", err)
	}
	return err
}

// changeLane has something done to a lane, on a channel of its own, until the
// broker has done it, says that it never will, or ctx ends. What was begun then goes
// on.
func (b *Broker) changeLane(ctx context.Context, what, name string, do func(*session, *amqp.Channel) error) error {
	if err := b.admit(what, name); err != nil {
		return err
	}
	defer b.calls.Done()
	for failures := 1; ; failures++ {
		err := b.tryLane(ctx, do)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, queue.ErrInUse), errors.Is(err, queue.ErrClosed), isRefusal(err):
			return fmt.Errorf("%s %q: %w", what, name, explain(err))
		}
		select {
		case <-time.After(pauseAfter(failures)):
		case <-b.closing: // the next try says so
		case <-ctx.Done():
			return fmt.Errorf("%s %q: %w: %w", what, name, queue.ErrUnavailable, errors.Join(context.Cause(ctx), err))
		}
	}
}

// tryLane does something to a lane once.
func (b *Broker) tryLane(ctx context.Context, do func(*session, *amqp.Channel) error) error {
	s, err := b.consuming.session(ctx, b.closing)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	b.calls.Go(func() { // ends with the session at the latest
		ch, err := s.conn.Channel()
		if err != nil {
			done <- fmt.Errorf("open channel: %w", err)
			return
		}
		defer func() { _ = ch.Close() }() // gives back what was delivered, if the queue is there
		done <- do(s, ch)
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
