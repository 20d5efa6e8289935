// Package strategy holds other ways of sharing a page's limit between replicas,
// to compare chatclub's dispatcher with. None of them is meant for use. All returns
// the table of them. Each is a small implementation of a published idea. Its
// comment says what is done as in its source and what had to be chosen.
// article.Worker is the loop that sends by what a strategy says.
package strategy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"chatclub/internal/article"
)

// Strategy is a gate and what it does beside the worker.
type Strategy interface {
	article.Gate
	// Run does what must not keep the worker waiting, such as talking to Redis,
	// until ctx is cancelled. Then it returns nil, with all its goroutines ended
	// and its connections closed. Call it once, beside the worker's Run, and
	// cancel it after that has returned.
	Run(ctx context.Context) error
}

// Config is what the strategies are made of. Each uses what it needs.
type Config struct {
	Limit    func(class string) float64 // calls per second that the platform is said to allow; must be set
	Replicas int                        // as configured at the start, for those that count on it; at least 1
	Replica  int                        // which one this is, from 0; those that joined later count on

	RedisURL  string // redis://host:port/db, for those that need it
	KeyPrefix string // of every key in Redis; the same for all replicas of one run
	// Dial connects to Redis; nil: by TCP. A test has one in its own process.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Random func() float64   // nil: math/rand; [0, 1), safe for concurrent use
	Now    func() time.Time // nil: time.Now
	Log    *slog.Logger     // nil: nothing is logged
	// Fault is told every error of what the strategy needs, such as a round trip
	// to Redis that failed. What the strategy did then is not to be judged. Fault
	// must not block. nil: errors are dropped.
	Fault func(error)
}

// validate names every fault and fills in the defaults.
func (c *Config) validate(needsRedis bool) error {
	var faults []error
	if c.Limit == nil {
		faults = append(faults, errors.New("Limit must be set"))
	}
	if c.Replicas < 1 {
		faults = append(faults, errors.New("Replicas must be at least 1"))
	}
	if c.Replica < 0 {
		faults = append(faults, errors.New("Replica must not be negative"))
	}
	if needsRedis && c.RedisURL == "" {
		faults = append(faults, errors.New("RedisURL must be set"))
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Fault == nil {
		c.Fault = func(error) {}
	}
	return errors.Join(faults...)
}

// Info is a row of the table of strategies.
type Info struct {
	Name       string
	Source     string // where the idea is from, in a line
	Caveat     string // which of its figures are not to be compared, in a sentence; empty: all are
	NeedsRedis bool
	make       func(Config) (Strategy, error) // nil: chatclub, which has a dispatcher of its own
}

// New makes the strategy for one replica. There is none of chatclub.
func (i Info) New(cfg Config) (Strategy, error) {
	if i.make == nil {
		return nil, fmt.Errorf("strategy %s: it is no strategy of a worker, but a dispatcher", i.Name)
	}
	if err := cfg.validate(i.NeedsRedis); err != nil {
		return nil, fmt.Errorf("strategy %s: %w", i.Name, err)
	}
	s, err := i.make(cfg)
	if err != nil {
		return nil, fmt.Errorf("strategy %s: %w", i.Name, err)
	}
	return s, nil
}

// All returns the table of strategies, chatclub's own first.
func All() []Info {
	return []Info{
		{
			Name: "chatclub", Source: "this project: one sender for each page, at a learned pace",
		},
		{
			Name: "article", Source: "ChatClub's article: excess map, refused messages retry on every replica",
			make: func(c Config) (Strategy, error) { return local{article.New(c.Random)}, nil },
		},
		{
			Name: "naive", Source: "Azure, Rate Limiting pattern: its example of what not to do, rejected records are sent again",
			make: func(Config) (Strategy, error) { return local{naive{}}, nil },
		},
		{
			Name: "static", Source: "ChatClub's article, rejected there: limit / N for each of N replicas",
			make: func(c Config) (Strategy, error) { return local{newStatic(c)}, nil },
		},
		{
			Name: "pinned", Source: "ChatClub's article, rejected there: each page belongs to one replica, by its hash",
			Caveat: "A replica hands the messages of others' pages back to the one shared queue, so compare pinned by quota and refusals, and not by broker operations and latency.",
			make:   func(c Config) (Strategy, error) { return local{newPinned(c)}, nil },
		},
		{
			Name: "redis", Source: "ChatClub's article, rejected there: one bucket a page in Redis, an atomic script",
			NeedsRedis: true,
			make:       onRedis(newCentral),
		},
		{
			Name: "synced", Source: "Pushwoosh: local counters that are added up in Redis ten times a second",
			NeedsRedis: true,
			make:       onRedis(newSynced),
		},
		{
			Name: "leased", Source: "Azure, Rate Limiting pattern: exclusive leases of seconds on parts of the limit",
			NeedsRedis: true,
			make:       onRedis(newLeased),
		},
		{
			Name: "aimd-only", Source: "Chiu and Jain 1989: each replica's own rate, additive increase, multiplicative decrease",
			make: func(c Config) (Strategy, error) { return local{newAIMD(c)}, nil },
		},
	}
}

// Find returns the strategy of a name.
func Find(name string) (Info, bool) {
	for _, i := range All() {
		if i.Name == name {
			return i, true
		}
	}
	return Info{}, false
}

// local is a strategy with nothing to do beside the worker.
type local struct{ article.Gate }

// Run waits for the end.
func (local) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
