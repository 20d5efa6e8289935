package core

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"chatclub/internal/census"
	"chatclub/internal/excess"
	"chatclub/internal/message"
)

const (
	// routeBurst is how far a page's copies may run ahead of its limit on the
	// common queue. What dispatchers cannot send at once of a second's worth
	// they park or move to the lane themselves; more would stand before other
	// pages' messages while it is moved.
	routeBurst = time.Second
	// laneHold is what a dispatcher may hold of a lane that looks empty. It is
	// the default of its LANE_PREFETCH; with another one a page merely goes
	// back to the common queue somewhat early or late.
	laneHold = 512
)

// router chooses the queue of each copy: the common one, or, once the copies
// of a page outrun its limit, the page's lane, so that a backlog of one page
// never stands in the common queue. It is the dispatchers' own gate, with the
// cores as replicas: no core knows what the others publish.
type router struct {
	c        *Core
	gate     *excess.Map
	outbound string // the common queue
}

func newRouter(c *Core) *router {
	return &router{c: c, outbound: c.cfg.Broker.Topology().Outbound(), gate: excess.New(excess.Config{
		Limit: c.cfg.Limit, Burst: routeBurst, LaneHold: laneHold,
	}, c.cfg.Now())}
}

// queueOf is where a copy goes.
func (r *router) queueOf(o message.Outbound, now time.Time) string {
	k := excess.Key{Page: o.Page, Class: string(o.Class)}
	d := r.gate.Offer(now, k, false)
	switch d.Do {
	case excess.Send:
		r.gate.Done(now, d.Pass, excess.Other) // no call: it only counts
		return r.outbound
	case excess.Wait:
		r.gate.Overflow(now, k, 1)
	case excess.Spill, excess.Return:
	}
	r.c.metrics.overflowed.Inc()
	return r.c.cfg.Broker.Topology().LaneOf(o.Page)
}

// run keeps the gate informed until ctx ends.
func (r *router) run(ctx context.Context) {
	c := census.Census{
		Broker: r.c.cfg.Broker, Gate: r.gate, Queue: r.c.cfg.Broker.Topology().Inbound(),
		Now: r.c.cfg.Now, Random: rand.Float64,
	}
	var wg sync.WaitGroup
	wg.Go(func() { c.Lanes(ctx) })
	c.Count(ctx, func() {}, nil)
	wg.Wait()
}
