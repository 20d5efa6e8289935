// Package dispatch is the dispatcher. It takes outbound messages off the queue,
// asks the gate when the message's page may be sent to, and calls the Send API.
// It settles each delivery exactly once: acknowledged when it was sent, moved to
// the dead-letter queue with a reason, or confirmed on another queue. When the
// dispatcher ends, all that is not settled goes back to its queue.
//
// One goroutine, the engine, decides everything and is never blocked: calls,
// acknowledgements and publishes are made by others, which report back. At most
// one message per recipient is on its way at a time. So copies to one recipient
// leave this dispatcher in queue order, whatever the calls' latency. They may
// change places while their page enters excess, most of all when one of them waits
// for a retry. Other dispatchers have copies of their own.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/breaker"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// Caller makes one Send API call. *sender.Sender is one.
type Caller interface {
	Send(ctx context.Context, out message.Outbound) sender.Result
}

// Config is what a Dispatcher needs. Broker, Sender, Gate, Log and Registerer
// must be set. Prefetch, MaxInFlight, MaxAttempts, MessageTTL and ShutdownTimeout
// have no default and must be above 0.
type Config struct {
	Broker     queue.Broker
	Sender     Caller
	Gate       Gate
	Log        *slog.Logger
	Registerer prometheus.Registerer

	Prefetch        int           // deliveries of outbound held at most
	LanePrefetch    int           // deliveries of one lane held at most; default 512
	MaxInFlight     int           // calls in flight at most
	MaxAttempts     int           // failed calls of one message before it is dead
	MessageTTL      time.Duration // a message older than this is not sent
	ShutdownTimeout time.Duration // how long Run waits for calls in flight when it ends

	// LatencyTarget is what the 95th percentile of the calls' latency is held
	// to, by having fewer in flight. 0: MaxInFlight alone bounds them.
	LatencyTarget time.Duration

	Now    func() time.Time // nil: time.Now
	Random func() float64   // nil: math/rand/v2; [0, 1), safe for concurrent use
}

// defaultLanePrefetch covers the calls in flight of a page at its limit while
// the API is slow, 300/s × 0.8 s = 240, and as many again that wait behind them:
// 480, rounded up.
const defaultLanePrefetch = 512

// Validate names every fault.
func (c Config) Validate() error {
	var faults []error
	for _, f := range []struct {
		name  string
		unset bool
	}{
		{"Broker", c.Broker == nil},
		{"Sender", c.Sender == nil},
		{"Gate", c.Gate == nil},
		{"Log", c.Log == nil},
		{"Registerer", c.Registerer == nil},
	} {
		if f.unset {
			faults = append(faults, fmt.Errorf("%s must be set", f.name))
		}
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Prefetch", int64(c.Prefetch)},
		{"MaxInFlight", int64(c.MaxInFlight)},
		{"MaxAttempts", int64(c.MaxAttempts)},
		{"MessageTTL", int64(c.MessageTTL)},
		{"ShutdownTimeout", int64(c.ShutdownTimeout)},
	} {
		if f.value < 1 {
			faults = append(faults, fmt.Errorf("%s must be above 0", f.name))
		}
	}
	if c.LanePrefetch < 0 {
		faults = append(faults, errors.New("LanePrefetch must not be negative"))
	}
	if c.LatencyTarget < 0 {
		faults = append(faults, errors.New("LatencyTarget must not be negative"))
	}
	return errors.Join(faults...)
}

// Dispatcher sends what is on `outbound`, `outbound.bulk` and the lanes that
// the broker delivers to it. Make one with New.
type Dispatcher struct {
	Config
	metrics   *metrics
	breaker   *breaker.Breaker
	suspended *suspended
	asks      chan chan<- map[excess.Key]int // of the admin port, to the engine

	unanswered atomic.Bool // calls were made, and none was answered for stuckAfter
}

// New checks the configuration and registers the metrics.
func New(cfg Config) (*Dispatcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("new dispatcher: %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.LanePrefetch == 0 {
		cfg.LanePrefetch = defaultLanePrefetch
	}
	cfg.Random = defaultRandom(cfg.Random)
	suspended := newSuspended()
	return &Dispatcher{
		Config:    cfg,
		metrics:   newMetrics(cfg.Registerer, cfg.Gate.Counts, suspended.len),
		breaker:   breaker.New(cfg.Random),
		suspended: suspended,
		asks:      make(chan chan<- map[excess.Key]int),
	}, nil
}

// Run sends until ctx is cancelled, then takes no more, lets the calls in
// flight finish within ShutdownTimeout, settles them, and hands back
// everything else. It returns nil on cancel, once all its goroutines ended.
// Call it once.
func (d *Dispatcher) Run(ctx context.Context) error {
	e, err := newEngine(d) //nolint:contextcheck // calls and settling outlive ctx, in bounds of their own
	if err != nil {
		return err
	}
	defer e.abort()
	e.intake(ctx)
	e.loop(ctx)
	return e.stop()
}

// Readiness while the breaker is open, and while calls hang.
var (
	errAPIDown   = errors.New("the Send API takes no calls")
	errAPISilent = errors.New("the Send API does not answer")
)
