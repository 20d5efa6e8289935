// Package dispatch is the dispatcher: it takes outbound messages off its
// partitions, asks the excess map when the message's page may be sent to, calls
// the Send API, and settles each delivery exactly once. A delivery ends
// acknowledged when it was sent, dead with a reason, or confirmed on another
// queue. What could not be settled goes back to its queue.
//
// The broker gives each partition to one dispatcher at a time, so that one
// dispatcher sends for a page: with the whole limit, and in order. What waits of a
// page that has more than its partition has room for goes to its lane, one of a few
// queues beside the partition, so that its neighbours have that: the page is in excess.
//
// One goroutine, the engine, decides everything and is never blocked: calls and
// publishes are made by others, which report back. At most
// one call per recipient and class is on its way at a time, so that copies to
// one recipient leave in queue order, whatever the calls' latency. Texts that had
// to wait for that go out in one message.
package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/aimd"
	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/partitions"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
	"chatclub/internal/tracing"
)

// Caller makes calls of the Send API. *sender.Sender is one.
type Caller interface {
	// Send makes one call.
	Send(ctx context.Context, out message.Outbound) sender.Result
	// Reach returns nil if the API answers anything at all.
	Reach(ctx context.Context) error
	// Ask returns what the API says to a page's token, without a message.
	Ask(ctx context.Context, page string) sender.Result
}

// Config is the configuration of a Dispatcher. Broker, Sender, Limits, Log and Registerer
// must be set, and the numbers without a default too.
type Config struct {
	Broker     queue.Broker
	Sender     Caller
	Limits     func(page string) message.Limits // what the platform takes of a page, as far as it is configured; of "", of pages without their own
	LacksToken func(page string) bool           // reports whether a page has no token, so that its messages wait without a call; nil: none lacks it
	Log        *slog.Logger
	Registerer prometheus.Registerer

	Prefetch        int           // deliveries of one partition held at most; default 2048
	LanePrefetch    int           // deliveries of one lane held at most; default 8192
	MaxInFlight     int           // calls in flight at most
	JoinTexts       int           // texts in one message at most; default 8; 1: none are joined
	MaxAttempts     int           // failed calls of one message before it is dead
	MessageTTL      time.Duration // a message older than this is not sent, unless it has a deadline
	ShutdownTimeout time.Duration // how long Run waits for calls in flight when it ends

	// Latency holds the calls' latency at its Target, by having Min to MaxInFlight of them
	// in flight. Without a Target MaxInFlight alone bounds them.
	Latency aimd.Config

	NoFeedback bool // nothing is told on inbound, because nobody consumes it

	Now    func() time.Time // nil: time.Now
	Random func() float64   // nil: math/rand; [0, 1), safe for concurrent use

	Tracer *tracing.Tracer   // nil: no traces
	Watch  *partitions.Watch // of the outbound partitions; nil: nothing finds out that one stands
	Orders *orders.Book      // follows the operators' orders; nil: one of its own
}

// The least values. A partition holds some pages and what one of them has in calls: with fewer
// messages pages that share a lane lost their order. A lane holds a second of a page's limit,
// so that it can be used. One call is beside that of a page
// that hangs.
const (
	MinPrefetch     = 64
	MinLanePrefetch = 512
	MinInFlight     = 2
)

// The defaults, which the settings of the program have too.
const (
	// DefaultPrefetch is more than three times the calls in flight of a page at its
	// limit while the API is slow, 300/s × 1.9 s.
	DefaultPrefetch = 2048
	// DefaultLanePrefetch is four texts for each of some 2,000 people in a page's
	// rooms. More costs the broker more: an acknowledgement takes it time in proportion
	// to what is unsettled before it.
	DefaultLanePrefetch = 8192
	DefaultJoinTexts    = 8
	// DefaultMinCalls is the fewest calls in flight that Latency cuts the limit to: with
	// fewer a page at its limit could not be served at any latency seen (300/s × 30 ms).
	DefaultMinCalls = 8
)

func (c Config) withDefaults() Config {
	c.Prefetch, c.LanePrefetch = cmp.Or(c.Prefetch, DefaultPrefetch), cmp.Or(c.LanePrefetch, DefaultLanePrefetch)
	c.JoinTexts = cmp.Or(c.JoinTexts, DefaultJoinTexts)
	c.Latency.Min, c.Latency.Max, c.Latency.Start = min(cmp.Or(c.Latency.Min, DefaultMinCalls), c.MaxInFlight), c.MaxInFlight, c.MaxInFlight
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	return c
}

// Validate names every wrong field.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	for _, f := range []struct {
		name  string
		unset bool
	}{
		{"Broker", c.Broker == nil},
		{"Sender", c.Sender == nil},
		{"Limits", c.Limits == nil},
		{"Log", c.Log == nil},
		{"Registerer", c.Registerer == nil},
	} {
		if f.unset {
			errs = append(errs, fmt.Errorf("%s must be set", f.name))
		}
	}
	for _, f := range []struct {
		name         string
		value, least int64
	}{
		{"Prefetch", int64(c.Prefetch), MinPrefetch},
		{"LanePrefetch", int64(c.LanePrefetch), MinLanePrefetch},
		{"MaxInFlight", int64(c.MaxInFlight), MinInFlight},
		{"JoinTexts", int64(c.JoinTexts), 1},
		{"MaxAttempts", int64(c.MaxAttempts), 1},
		{"MessageTTL", int64(c.MessageTTL), 1},
		{"ShutdownTimeout", int64(c.ShutdownTimeout), 1},
		{"Latency.Target", int64(c.Latency.Target), 0},
	} {
		if f.value < f.least {
			errs = append(errs, fmt.Errorf("%s must be at least %d", f.name, f.least))
		}
	}
	return errors.Join(errs...)
}

// Dispatcher sends what is on the partitions and lanes that the broker delivers
// to it. Make one with New.
type Dispatcher struct {
	Config
	metrics  *metrics
	orders   *orders.Book
	posts    chan func(*engine) // to be called by the engine
	finished chan struct{}      // closed when the engine has ended

	apiDown, silent atomic.Bool  // the API takes no calls; it does not answer
	turned          atomic.Int64 // when the engine made its last turn, in ns since 1970; 0: it does not run
}

// New checks the configuration and registers the metrics.
func New(cfg Config) (*Dispatcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("new dispatcher: %w", err)
	}
	cfg = cfg.withDefaults()
	d := &Dispatcher{Config: cfg, orders: cmp.Or(cfg.Orders, orders.NewBook()), posts: make(chan func(*engine)), finished: make(chan struct{})}
	d.metrics = newMetrics(cfg.Registerer, d.apiDown.Load, d.silent.Load)
	d.metrics.most.Set(float64(cfg.MaxInFlight))
	return d, nil
}

// Run sends until ctx is cancelled, then takes no more, and gives up each partition once
// its calls have ended, or after five seconds: later answers only show in the log and the
// metrics, for up to ShutdownTimeout, and their messages are sent again by the next
// owner. It returns nil on cancel, once all its goroutines ended.
// Call it once.
func (d *Dispatcher) Run(ctx context.Context) error {
	e, err := newEngine(d)
	if err != nil {
		close(d.finished)
		return err
	}
	defer d.followOrders(ctx, (*engine).ordered)()
	e.start()                                        //nolint:contextcheck // what it starts outlives ctx, in bounds of its own
	e.loop(ctx.Done(), func() bool { return false }) //nolint:contextcheck // as above
	return e.stop()                                  //nolint:contextcheck // as above
}

// SinceTurn returns the time since the engine made its last turn, 0 while it does not run. A
// well one makes a turn every two seconds at least.
func (d *Dispatcher) SinceTurn() time.Duration {
	if at := d.turned.Load(); at != 0 {
		return d.Now().Sub(time.Unix(0, at))
	}
	return 0
}

// Ready returns nil while the broker can be used and no partition stands, otherwise why not. An API that
// is down or silent makes no dispatcher unready: nobody sends to a dispatcher, so
// nothing would be gained, and a rollout that waits for readiness would stand still
// for as long as the outage. Metrics have it.
func (d *Dispatcher) Ready() error {
	return errors.Join(d.Broker.Ready(), d.Watch.Ready())
}
