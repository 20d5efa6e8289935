// Package fleet runs the system that is put to a test: dispatchers, which join,
// leave and are killed, before a broker and the fake platform; and webhook and
// core where the test goes through the whole. In one process on the memory
// broker (Local), or each as a process of its own on RabbitMQ (Processes). What
// it counts is what the machine and the broker say, never what a dispatcher
// says of its sends.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/app"
	"chatclub/internal/article"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/service"
	"chatclub/loadtest/strategy"
)

// Options of every dispatcher of a run.
type Options struct {
	Strategy  string  `json:"strategy"`
	Replicas  int     `json:"replicas"`        // as configured at the start
	Media     float64 `json:"media,omitempty"` // the same of audio and video; 0: the program's default
	Limit     float64 `json:"limit"`           // text messages per second and page, as the dispatchers are told
	RedisURL  string  `json:"redis_url,omitempty"`
	KeyPrefix string  `json:"key_prefix,omitempty"` // of keys in Redis

	LatencyTarget time.Duration `json:"latency_target,omitempty"`
	MessageTTL    time.Duration `json:"message_ttl,omitempty"`   // default an hour
	MaxInFlight   int           `json:"max_in_flight,omitempty"` // default MaxInFlight; half of it for a strategy's worker
	JoinTexts     int           `json:"join_texts,omitempty"`    // texts in one message at most; default the program's
}

const (
	// MaxInFlight is how many calls of one dispatcher are in flight at most where
	// the options say nothing, and so how many calls are made twice when it is
	// killed. It is the program's default.
	MaxInFlight     = 4096
	callTimeout     = 10 * time.Second
	shutdownTimeout = 20 * time.Second

	// prefetch and workerInFlight are those of a worker and of the bare loop:
	// half of the dispatcher's, with which all strategies were first compared.
	prefetch       = 1024
	workerInFlight = 512
)

// Own is the strategy that is this project's dispatcher.
const Own = "chatclub"

// shares reports whether all dispatchers consume one queue.
func (o *Options) shares() bool { return o.Strategy != Own }

// Queue is where messages for a page are published.
func (o *Options) Queue(t queue.Topology, page string) string {
	if o.shares() {
		return article.Queue(t).Name
	}
	return t.OutboundOf(page)
}

// settings are those of the dispatcher program, with the options in them.
func (o *Options) settings() app.DispatcherSettings {
	s := service.Defaults[app.DispatcherSettings]()
	s.Admin.Addr = ""
	s.LimitText = int(o.Limit)
	if o.Media > 0 {
		s.LimitMedia = int(o.Media)
	}
	s.LatencyTarget = o.LatencyTarget
	if o.MessageTTL > 0 {
		s.MessageTTL = o.MessageTTL
	}
	if o.MaxInFlight > 0 {
		s.MaxInFlight = o.MaxInFlight
	}
	if o.JoinTexts > 0 {
		s.JoinTexts = o.JoinTexts
	}
	return s
}

// parts are what one dispatcher is made of.
type parts struct {
	broker    queue.Broker
	caller    dispatch.Caller
	transport http.RoundTripper // to the platform; for the bare loop
	reg       *prometheus.Registry
	log       *slog.Logger
	replica   int                                                               // from 0, those that are gone counted
	random    func() float64                                                    // nil: math/rand
	dial      func(ctx context.Context, network, addr string) (net.Conn, error) // to Redis; nil: by TCP
	fault     func(error)                                                       // is told every error of the strategy
}

// runner is what sends: the dispatcher, a strategy's worker, or the bare loop.
type runner struct {
	send     func(ctx context.Context) error
	isReady  func(ctx context.Context) error // nil: always
	strategy strategy.Strategy               // nil: there is nothing beside what sends
	fault    func(error)
}

// newRunner makes the replica-th dispatcher.
func newRunner(ctx context.Context, o Options, p parts) (*runner, error) {
	switch o.Strategy {
	case Bare:
		return &runner{send: func(ctx context.Context) error { return p.bare(ctx, o) }}, nil
	case Own:
		d, err := app.NewDispatcher(ctx, app.DispatcherConfig{
			Settings: o.settings(), Sender: p.caller, Random: p.random,
			Options: app.Options{Broker: p.broker, Registry: p.reg, Log: p.log},
		})
		if err != nil {
			return nil, err
		}
		return &runner{send: d.Run, isReady: d.Ready}, nil
	}
	info, ok := strategy.Find(o.Strategy)
	if !ok {
		return nil, fmt.Errorf("strategy %.40q is unknown", o.Strategy)
	}
	s := o.settings()
	gate, err := info.New(strategy.Config{
		Limit:    message.Limits{Text: o.Limit, Media: float64(s.LimitMedia)}.Of,
		Replicas: o.Replicas, Replica: p.replica,
		RedisURL: o.RedisURL, KeyPrefix: o.KeyPrefix, Dial: p.dial, Random: p.random, Log: p.log, Fault: p.fault,
	})
	if err != nil {
		return nil, err
	}
	w := article.NewWorker(article.WorkerConfig{
		Broker: p.broker, Caller: p.caller, Strategy: gate, Log: p.log, Random: p.random,
		Prefetch: prefetch, MaxInFlight: cmp.Or(o.MaxInFlight, workerInFlight),
		MaxAttempts: s.MaxAttempts, MessageTTL: s.MessageTTL, ShutdownTimeout: s.ShutdownTimeout,
	})
	return &runner{send: w.Run, isReady: func(context.Context) error { return w.Ready() }, strategy: gate, fault: p.fault}, nil
}

// ready returns nil while it takes messages.
func (r *runner) ready(ctx context.Context) error {
	if r.isReady == nil {
		return nil
	}
	return r.isReady(ctx)
}

// run dispatches until ctx ends, then stops the dispatcher, and the strategy
// after it; or the strategy at once, where errKilled ended ctx.
func (r *runner) run(ctx context.Context) error {
	if r.strategy == nil {
		return r.send(ctx)
	}
	beside, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errKilled) {
			cancel()
		}
	})()
	ended := make(chan error, 1)
	go func() {
		err := r.strategy.Run(beside)
		if beside.Err() == nil {
			r.fault(fmt.Errorf("the strategy ended by itself: %w", err))
		}
		ended <- err
	}()
	err := r.send(ctx)
	cancel()
	return errors.Join(err, <-ended)
}

// tokens are the fake platform's.
type tokens struct{}

func (tokens) Token(page string) (string, bool) { return "token-" + page, true }
