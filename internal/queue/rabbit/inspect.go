package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

// inspector asks the broker about queues, one question at a time, on a channel that it
// keeps: opening one costs three times as much as the question. The zero value has none.
type inspector struct {
	mu sync.Mutex // held until the broker answers
	ch *amqp.Channel
}

// ask declares the queue passively, on a new channel when the last question ended the
// old one. It ends with the connection at the latest.
func (i *inspector) ask(ctx context.Context, conn *amqp.Connection, name string) (queue.Info, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if ctx.Err() != nil { // nobody waits for the answer any more
		return queue.Info{}, context.Cause(ctx)
	}
	if i.ch == nil || i.ch.IsClosed() {
		ch, err := conn.Channel()
		if err != nil {
			return queue.Info{}, fmt.Errorf("open channel: %w", err)
		}
		i.ch = ch
	}
	q, err := i.ch.QueueDeclarePassive(name, true, false, false, false, nil)
	return queue.Info{Ready: q.Messages, Consumers: q.Consumers}, err
}

// Inspect asks the broker for the state of a queue. It waits for a lost broker
// until ctx ends.
func (b *Broker) Inspect(ctx context.Context, name string) (queue.Info, error) {
	if name == "" || len(name) > queue.MaxName {
		return queue.Info{}, fmt.Errorf("inspect: queue name has %d bytes, want 1 to %d", len(name), queue.MaxName)
	}
	if !b.enter() {
		return queue.Info{}, fmt.Errorf("inspect %q: %w", name, queue.ErrClosed)
	}
	defer b.calls.Done()
	info, err := b.ask(ctx, name)
	switch {
	case err == nil:
		return info, nil
	case is(err, amqp.NotFound):
		err = queue.ErrUnroutable
	case !errors.Is(err, queue.ErrClosed):
		err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	return queue.Info{}, fmt.Errorf("inspect %q: %w", name, err)
}

// ask asks on the consuming session. A question whose caller is gone goes on.
func (b *Broker) ask(ctx context.Context, name string) (queue.Info, error) {
	s, err := b.consuming.session(ctx, b.closing)
	if err != nil {
		return queue.Info{}, err
	}
	var info queue.Info
	answered := make(chan error, 1)
	b.calls.Go(func() {
		i, err := s.inspector.ask(ctx, s.conn, name)
		info = i
		answered <- err
	})
	select {
	case err := <-answered:
		return info, err
	case <-ctx.Done():
		return queue.Info{}, context.Cause(ctx)
	}
}

// Heal returns the command that heals a queue which RabbitMQ 4.3 delivers to a consumer
// that is gone. It ends the process that keeps the queue on its leader's node; RabbitMQ starts
// that again, and nothing is lost. The first time RabbitMQ takes back what the consumer had,
// but elects it again one day. The second time it has nothing, and is removed.
func (b *Broker) Heal(name string) string {
	host := "/"
	if u, err := amqp.ParseURI(b.cfg.URLs[0]); err == nil {
		host = u.Vhost
	}
	process := host + "_" + name
	if host == "/" {
		process = "%2F_" + name
	}
	return fmt.Sprintf(`twice, 10 s apart, on the queue's leader: rabbitmqctl eval 'exit(whereis(list_to_existing_atom(%q)), kill).'`, process)
}
