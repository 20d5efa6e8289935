// Package fleet runs the system that is put to a test: dispatchers, which join,
// leave and are killed, a broker and the fake platform. Where the test goes
// through the whole, webhook and core run as well. In one process on the memory
// broker (Local), or each as a process of its own on RabbitMQ (Processes). What
// it counts is what the machine and the broker say, never what a dispatcher
// says of its sends.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/app"
	"chatclub/internal/dispatch"
	"chatclub/internal/loadtest/strategy"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/service"
)

// Options of every dispatcher of a run.
type Options struct {
	Strategy  string  `json:"strategy"`
	Replicas  int     `json:"replicas"` // as configured at the start
	Limit     float64 `json:"limit"`    // text messages per second and page, as the dispatchers are told
	RedisURL  string  `json:"redis_url,omitempty"`
	KeyPrefix string  `json:"key_prefix,omitempty"` // of keys in Redis

	LatencyTarget time.Duration `json:"latency_target,omitempty"`
	MessageTTL    time.Duration `json:"message_ttl,omitempty"`   // default an hour
	MaxInFlight   int           `json:"max_in_flight,omitempty"` // default 512
	BatchCalls    int           `json:"batch_calls,omitempty"`   // messages that go in one request at most; default 1
}

// The defaults of the dispatcher program, as far as the load test counts on them.
const (
	// MaxInFlight is how many calls of one dispatcher are in flight at most, and
	// so how many messages are sent twice when it is killed.
	MaxInFlight     = 512
	prefetch        = 1024
	callTimeout     = 10 * time.Second
	shutdownTimeout = 20 * time.Second
)

// settings are those of the dispatcher program, with the options in them.
func (o *Options) settings() app.DispatcherSettings {
	s := service.Defaults[app.DispatcherSettings]()
	s.Admin.Addr = ""
	s.LatencyTarget = o.LatencyTarget
	if o.MessageTTL > 0 {
		s.MessageTTL = o.MessageTTL
	}
	if o.MaxInFlight > 0 {
		s.MaxInFlight = o.MaxInFlight
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
	random    func() float64                                                    // nil: math/rand/v2
	dial      func(ctx context.Context, network, addr string) (net.Conn, error) // to Redis; nil: by TCP
	fault     func(error)                                                       // is told every error of the strategy
}

// runner is a dispatcher with its strategy.
type runner struct {
	bare       func(context.Context) error // the loop instead of a dispatcher
	dispatcher *app.Program
	strategy   strategy.Strategy
	fault      func(error)
}

// newRunner makes the replica-th dispatcher.
func newRunner(ctx context.Context, o Options, p parts) (*runner, error) {
	if o.Strategy == Bare {
		return &runner{bare: func(ctx context.Context) error { return p.bare(ctx, o) }}, nil
	}
	info, ok := strategy.Find(o.Strategy)
	if !ok {
		return nil, fmt.Errorf("strategy %.40q is unknown", o.Strategy)
	}
	s := o.settings()
	gate, err := info.New(strategy.Config{
		Limit:    message.Limits{Text: o.Limit, Media: float64(s.LimitMedia)}.Of,
		Replicas: o.Replicas, Replica: p.replica, LaneHold: s.LanePrefetch,
		RedisURL: o.RedisURL, KeyPrefix: o.KeyPrefix, Dial: p.dial, Random: p.random, Log: p.log, Fault: p.fault,
	})
	if err != nil {
		return nil, err
	}
	d, err := app.NewDispatcher(ctx, app.DispatcherConfig{
		Settings: s, Sender: p.caller, Gate: gate, Random: p.random,
		Options: app.Options{Broker: p.broker, Registry: p.reg, Log: p.log},
	})
	if err != nil {
		return nil, err
	}
	return &runner{dispatcher: d, strategy: gate, fault: p.fault}, nil
}

// ready returns nil while it takes messages.
func (r *runner) ready(ctx context.Context) error {
	if r.bare != nil {
		return nil
	}
	return r.dispatcher.Ready(ctx)
}

// run dispatches until ctx ends, then stops the dispatcher, and the strategy
// after it; or the strategy at once, where errKilled ended ctx.
func (r *runner) run(ctx context.Context) error {
	if r.bare != nil {
		return r.bare(ctx)
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
	err := r.dispatcher.Run(ctx)
	cancel()
	return errors.Join(err, <-ended)
}

// tokens are the fake platform's.
type tokens struct{}

func (tokens) Token(page string) (string, bool) { return "token-" + page, true }
