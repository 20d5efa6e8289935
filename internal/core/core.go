// Package core handles inbound events: it lets package rooms place the sender
// and package fanout make the copies, publishes them and only then
// acknowledges the event. It guarantees that
//
//   - an event is acknowledged only after every copy is confirmed and the event
//     is marked as finished; a core killed anywhere before that loses nothing,
//     for the event is delivered again and makes the same copies with the same
//     ids;
//   - an event told again after it was finished makes no copy;
//   - the events of one page are handled one after another in the order in
//     which this core gets them;
//   - a failing database or broker holds events up and never drops one; an
//     event that the database can never store goes to the dead-letter queue,
//     as does what is no event;
//   - a broadcast is put on the bulk queue at its rate, a second's worth at a
//     time, by one core at a time; one that dies in between leaves at most a
//     second's worth to be put there again, with the same ids.
//
// Any number of cores may share one database.
package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/phrase"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// Store is what core needs of rooms.Store, where each method is described.
type Store interface {
	Migrate(ctx context.Context) error
	Ping(ctx context.Context) error
	Receive(ctx context.Context, ev rooms.Event) (rooms.Result, error)
	Done(ctx context.Context, page, id string) error
	Gone(ctx context.Context, page, user string, at time.Time) error
	CloseWindow(ctx context.Context, page, user string, at time.Time) error
	Pause(ctx context.Context, page, reason string, at, until time.Time) error
	Resume(ctx context.Context, page string, at time.Time) (bool, error)
	SilentMembers(ctx context.Context, after rooms.Silent) ([]rooms.Silent, error)
	AddCounts(ctx context.Context, places map[rooms.RoomKey]rooms.Count) error
	Prune(ctx context.Context, before time.Time) (int64, error)
	operatorStore
	broadcastStore
}

// Config is what New needs. Broker and Store must be set; both are closed by
// the caller, after Run returned.
type Config struct {
	Broker          queue.Broker
	Store           Store
	Prefetch        int                        // events held at most; default 256
	Workers         int                        // events handled at a time, of different pages; default 8
	PublishTimeout  time.Duration              // for the copies of one event to be confirmed; default 10 s
	Limit           func(class string) float64 // calls per second and page that the platform takes; nil: all copies go to the common queue
	Idle            time.Duration              // the store's: how long a member may be silent; 0: members never leave by that
	Language        string                     // of users of whom nothing is known: en, pt or es; default en
	ShutdownTimeout time.Duration              // for the events in hand when Run's ctx ends; default 20 s
	Registerer      prometheus.Registerer      // nil: metrics go nowhere
	Log             *slog.Logger               // nil: no log
	Now             func() time.Time           // default time.Now
}

func (c Config) withDefaults() (Config, error) {
	if c.Broker == nil || c.Store == nil {
		return c, errors.New("new core: Broker and Store must be set")
	}
	for _, f := range []struct {
		name     string
		value    *int
		fallback int
	}{{"Prefetch", &c.Prefetch, 256}, {"Workers", &c.Workers, 8}} {
		if *f.value < 0 {
			return c, fmt.Errorf("new core: %s %d must not be negative", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.fallback
		}
	}
	for _, f := range []struct {
		name     string
		value    *time.Duration
		fallback time.Duration
	}{{"PublishTimeout", &c.PublishTimeout, 10 * time.Second}, {"ShutdownTimeout", &c.ShutdownTimeout, 20 * time.Second}} {
		if *f.value < 0 {
			return c, fmt.Errorf("new core: %s %v must not be negative", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.fallback
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Idle < 0 {
		return c, fmt.Errorf("new core: Idle %v must not be negative", c.Idle)
	}
	if c.Language == "" {
		c.Language = phrase.English
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

// Core consumes the inbound queue. The zero value is not useful; New makes it.
type Core struct {
	cfg     Config
	metrics *metrics
	router  *router // nil without a limit
	caster  *caster
	counts  counts

	mu      sync.Mutex
	unready error // why Run takes no events yet; nil once it does
}

// New returns a Core that does nothing before Run.
func New(cfg Config) (*Core, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Core{cfg: cfg, metrics: newMetrics(cfg.Registerer), unready: errNotStarted}
	c.caster = newCaster(c)
	if cfg.Limit != nil {
		c.router = newRouter(c)
	}
	return c, nil
}

// Ready returns nil once Run takes events, while both the broker and the
// database answer. Otherwise it tells which of them does not, or how far the
// migration of the database is. Safe for concurrent use.
func (c *Core) Ready(ctx context.Context) error {
	var broker error
	if err := c.cfg.Broker.Ready(); err != nil {
		broker = fmt.Errorf("broker: %w", err)
	}
	c.mu.Lock()
	database := c.unready
	c.mu.Unlock()
	if database == nil {
		database = c.cfg.Store.Ping(ctx)
	}
	return errors.Join(broker, database)
}
