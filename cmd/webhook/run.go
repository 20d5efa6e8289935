package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/broker"
	"chatclub/internal/queue"
	"chatclub/internal/service"
	"chatclub/internal/webhook"
)

const (
	// requestTimeout bounds the reading of a request: Messenger gives up after
	// 5 s, so that what comes later is of no use to anybody.
	requestTimeout = 5 * time.Second
	// answerTimeout is for writing an answer of a few bytes.
	answerTimeout = 5 * time.Second
)

// program is the webhook with what it needs from outside.
type program struct {
	settings service.WebhookSettings
	broker   queue.Broker
	registry *prometheus.Registry
	log      *slog.Logger
	bound    func(httpAddr, adminAddr string) // told once both listen; may be nil
}

// run serves until ctx ends. Shutdown: no more requests, those in flight are
// answered within SHUTDOWN_TIMEOUT, then the broker's connection is closed,
// then the admin server.
func (p program) run(ctx context.Context) error {
	s := p.settings
	handler, err := webhook.New(webhook.Config{
		Broker:         p.broker,
		Topology:       p.broker.Topology(),
		AppSecret:      []byte(s.AppSecret.Reveal()),
		VerifyToken:    s.VerifyToken.Reveal(),
		MaxInFlight:    s.MaxInFlight,
		PublishTimeout: s.PublishTimeout,
		Registerer:     p.registry,
		Log:            p.log,
	})
	if err != nil {
		return err
	}
	admin := service.NewAdmin(service.AdminConfig{
		Addr: s.Admin.Addr, Registry: p.registry, PProf: s.Admin.PProf, Log: p.log,
		Ready: service.ReadyUntil(ctx, func(context.Context) error { return p.broker.Ready() }),
	})
	if err := admin.Listen(); err != nil {
		return err
	}
	listener, err := service.Listen(ctx, s.HTTPAddr)
	if err != nil {
		return errors.Join(err, admin.Close())
	}
	p.log.InfoContext(ctx, "webhook listens", "addr", listener.Addr().String())
	if p.bound != nil {
		p.bound(listener.Addr().String(), admin.Addr())
	}
	return service.Run(ctx, p.log,
		service.Actor{Name: "http", Run: func(ctx context.Context) error { return p.serve(ctx, handler, listener) }},
		broker.Actor(p.broker),
		admin.Actor(),
	)
}

// serve serves /webhook on l; every other address is 404.
func (p program) serve(ctx context.Context, h http.Handler, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("/webhook", h)
	srv := service.NewHTTPServer(mux, p.log)
	srv.ReadTimeout = requestTimeout
	srv.WriteTimeout = requestTimeout + p.settings.PublishTimeout + answerTimeout
	return service.ServeHTTP(ctx, srv, l, p.settings.ShutdownTimeout)
}
