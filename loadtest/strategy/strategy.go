// Package strategy holds other ways of sharing a page's limit between replicas,
// to compare chatclub's dispatcher with. None of them is meant for use. All returns
// the table of them. Each is a small implementation of a published idea. Its
// comment says what is done as in its source and what had to be chosen.
// article.Worker is the loop that sends by what a strategy says.
package strategy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"chatclub/internal/article"
)

// Strategy is a gate, and what it needs beside the worker. Close it after the worker's
// end.
type Strategy interface {
	article.Gate
	Close() error
}

// strategy is a gate with what closes it.
type strategy struct {
	article.Gate
	close func() error
}

// Close implements Strategy.
func (s strategy) Close() error { return s.close() }

// alone makes a strategy that needs nothing beside the worker.
func alone[G article.Gate](build func(Config) G) func(Config) (Strategy, error) {
	return func(c Config) (Strategy, error) { return strategy{build(c), func() error { return nil }}, nil }
}

// Config is the configuration of a strategy. Each uses what it needs.
type Config struct {
	Limit    func(class string) float64 // calls per second that the platform is said to allow
	Replicas int                        // as configured at the start, for those that count on it; at least 1
	Replica  int                        // which one this is, from 0; those that joined later count on

	SyncEvery time.Duration // synced: how often counts go to Redis and sums come back; 0: 100 ms
	GiveBack  bool          // leased: Close gives back what is held, which a replica that is killed does not

	RedisURL  string // redis://host:port/db, for those that need it
	KeyPrefix string // of every key in Redis; the same for all replicas of one run
	// Dial connects to Redis; nil: by TCP. A test has one in its own process.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Now    func() time.Time // nil: time.Now; where a call does not bring its time
	Random func() float64   // nil: math/rand; [0, 1), safe for concurrent use
	// Fault is told every error of what the strategy needs, such as a round trip
	// to Redis that failed. What the strategy did then is not to be judged.
	Fault func(error)
}

// Info is a row of the table of strategies.
type Info struct {
	Name       string
	Source     string // where the idea is from, in a line
	NeedsRedis bool
	make       func(Config) (Strategy, error) // nil: chatclub, which has a dispatcher of its own
}

// New makes the strategy for one replica. There is none of chatclub.
func (i Info) New(cfg Config) (Strategy, error) {
	if i.make == nil {
		return nil, fmt.Errorf("strategy %s: it is no strategy of a worker, but a dispatcher", i.Name)
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return i.make(cfg)
}

// All returns the table of strategies, chatclub's own first.
func All() []Info {
	return []Info{
		{
			Name: "chatclub", Source: "this project: one sender for each page, at a learned pace",
		},
		{
			Name: "article", Source: "ChatClub's article: excess map, refused messages retry on every replica",
			make: alone(func(c Config) *article.Article { return article.New(c.Random) }),
		},
		{
			Name: "naive", Source: "Azure, Rate Limiting pattern: its example of what not to do, rejected records are sent again",
			make: alone(func(Config) naive { return naive{} }),
		},
		{
			Name: "static", Source: "ChatClub's article, rejected there: limit / N for each of N replicas",
			make: alone(newStatic),
		},
		{
			Name: "pinned", Source: "ChatClub's article, rejected there: each page belongs to one replica, by its hash; not to be compared by broker operations and latency",
			make: alone(newPinned),
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
			make: alone(newAIMD),
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
