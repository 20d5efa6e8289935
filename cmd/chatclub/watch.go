package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"chatclub/internal/app"
	"chatclub/internal/console"
	"chatclub/internal/deadletter"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/replicas"
	"chatclub/internal/service"
)

// watchSettings are those of `chatclub watch`, which serves the page beside a
// deployment.
type watchSettings struct {
	HTTPAddr   string         `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080" doc:"Address of the page; port 0 takes a free one. All who reach it see what the admin ports tell."`
	HTTPHosts  []string       `env:"HTTP_HOSTS" doc:"Names under which browsers reach the page, such as chat.example behind a proxy, with commas between them, beside addresses, names without a dot, and the one in HTTP_ADDR. Requests under others are refused."`
	Dispatcher []string       `env:"DISPATCHERS,required" doc:"Admin addresses of the dispatchers, such as http://dispatcher:9090, with commas between them. A name stands for all its IPv4 addresses, or else IPv6 ones."`
	Core       []string       `env:"CORE" doc:"Admin addresses of the cores, in the same form. They take the page's orders; empty: dispatchers do."`
	Webhook    []string       `env:"WEBHOOK" doc:"Admin addresses of the webhooks, in the same form, to show whether they are ready; empty: they are not asked."`
	AdminToken service.Secret `env:"ADMIN_TOKEN" doc:"Token of the admin ports, and password of the page. With it the page pauses and resumes pages, and replays and purges dead letters. Empty: everybody is let in, and the page only shows."`
	AMQPURL    service.Secret `env:"AMQP_URL" doc:"Addresses of RabbitMQ, as the programs have them; empty: neither its state nor dead letters are shown."`
	app.QueueSettings
	service.LogSettings
}

// About says what the program does.
func (watchSettings) About() string {
	return "chatclub watch serves a page that shows what the dispatchers of a deployment do, and how RabbitMQ and the other programs are."
}

// Validate names every fault.
func (s watchSettings) Validate() error {
	return errors.Join(
		service.CheckAddr("HTTP_ADDR", s.HTTPAddr),
		service.CheckToken("ADMIN_TOKEN", s.AdminToken),
		service.CheckHTTPURLs("DISPATCHERS", s.Dispatcher),
		service.CheckHTTPURLs("CORE", s.Core),
		service.CheckHTTPURLs("WEBHOOK", s.Webhook),
		s.checkBroker(),
	)
}

func (s watchSettings) broker() app.BrokerSettings {
	return app.BrokerSettings{AMQPURL: s.AMQPURL, QueueSettings: s.QueueSettings}
}

func (s watchSettings) checkBroker() error {
	if s.AMQPURL == "" {
		return s.QueueSettings.Validate()
	}
	return s.broker().Validate()
}

// watchEvery is the period of the questions to the dispatchers.
const watchEvery = time.Second

// serve serves the page until ctx ends.
func (s watchSettings) serve(ctx context.Context, stdout, stderr io.Writer) (err error) {
	log, _ := service.NewLogger(s.LogSettings, stderr)
	cfg := console.Config{
		Replicas: console.Behind(&replicas.Resolver{Addresses: s.Dispatcher}), Token: s.AdminToken.Reveal(), Every: watchEvery, Log: log,
	}
	if len(s.Core) > 0 {
		cfg.Core = console.Behind(&replicas.Resolver{Addresses: s.Core})
	}
	if len(s.Webhook) > 0 {
		cfg.Webhook = console.Behind(&replicas.Resolver{Addresses: s.Webhook})
	}
	if s.AMQPURL != "" {
		broker, err := s.open(log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, broker.Close()) }()
		cfg.Broker, cfg.Dead = broker, &deadletter.Queue{Broker: broker, Now: time.Now}
	}
	page, err := console.New(cfg)
	if err != nil {
		return err
	}
	ln, err := service.Listen(ctx, s.HTTPAddr)
	if err != nil {
		return fmt.Errorf("HTTP_ADDR: %w", err)
	}
	fmt.Fprintf(stdout, "chatclub watches: open http://%s\n", ln.Addr())
	return service.Run(ctx, log,
		service.Actor{Name: "console", Run: page.Run},
		service.Actor{Name: "page", Run: func(ctx context.Context) error {
			return servePage(ctx, ln, page, append(s.HTTPHosts, hostOf(s.HTTPAddr)), log)
		}})
}

// open connects to RabbitMQ. Nothing is declared: queues that are missing stay so.
func (s watchSettings) open(log *slog.Logger) (*rabbit.Broker, error) {
	b := s.broker()
	return rabbit.Open(rabbit.Config{URLs: b.URLs(), Topology: b.Topology(), Name: "chatclub watch", Log: log, Passive: true})
}
