package rabbit

import (
	"context"
	"errors"
	"fmt"

	"chatclub/internal/queue"
)

// Version returns the broker's name and version. It does not wait for a broker.
func Version(ctx context.Context, amqpURL string) (version string, err error) {
	conn, raw, err := dial(ctx, amqpURL, "chatclub version", DefaultHeartbeat)
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	return fmt.Sprintf("%v %v", conn.Properties["product"], conn.Properties["version"]), conn.Close()
}

// Delete deletes every queue and exchange of a topology, with what is on them. What does
// not exist is no error. It is for tests and the quick start, which leave nothing behind;
// a deployment never calls it.
func Delete(ctx context.Context, amqpURL string, top queue.Topology) (err error) {
	conn, raw, err := dial(ctx, amqpURL, "chatclub delete queues", DefaultHeartbeat)
	if err != nil {
		return fmt.Errorf("delete queues: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	defer func() { err = errors.Join(err, conn.Close()) }()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("delete queues: %w", err)
	}
	for _, s := range top.Specs() {
		if s.Delay > 0 {
			if err := ch.ExchangeDelete(s.Name, false, false); err != nil {
				return fmt.Errorf("delete exchange %q: %w", s.Name, err)
			}
		}
		if _, err := ch.QueueDelete(s.Name, false, false, false); err != nil {
			return fmt.Errorf("delete queue %q: %w", s.Name, err)
		}
	}
	return nil
}
