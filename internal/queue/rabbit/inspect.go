package rabbit

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

// inspector asks the broker about queues, one question at a time, on a channel
// that it keeps: opening one costs three times as much as the question. Its
// goroutine alone uses the channel, so callers can be freed by their contexts.
type inspector struct {
	session *session
	in      chan question
}

type question struct {
	queue  string
	answer chan answer // buffered, so that the inspector never waits
}

type answer struct {
	info queue.Info
	err  error
}

// newInspector starts an inspector on s.
func newInspector(s *session) *inspector {
	i := &inspector{session: s, in: make(chan question)}
	s.workers.Go(i.run)
	return i
}

func (i *inspector) run() {
	var ch *amqp.Channel
	for {
		select {
		case q := <-i.in:
			var a answer
			a.info, a.err = i.ask(&ch, q.queue)
			q.answer <- a
		case <-i.session.lost:
			return
		}
	}
}

// ask declares the queue passively, on a new channel when the last question
// ended the old one.
func (i *inspector) ask(ch **amqp.Channel, name string) (queue.Info, error) {
	if *ch == nil || (*ch).IsClosed() {
		c, err := i.session.conn.Channel()
		if err != nil {
			return queue.Info{}, fmt.Errorf("open channel: %w", err)
		}
		*ch = c
	}
	return look(*ch, name)
}

// look asks for the state of a queue.
func look(ch *amqp.Channel, name string) (queue.Info, error) {
	q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	if err != nil {
		return queue.Info{}, err
	}
	return queue.Info{Ready: q.Messages, Consumers: q.Consumers}, nil
}

// Inspect asks the broker for the state of a queue. It waits for a lost broker
// until ctx ends.
func (b *Broker) Inspect(ctx context.Context, name string) (queue.Info, error) {
	if err := b.admit("inspect", name); err != nil {
		return queue.Info{}, err
	}
	defer b.calls.Done()
	a, err := b.ask(ctx, name)
	switch {
	case err == nil:
		return a, nil
	case is(err, amqp.NotFound):
		err = queue.ErrUnroutable
	case !errors.Is(err, queue.ErrClosed):
		err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	return queue.Info{}, fmt.Errorf("inspect %q: %w", name, err)
}

func (b *Broker) ask(ctx context.Context, name string) (queue.Info, error) {
	s, err := b.consuming.session(ctx, b.closing)
	if err != nil {
		return queue.Info{}, err
	}
	q := question{queue: name, answer: make(chan answer, 1)}
	select {
	case s.inspector.in <- q:
	case <-s.lost:
		return queue.Info{}, s.cause
	case <-ctx.Done():
		return queue.Info{}, context.Cause(ctx)
	}
	select {
	case a := <-q.answer: // comes when the session is lost, too
		return a.info, a.err
	case <-ctx.Done():
		return queue.Info{}, context.Cause(ctx)
	}
}
