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
	// rescuePrefetch is how many messages can come to a lane between the last
	// look and its end, and be saved: there are none unless the broker is slow.
	rescuePrefetch = 1000
	// resourceLocked is RabbitMQ's reply when another connection has the lock.
	resourceLocked = 405
)

// Declare makes a lane, or another queue that is not of the topology, unless it
// exists: see queue.Broker. It waits while somebody declares or deletes the
// same one.
func (b *Broker) Declare(ctx context.Context, spec queue.Spec) error {
	if spec.Delay > 0 {
		return fmt.Errorf("declare %q: %w: delay %s, want none", spec.Name, queue.ErrInvalid, spec.Delay)
	}
	return b.changeLane(ctx, "declare", spec.Name, func(_ *session, ch *amqp.Channel) error {
		if err := declareSpec(ch, spec, false); err != nil {
			return err
		}
		return b.bind(ch, spec.Name)
	})
}

// bind makes a lane reachable.
func (b *Broker) bind(ch *amqp.Channel, name string) error {
	return ch.QueueBind(name, name, b.cfg.Topology.Lanes(), false, nil)
}

// Delete removes a lane: see queue.Broker. A lane whose messages are all in the
// hands of cancelled subscriptions looks empty.
//
// Quorum queues cannot be deleted on the condition that they are empty, and
// RabbitMQ confirms what is published to a queue while it is deleted (tried on
// 3.10: 1 in 40 was lost, and half the collisions ended the publisher's
// connection). So a lane is first unbound from the exchange that publishers
// use: they learn that it does not exist. What was on its way there is seen by a
// look some time later, and what is later still by a consumer; it is published
// again on the lane declared anew. All that holds a lock against Declare.
func (b *Broker) Delete(ctx context.Context, name string) error {
	if b.ours[name] {
		return fmt.Errorf("delete %q, a queue of the topology: %w", name, queue.ErrInUse)
	}
	var saved []queue.Message
	err := b.changeLane(ctx, "delete", name, func(s *session, ch *amqp.Channel) error {
		var err error
		saved, err = b.deleteUnused(s, ch, name)
		if is(err, amqp.NotFound) {
			return nil
		}
		return err
	})
	if len(saved) == 0 {
		return err
	}
	if err := b.restore(ctx, name, saved); err != nil {
		b.cfg.Log.Error("messages lost with their lane", "queue", name, "messages", len(saved), "err", err)
		return fmt.Errorf("delete %q: restore %d messages: %w", name, len(saved), err)
	}
	return fmt.Errorf("delete %q: %w", name, queue.ErrInUse)
}

// deleteUnused deletes a lane without messages and consumers, and returns what
// came to it meanwhile.
func (b *Broker) deleteUnused(s *session, ch *amqp.Channel, name string) ([]queue.Message, error) {
	if err := lookUnused(ch, name); err != nil {
		return nil, err
	}
	if err := ch.QueueUnbind(name, name, b.cfg.Topology.Lanes(), nil); err != nil {
		return nil, err
	}
	select {
	case <-time.After(unboundRest):
	case <-s.lost:
		return nil, s.cause
	}
	if err := lookUnused(ch, name); err != nil {
		return nil, errors.Join(err, b.bind(ch, name))
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

func lookUnused(ch *amqp.Channel, name string) error {
	info, err := look(ch, name)
	if err == nil && info != (queue.Info{}) {
		err = queue.ErrInUse
	}
	return err
}

// restore makes a lane again for messages that were confirmed: it does not end
// with the caller's context.
func (b *Broker) restore(ctx context.Context, name string, saved []queue.Message) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := b.Declare(ctx, b.cfg.Topology.LaneSpec(name)); err != nil {
		return err
	}
	return b.Publish(ctx, saved...)
}

// changeLane has something done to a lane, on a channel of its own, until the
// broker has done it, says that it never will, or ctx ends.
func (b *Broker) changeLane(ctx context.Context, what, name string, do func(*session, *amqp.Channel) error) error {
	if err := b.admit(what, name); err != nil {
		return err
	}
	defer b.calls.Done()
	for failures := 1; ; failures++ {
		err := b.tryLane(ctx, name, do)
		switch {
		case err == nil:
			return nil
		case is(err, amqp.PreconditionFailed):
			return fmt.Errorf("%s %q: %w: %w", what, name, errOtherArguments, err)
		case errors.Is(err, queue.ErrInUse), errors.Is(err, queue.ErrClosed), is(err, amqp.AccessRefused):
			return fmt.Errorf("%s %q: %w", what, name, err)
		}
		if is(err, resourceLocked) {
			failures = 1 // the next try need not be later than the last
			err = fmt.Errorf("%w: %w", queue.ErrLocked, err)
		}
		select {
		case <-time.After(pauseAfter(failures)):
		case <-b.closing: // the next try says so
		case <-ctx.Done():
			return fmt.Errorf("%s %q: %w: %w", what, name, queue.ErrUnavailable, errors.Join(context.Cause(ctx), err))
		}
	}
}

// tryLane does something to a lane that nobody else changes meanwhile. When ctx
// ends it returns, and what was begun goes on.
func (b *Broker) tryLane(ctx context.Context, name string, do func(*session, *amqp.Channel) error) error {
	s, err := b.consuming.session(ctx, b.closing)
	if err != nil {
		return err
	}
	release, err := b.holdLane(ctx, name)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	b.calls.Go(func() { // ends with the session at the latest
		defer release()
		done <- s.locked(name, do)
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// holdLane keeps a lane from this program's other calls, which are on the same
// connection and so not kept off by the lock.
func (b *Broker) holdLane(ctx context.Context, name string) (release func(), err error) {
	for {
		b.mu.Lock()
		held, busy := b.lanes[name]
		if !busy {
			held = make(chan struct{})
			b.lanes[name] = held
		}
		b.mu.Unlock()
		if !busy {
			return func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				delete(b.lanes, name)
				close(held)
			}, nil
		}
		select {
		case <-held:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// locked does something while this connection alone holds the lock of a lane,
// which is an exclusive queue: a program that is killed takes it with it. When
// another connection has it, the error is 405, resource locked.
func (s *session) locked(name string, do func(*session, *amqp.Channel) error) error {
	ch, err := s.conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	defer func() { _ = ch.Close() }() // gives back what was delivered, if the queue is there
	lock, err := ch.QueueDeclare(name+".lock", false, true, true, false, nil)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	err = do(s, ch)
	if ch.IsClosed() { // by an error of do
		if ch, err := s.conn.Channel(); err == nil {
			defer func() { _ = ch.Close() }()
			_, _ = ch.QueueDelete(lock.Name, false, false, false)
		}
		return err
	}
	_, unlockErr := ch.QueueDelete(lock.Name, false, false, false)
	return errors.Join(err, unlockErr)
}
