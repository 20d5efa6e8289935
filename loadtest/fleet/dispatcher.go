package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
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
	Strategy  string
	Replicas  int     // as configured at the start
	Limit     float64 // text messages per second and page, as the dispatchers are told
	Media     float64 // the same of audio and video; 0: the program's default
	RedisURL  string
	KeyPrefix string // of keys in Redis

	LatencyTarget time.Duration
	MessageTTL    time.Duration // default an hour
	MaxInFlight   int           // default MaxInFlight; an eighth of it for a strategy's worker
	JoinTexts     int           // texts in one message at most; default the program's
}

const (
	// MaxInFlight is how many calls of one dispatcher are in flight at most where
	// the options say nothing, and so how many calls are made twice when it is
	// killed. It is the program's default.
	MaxInFlight = 4096
	callTimeout = 10 * time.Second

	// prefetch and workerInFlight are those of a worker: with them all strategies
	// were first compared.
	prefetch       = 1024
	workerInFlight = 512
)

// graphVersion is the first part of the Send API's paths.
const graphVersion = "/v23.0"

// Own is the strategy that is this project's dispatcher.
const Own = "chatclub"

// shares reports whether all dispatchers consume one queue.
func (o *Options) shares() bool { return o.Strategy != Own }

// Queue is where messages for a page are published.
func (o *Options) Queue(t queue.Topology, page string) string {
	if o.shares() {
		return t.Shared()
	}
	return t.OutboundOf(page)
}

// settings are those of the dispatcher program, with the options in them.
func (o *Options) settings() app.DispatcherSettings {
	s := service.Defaults[app.DispatcherSettings]()
	s.Admin.Addr = ""
	s.LimitText = int(o.Limit)
	s.LimitMedia = cmp.Or(int(o.Media), s.LimitMedia)
	s.LatencyTarget = o.LatencyTarget
	s.MessageTTL = cmp.Or(o.MessageTTL, s.MessageTTL)
	s.MaxInFlight = cmp.Or(o.MaxInFlight, s.MaxInFlight)
	s.JoinTexts = cmp.Or(o.JoinTexts, s.JoinTexts)
	return s
}

// environment are the options as variables of the dispatcher program.
func (o *Options) environment() map[string]string {
	s := o.settings()
	return map[string]string{
		"LIMIT_TEXT": strconv.Itoa(s.LimitText), "LIMIT_MEDIA": strconv.Itoa(s.LimitMedia), "LATENCY_TARGET": s.LatencyTarget.String(),
		"MESSAGE_TTL": s.MessageTTL.String(), "MAX_IN_FLIGHT": strconv.Itoa(s.MaxInFlight), "JOIN_TEXTS": strconv.Itoa(s.JoinTexts),
	}
}

// parts are what one dispatcher is made of.
type parts struct {
	broker  queue.Broker
	caller  dispatch.Caller
	reg     *prometheus.Registry
	log     *slog.Logger
	replica int            // from 0, those that are gone counted
	random  func() float64 // nil: math/rand
	fault   func(error)    // is told every error of the strategy
}

// runner is what sends: the dispatcher, or a strategy's worker.
type runner struct {
	send     func(ctx context.Context) error
	ready    func(ctx context.Context) error
	strategy strategy.Strategy // nil: there is nothing beside what sends
	fault    func(error)
}

// newRunner makes a dispatcher.
func newRunner(ctx context.Context, o Options, p parts) (*runner, error) {
	if o.Strategy == Own {
		d, err := app.NewDispatcher(ctx, app.DispatcherConfig{
			Settings: o.settings(), Sender: p.caller, Random: p.random,
			Options: app.Options{Broker: p.broker, Registry: p.reg, Log: p.log},
		})
		if err != nil {
			return nil, err
		}
		return &runner{send: d.Run, ready: d.Ready}, nil
	}
	info, ok := strategy.Find(o.Strategy)
	if !ok {
		return nil, fmt.Errorf("strategy %.40q is unknown", o.Strategy)
	}
	s := o.settings()
	gate, err := info.New(strategy.Config{
		Limit:    message.Limits{Text: o.Limit, Media: float64(s.LimitMedia)}.Of,
		Replicas: o.Replicas, Replica: p.replica,
		RedisURL: o.RedisURL, KeyPrefix: o.KeyPrefix, Random: p.random, Log: p.log, Fault: p.fault,
	})
	if err != nil {
		return nil, err
	}
	w := article.NewWorker(article.WorkerConfig{
		Broker: p.broker, Caller: p.caller, Strategy: gate, Log: p.log, Random: p.random,
		Prefetch: prefetch, MaxInFlight: cmp.Or(o.MaxInFlight, workerInFlight),
		MaxAttempts: s.MaxAttempts, MessageTTL: s.MessageTTL, ShutdownTimeout: s.ShutdownTimeout,
	})
	return &runner{send: w.Run, ready: func(context.Context) error { return w.Ready() }, strategy: gate, fault: p.fault}, nil
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

// environment are the variables of core, whose users write as fast as the load asks
// for, and of webhook.
func (f Ingress) environment(dir string) map[string]string {
	return map[string]string{
		"APP_SECRET": f.Secret, "VERIFY_TOKEN": f.Secret, "DATABASE_URL": "sqlite:" + filepath.Join(dir, "rooms.db"),
		"ROOM_CAPACITY": strconv.Itoa(f.Capacity), "ROOM_IDLE": "0s", "FLOOD_LIMIT": "0", "FLOOD_SHARE": "0",
	}
}

// shared is a broker on which copies go to the shared queue in place of their
// partitions. Events and dead letters stay where they are.
type shared struct{ queue.Broker }

// Publish implements queue.Publisher.
func (s shared) Publish(ctx context.Context, msgs ...queue.Message) error {
	return s.Broker.Publish(ctx, article.Divert(s.Topology(), msgs)...)
}
