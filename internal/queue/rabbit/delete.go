package rabbit

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

// Delete deletes every queue of a topology, with what is on it, and returns
// the broker's name and version. Queues that do not exist are no error. It is
// for load tests, which leave nothing behind; a deployment never calls it.
func Delete(ctx context.Context, amqpURL string, top queue.Topology) (version string, err error) {
	conn, raw, err := dial(ctx, amqpURL, "chatclub delete queues", DefaultHeartbeat)
	if err != nil {
		return "", fmt.Errorf("delete queues: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	defer func() { err = errors.Join(err, conn.Close()) }()
	version = fmt.Sprintf("%v %v", conn.Properties["product"], conn.Properties["version"])
	ch, err := conn.Channel()
	if err != nil {
		return version, fmt.Errorf("delete queues: %w", err)
	}
	for _, s := range top.Specs() {
		_, err := ch.QueueDelete(s.Name, false, false, false)
		if is(err, amqp.NotFound) {
			continue
		}
		if err != nil {
			return version, fmt.Errorf("delete queue %q: %w", s.Name, err)
		}
	}
	return version, nil
}
