package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"chatclub/internal/app"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/replicas"
	"chatclub/internal/service"
)

// coreSettings say where the cores' admin ports are.
type coreSettings struct {
	Core       []string       `env:"CORE" doc:"Admin addresses of the cores, such as http://core:9090, with commas between them. A name stands for all its IPv4 addresses, or else IPv6 ones. One that answers is enough."`
	AdminToken service.Secret `env:"ADMIN_TOKEN" doc:"Token of the admin ports; empty: none."`
}

// Validate names every fault.
func (s coreSettings) Validate() error {
	return errors.Join(service.CheckHTTPURLs("CORE", s.Core), service.CheckToken("ADMIN_TOKEN", s.AdminToken))
}

// adminSettings say where the admin ports are of those who know about pages.
type adminSettings struct {
	Dispatchers []string `env:"DISPATCHERS" doc:"Admin addresses of the dispatchers, such as http://dispatcher:9090, with commas between them. A name stands for all its IPv4 addresses, or else IPv6 ones."`
	coreSettings
}

// Validate names every fault.
func (s adminSettings) Validate() error {
	return errors.Join(service.CheckHTTPURLs("DISPATCHERS", s.Dispatchers), s.coreSettings.Validate())
}

// brokerSettings say where RabbitMQ is, for a command that can do without.
type brokerSettings struct {
	AMQPURL service.Secret `env:"AMQP_URL" doc:"Addresses of RabbitMQ, as the programs have them; empty: nothing is said about queues."`
	app.QueueSettings
}

func (s brokerSettings) broker() app.BrokerSettings {
	return app.BrokerSettings{AMQPURL: s.AMQPURL, QueueSettings: s.QueueSettings}
}

// Validate names every fault.
func (s brokerSettings) Validate() error {
	if s.AMQPURL == "" {
		return s.QueueSettings.Validate()
	}
	return s.broker().Validate()
}

// openBroker connects to a broker and declares nothing: queues that are missing stay
// so.
func (t tool) openBroker(s app.BrokerSettings) (*rabbit.Broker, error) {
	log, _ := service.NewLogger(service.LogSettings{Level: slog.LevelWarn}, t.stderr)
	return rabbit.Open(rabbit.Config{URLs: s.URLs(), Topology: s.Topology(), Name: "chatclubctl", Log: log, Passive: true})
}

// askTimeout bounds one request.
const askTimeout = 10 * time.Second

// fleet finds the replicas.
func (s adminSettings) fleet(ctx context.Context) replicas.Fleet {
	f := s.coreSettings.fleet(ctx)
	f.Dispatchers = find(ctx, s.Dispatchers)
	return f
}

// fleet finds the cores.
func (s coreSettings) fleet(ctx context.Context) replicas.Fleet {
	return replicas.Fleet{
		Client: replicas.Client{HTTP: &http.Client{Timeout: askTimeout}, Token: s.AdminToken.Reveal()}, Core: find(ctx, s.Core),
	}
}

func find(ctx context.Context, addresses []string) []replicas.Replica {
	r := replicas.Resolver{Addresses: addresses}
	return r.Replicas(ctx)
}
