package flow

import (
	"context"
	"net"
	"strings"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/loadtest/strategy"
)

// gate is the next replica's, and what ends it.
func (r *rig) gate(random func() float64) (gate dispatch.Gate, stop func() error) {
	if r.row.strategy == "" {
		return r.row.gate(random), func() error { return nil }
	}
	info, ok := strategy.Find(r.row.strategy)
	if !ok {
		r.t.Fatalf("strategy %q does not exist", r.row.strategy)
	}
	s, err := info.New(strategy.Config{
		Limit: func(string) float64 { return pageLimit }, LaneHold: lanePrefetch, Random: random,
		// One that joins later is one more than was configured.
		Replicas: r.row.replicas, Replica: len(r.replicas) % r.row.replicas,
		RedisURL: "redis://127.0.0.1:6379", KeyPrefix: "flow",
		Dial: func(context.Context, string, string) (net.Conn, error) {
			c, err := r.redis.Dial()
			return trip{c}, err
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, func() error {
		cancel()
		return <-done
	}
}

// trip is a connection of a hop each way.
type trip struct{ net.Conn }

func (c trip) Write(b []byte) (int, error) {
	time.Sleep(2 * hop) // both ways at once: answers are waited for
	return c.Conn.Write(b)
}

// otherWays has the strategies but for the article's, which has its own rows.
func otherWays() group {
	g := group{
		title: "Other ways of sharing a limit",
		text: "The strategies of `internal/loadtest/strategy` in the same loop: four replicas, demand three times the limit for 25 s. Redis is in process, one hop away, and never fails. " +
			"One run a row; nothing is required of them.",
	}
	for _, i := range strategy.All() {
		if i.Name != "chatclub" && i.Name != "article" && (otherNames == "" || strings.Contains(otherNames, i.Name)) {
			g.rows = append(g.rows, row{name: i.Name, strategy: i.Name, replicas: 4, seeds: 1, script: saturated(3, otherLength)})
		}
	}
	if otherNames == "" {
		g.rows = append(g.rows, row{
			name: "redis, 30000 directly", strategy: "redis", seeds: 1, replicas: 4, lanes: 64, capacity: queueCapacity,
			script: landing(30_000, false, 20*time.Second),
		})
	}
	return g
}
