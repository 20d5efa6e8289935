package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"chatclub/internal/service"
	"chatclub/internal/webhook"
)

const (
	// messengerDeadline is the time that Messenger waits for a webhook's answer.
	messengerDeadline = 5 * time.Second
	// requestTimeout bounds the reading of a request. A request that comes later than
	// Messenger's deadline is of no use.
	requestTimeout = messengerDeadline
	// leastConnections are those of webhook's HTTP server at most, or twice MAX_IN_FLIGHT:
	// a proxy keeps some that have no request.
	leastConnections = 4096
	// answerTimeout is for writing an answer of a few bytes.
	answerTimeout = 5 * time.Second
)

// WebhookSettings are those of cmd/webhook.
type WebhookSettings struct {
	HTTPAddr        string         `env:"HTTP_ADDR" envDefault:":8080" doc:"Address that serves /webhook; port 0 takes a free one."`
	AppSecret       service.Secret `env:"APP_SECRET,required" doc:"The app's secret, with which Messenger signs events."`
	VerifyToken     service.Secret `env:"VERIFY_TOKEN,required" doc:"The word that Messenger repeats when the webhook is set up."`
	Events          WebhookEvents  `env:"WEBHOOK_EVENTS" envDefault:"core" doc:"Which events are put on inbound: those that core knows, or all, for a bot of your own."`
	DeletionURL     string         `env:"DELETION_URL" doc:"Public address of webhook's /deletion, such as https://chat.example/deletion, where Meta reports users who want their data deleted; empty: nothing is served there."`
	MaxInFlight     int            `env:"MAX_IN_FLIGHT" envDefault:"512" doc:"Requests of Messenger's handled at a time; more are answered 503. As many bodies, 64 at least, are read at a time: one more ends the reading of the oldest. All bodies together take as many MiB, each 16 at most; more are answered 503."`
	PublishTimeout  time.Duration  `env:"PUBLISH_TIMEOUT" envDefault:"3s" doc:"How long the broker may take to confirm before the answer is 503; Messenger waits 5 s."`
	ShutdownTimeout time.Duration  `env:"SHUTDOWN_TIMEOUT" envDefault:"20s" doc:"How long requests in flight may take when the program is stopped."`
	ProgramSettings
}

// About says what the program does.
func (WebhookSettings) About() string {
	return "webhook receives Messenger's events, checks their signature and puts them on the inbound partitions."
}

// Validate names every fault.
func (s WebhookSettings) Validate() error {
	return errors.Join(
		service.CheckAddr("HTTP_ADDR", s.HTTPAddr),
		service.CheckSet("APP_SECRET", s.AppSecret),
		service.CheckSet("VERIFY_TOKEN", s.VerifyToken),
		checkOptionalURL("DELETION_URL", s.DeletionURL),
		service.CheckRange("MAX_IN_FLIGHT", s.MaxInFlight, 1, 65536),
		service.CheckDuration("PUBLISH_TIMEOUT", s.PublishTimeout, 10*time.Millisecond, messengerDeadline-time.Millisecond),
		service.CheckDuration("SHUTDOWN_TIMEOUT", s.ShutdownTimeout, time.Millisecond, maxShutdown),
	)
}

// WebhookEvents is core or all.
type WebhookEvents string

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *WebhookEvents) UnmarshalText(b []byte) error {
	if *e = WebhookEvents(b); *e != "core" && *e != "all" {
		return fmt.Errorf("%.40q is not %s", b, e.Describe())
	}
	return nil
}

// Describe lists the values.
func (WebhookEvents) Describe() string { return "core or all" }

// WebhookConfig is the configuration of NewWebhook.
type WebhookConfig struct {
	Settings WebhookSettings
	Options
}

// NewWebhook wires webhook. Its shutdown: no more requests, those in flight are
// answered within SHUTDOWN_TIMEOUT, then the broker's connection is closed, then
// the admin server.
func NewWebhook(ctx context.Context, cfg WebhookConfig) (_ *Program, err error) {
	s := cfg.Settings
	w, err := begin(ctx, "webhook", s.ProgramSettings, cfg.Options)
	if err != nil {
		return nil, err
	}
	defer w.undo(&err)
	service.LogStart(ctx, w.Log, s)
	handler, err := webhook.New(webhook.Config{
		Broker:         w.Broker,
		Topology:       w.Broker.Topology(),
		AppSecret:      []byte(s.AppSecret.Reveal()),
		VerifyToken:    s.VerifyToken.Reveal(),
		All:            s.Events == "all",
		DeletionURL:    s.DeletionURL,
		MaxInFlight:    s.MaxInFlight,
		PublishTimeout: s.PublishTimeout,
		Registerer:     w.metrics,
		Log:            w.Log,
		Tracer:         w.trace,
	})
	if err != nil {
		return nil, err
	}
	w.ready, w.still = func(context.Context) error { return w.Broker.Ready() }, handler.SinceTurn

	if w.http, err = service.Listen(ctx, s.HTTPAddr); err != nil {
		return nil, err
	}
	w.onClose(w.http.Close)
	w.Log.InfoContext(ctx, "webhook listens", "addr", w.http.Addr().String())
	mux := http.NewServeMux() // every other path is 404
	mux.Handle("/webhook", handler)
	if s.DeletionURL != "" {
		mux.Handle("/deletion", handler.Deletions())
	}
	server := service.NewHTTPServer(mux, w.Log)
	server.ReadTimeout = requestTimeout
	server.WriteTimeout = requestTimeout + s.PublishTimeout + answerTimeout
	bounded := service.Bound(server, w.http, service.FileShare(max(leastConnections, 2*s.MaxInFlight)), w.Log)
	w.add("http", func(ctx context.Context) error {
		return service.ServeHTTP(ctx, server, bounded, s.ShutdownTimeout)
	})
	return w.finish(ctx)
}
