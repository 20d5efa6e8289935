package rabbit

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

// errOtherArguments says that a queue of our name exists and is not ours.
var errOtherArguments = errors.New("the queue exists with other arguments: change QUEUE_PREFIX or delete the queue")

// declare makes the queues of the topology on s.
func (b *Broker) declare(s *session) error {
	b.declaring <- struct{}{} // the holder of the place ends with its session at the latest
	defer func() { <-b.declaring }()
	return declare(s.conn, b.cfg.Topology)
}

// declareAgain makes in the background what somebody has deleted, unless that
// is being done.
func (b *Broker) declareAgain(s *session) {
	select {
	case b.declaring <- struct{}{}:
	default:
		return
	}
	b.cfg.Log.Warn("a queue is missing; declaring all of them again")
	b.calls.Go(func() {
		defer func() { <-b.declaring }()
		if err := declare(s.conn, b.cfg.Topology); err != nil {
			b.cfg.Log.Warn("declare queues again", "err", err)
		}
	})
}

// declare makes every queue of the topology that does not exist yet. It works
// on a channel of its own, because RabbitMQ answers a refused declaration by
// closing the channel. A passing error, such as 541 from a node that is still
// starting, is returned like any other: the caller tries again.
func declare(conn *amqp.Connection, topology queue.Topology) error {
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel to declare queues: %w", err)
	}
	for _, spec := range topology.Specs() {
		_, err := ch.QueueDeclare(spec.Name, true, false, false, false, arguments(spec))
		if is(err, amqp.PreconditionFailed) {
			return fmt.Errorf("declare queue %q: %w: %w", spec.Name, errOtherArguments, err)
		}
		if err != nil {
			return fmt.Errorf("declare queue %q: %w", spec.Name, err)
		}
	}
	if err := ch.Close(); err != nil {
		return fmt.Errorf("close channel to declare queues: %w", err)
	}
	return nil
}

// arguments are the same on every RabbitMQ from 3.10 to 4.3 and never change
// for a given prefix. There is no x-delivery-limit: its meaning differs by
// version, and nothing is requeued in operation.
func arguments(spec queue.Spec) amqp.Table {
	args := amqp.Table{"x-queue-type": "quorum", "x-overflow": "reject-publish"}
	if spec.DeadLetter != "" {
		// Should RabbitMQ ever drop a message by itself, it goes where an
		// operator looks. At-least-once needs reject-publish.
		args["x-dead-letter-exchange"] = ""
		args["x-dead-letter-routing-key"] = spec.DeadLetter
		args["x-dead-letter-strategy"] = "at-least-once"
	}
	if spec.SingleActive {
		args["x-single-active-consumer"] = true
	}
	return args
}

// is reports whether err is RabbitMQ's reply with that code.
func is(err error, code int) bool {
	var reply *amqp.Error
	return errors.As(err, &reply) && reply.Code == code
}
