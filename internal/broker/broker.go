// Package broker gives a program its connection to RabbitMQ as the settings say,
// and ends it in its turn.
package broker

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/service"
)

// Open connects the program, or the part of one, of a name. It returns before
// the broker has answered; the caller must close what it gets.
func Open(s service.BrokerSettings, name string, log *slog.Logger, reg prometheus.Registerer) (*rabbit.Broker, error) {
	return rabbit.Open(rabbit.Config{
		URLs: s.URLs(), Topology: Topology(s.QueueSettings), Name: "chatclub " + name, Log: log, Registerer: reg,
	})
}

// Topology is the queues that the settings name.
func Topology(s service.QueueSettings) queue.Topology {
	return queue.Topology{Prefix: s.Prefix, Lanes: s.Lanes}
}

// Actor closes b when its turn comes. It belongs behind all that use b.
func Actor(b queue.Broker) service.Actor {
	return service.Actor{Name: "broker", Run: func(ctx context.Context) error {
		<-ctx.Done()
		if err := b.Close(); err != nil {
			return fmt.Errorf("close broker: %w", err)
		}
		return nil
	}}
}
