package broadcast

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
	"chatclub/internal/rooms"
	"chatclub/internal/tracing"
)

// Store is the part of rooms.Broadcasts that a Scheduler needs. Each method is
// described there.
type Store interface {
	Add(ctx context.Context, b rooms.Broadcast) (stored rooms.Broadcast, added bool, err error)
	Stop(ctx context.Context, id string) (b rooms.Broadcast, stopped bool, err error)
	Claim(ctx context.Context, holder string, lease time.Duration) (rooms.Claim, error)
	Release(ctx context.Context, holder string, ids ...string) error
	NextRecipients(ctx context.Context, holder string, b rooms.Broadcast, limit int) (rooms.Recipients, error)
	Advance(ctx context.Context, holder string, p rooms.Progress) (rooms.BroadcastState, error)
}

// Config is the configuration of a Scheduler. Broker and Store must be set. The
// caller closes both after Run has returned.
type Config struct {
	Broker          queue.Broker
	Store           Store
	Paused          func(page string) bool // by an operator's order; nil: none is. The store knows pauses of the page's own
	Counter         *rooms.Counter         // counts the messages of each room; default one of its own
	PublishTimeout  time.Duration          // for the messages of one round to be confirmed; default 10 s
	ShutdownTimeout time.Duration          // for the rounds in progress when Run's ctx ends; default 20 s
	Registerer      prometheus.Registerer  // nil: metrics go nowhere
	Log             *slog.Logger           // nil: no log
	Tracer          *tracing.Tracer        // nil: no traces
	Now             func() time.Time       // default time.Now
}

// withDefaults returns c with its defaults filled in, or an error that names the missing
// fields.
func (c Config) withDefaults() (Config, error) {
	if c.Broker == nil || c.Store == nil {
		return c, errors.New("Broker and Store must be set")
	}
	c.Counter = cmp.Or(c.Counter, new(rooms.Counter))
	c.PublishTimeout = cmp.Or(c.PublishTimeout, 10*time.Second)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, 20*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}
