package core

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/partitions"
	"chatclub/internal/phrase"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
	"chatclub/internal/tracing"
)

// Store is the part of rooms.Store that a Core needs. Each method is described
// there.
type Store interface {
	Migrate(ctx context.Context) error
	Ping(ctx context.Context) error
	Receive(ctx context.Context, ev rooms.Event) (rooms.Result, error)
	Done(ctx context.Context, page, id string) error
	Gone(ctx context.Context, page, psid string, at time.Time) error
	CloseWindow(ctx context.Context, page, psid string, at time.Time) error
	HoldCopies(ctx context.Context, page, psid string, at, until time.Time) error
	Pause(ctx context.Context, page, reason string, at, until time.Time) error
	Resume(ctx context.Context, page string, at time.Time) error
	EndPause(ctx context.Context, page, reason string, at time.Time) error
	ReleaseCopies(ctx context.Context, page, psid string) error
	DelayBroadcasts(ctx context.Context, page string, until time.Time) error
	CheckClock(ctx context.Context) error
	SilentMembers(ctx context.Context, after rooms.Silent) ([]rooms.Silent, error)
	AddCounts(ctx context.Context, counts map[rooms.RoomKey]rooms.Count) error
	CountAudiences(ctx context.Context) error
	Overview(ctx context.Context) (rooms.Overview, error)
	Prune(ctx context.Context, before time.Time) (int64, error)
	PrunePeople(ctx context.Context) error
}

// Config is the configuration of a Core. Broker and Store must be set. The
// caller closes both after Run has returned.
type Config struct {
	Broker          queue.Broker
	Store           Store
	Prefetch        int                   // events of one partition held at most; default 256
	Workers         int                   // events handled at a time, of different pages; default 8
	PublishTimeout  time.Duration         // for the copies of one event to be confirmed; default 10 s
	ShutdownTimeout time.Duration         // for the events in progress when Run's ctx ends; default 20 s
	Idle            time.Duration         // the store's: how long a member may be silent; 0: for ever
	Limits          *Limits               // of pages; nil: none is known
	NoShare         bool                  // a message, and a member, may take any part of them
	FreshWithin     time.Duration         // a message whose copies would come later is left out, whole, while its page is in excess; 0: none is
	Language        string                // of users whose language is unknown: en, pt or es; default en
	TakeInbound     bool                  // take the events although a bot consumes them
	Registerer      prometheus.Registerer // nil: metrics go nowhere
	Log             *slog.Logger          // nil: no log
	Tracer          *tracing.Tracer       // nil: no traces
	Watch           *partitions.Watch     // of the inbound partitions; nil: nothing finds out that one stands
	Now             func() time.Time      // default time.Now

	// Counter counts the messages of each room, until the Core writes them to the
	// store. Others may count with it. Default one of its own.
	Counter *rooms.Counter
	// Alongside runs from the end of the migration until Run's ctx ends, such as
	// the broadcasts, which need the tables. Its messages are counted by Counter
	// before the counts are written for the last time. May be nil.
	Alongside func(ctx context.Context) error
}

// withDefaults returns c with its defaults filled in, or an error that names the missing
// fields.
func (c Config) withDefaults() (Config, error) {
	if c.Broker == nil || c.Store == nil {
		return c, errors.New("Broker and Store must be set")
	}
	c.Prefetch = cmp.Or(c.Prefetch, 256)
	c.Workers = cmp.Or(c.Workers, 8)
	c.PublishTimeout = cmp.Or(c.PublishTimeout, 10*time.Second)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, 20*time.Second)
	c.Language = cmp.Or(c.Language, phrase.English)
	c.Counter = cmp.Or(c.Counter, new(rooms.Counter))
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

// publish publishes messages within PublishTimeout.
func (c Config) publish(ctx context.Context, msgs []queue.Message) error {
	ctx, cancel := context.WithTimeout(ctx, c.PublishTimeout)
	defer cancel()
	return c.Broker.Publish(ctx, msgs...)
}
