package core

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/excess"
	"chatclub/internal/excess/feed"
	"chatclub/internal/message"
)

const (
	// routeBurst is how far a page's copies may run ahead of its limit on the
	// common queue. Of a second's worth, dispatchers hold what they cannot send at
	// once, or move it to the lane themselves. More would stand before other
	// pages' messages while it is moved.
	routeBurst = time.Second
	// laneHold is how many messages a dispatcher may hold of a lane that looks
	// empty. It is the default of its LANE_PREFETCH. With another one a page only
	// goes back to the common queue somewhat early or late.
	laneHold = 512
)

// router chooses the queue of each copy: the common queue, or the page's lane once
// the page's copies outrun its limit. So the copies of one page never pile up in
// the common queue. It uses the dispatchers' gate, with the cores as replicas,
// because no core knows how much the others publish.
type router struct {
	cfg        Config
	gate       *excess.Map
	overflowed prometheus.Counter
}

func newRouter(cfg Config, overflowed prometheus.Counter) *router {
	return &router{cfg: cfg, overflowed: overflowed, gate: excess.New(excess.Config{
		Limit: cfg.Limit, Burst: routeBurst, LaneHold: laneHold,
	}, cfg.Now())}
}

// queueFor returns the queue of a copy, and counts the copy.
func (r *router) queueFor(o message.Outbound, now time.Time) string {
	k := excess.Key{Page: o.Page, Class: string(o.Class)}
	d := r.gate.Offer(now, k, false)
	switch d.Action {
	case excess.Send:
		r.gate.Done(now, d.Permit, excess.Other) // there is no call; the copy only counts
		return r.cfg.Broker.Topology().Outbound()
	case excess.Wait:
		r.gate.Overflow(now, k, 1)
	case excess.Overflow, excess.Return:
	}
	r.overflowed.Inc()
	return r.cfg.Broker.Topology().LaneOf(o.Page)
}

// run keeps the gate informed until ctx ends.
func (r *router) run(ctx context.Context) {
	f := feed.Feed{
		Broker: r.cfg.Broker, Gate: r.gate, Queue: r.cfg.Broker.Topology().Inbound(),
		Now: r.cfg.Now, Random: rand.Float64,
	}
	var wg sync.WaitGroup
	wg.Go(func() { f.LaneDepths(ctx) })
	f.Replicas(ctx, func() {}, nil)
	wg.Wait()
}
