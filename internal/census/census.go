// Package census tells an excess map what the broker knows: how many replicas
// share the pages' limits, and whether the lanes of pages in excess are empty.
// It is all that replicas learn of one another, and none of them says it.
package census

import (
	"context"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/excess"
	"chatclub/internal/queue"
)

const (
	// countEvery is how often the broker is asked for the number of replicas,
	// ± 10 % so that they do not ask together.
	countEvery = 500 * time.Millisecond
	// A replica that has just joined asks more often, joinLooks times: those
	// that start in the same moment see one another only after they subscribed.
	joinEvery = 50 * time.Millisecond
	joinLooks = 10
	// looksEvery is how often the gate is asked which lanes to look at; it wants
	// each once a second.
	looksEvery = 250 * time.Millisecond
	// inspectTimeout bounds one question.
	inspectTimeout = 2 * time.Second
)

// Gate is what needs to know. *excess.Map is one.
type Gate interface {
	SetReplicas(n int)
	Due(now time.Time) []excess.Key
	LaneSeen(now time.Time, k excess.Key, ready int)
}

// Census asks the broker on behalf of one replica. All fields must be set.
type Census struct {
	Broker queue.Broker
	Gate   Gate
	Queue  string // that every replica consumes: its consumers are the replicas
	Now    func() time.Time
	Random func() float64 // [0, 1), safe for concurrent use
}

// Count tells the gate the number of replicas until ctx ends. first is called
// after the first answer, which counts this replica in: it has not subscribed
// by then. changed is called with every answer; it may be nil.
func (c Census) Count(ctx context.Context, first func(), changed func(n int)) {
	self, looks := 1, 0
	for {
		if info, err := c.inspect(ctx, c.Queue); err == nil {
			n := max(1, info.Consumers+self)
			c.Gate.SetReplicas(n)
			if changed != nil {
				changed(n)
			}
			if self == 1 {
				self = 0
				first()
			}
		}
		every := countEvery
		if self == 0 && looks < joinLooks {
			looks++
			every = joinEvery
		}
		if !backoff.Sleep(ctx, time.Duration(float64(every)*(0.9+0.2*c.Random()))) {
			return
		}
	}
}

// Lanes tells the gate how full the lanes of its pages in excess are, until ctx ends.
func (c Census) Lanes(ctx context.Context) {
	top := c.Broker.Topology()
	for backoff.Sleep(ctx, looksEvery) {
		seen := make(map[string]int)
		for _, k := range c.Gate.Due(c.Now()) {
			lane := top.LaneOf(k.Page)
			ready, ok := seen[lane]
			if !ok {
				info, err := c.inspect(ctx, lane)
				if err != nil {
					break // the gate wants it again in a second
				}
				ready = info.Ready
				seen[lane] = ready
			}
			c.Gate.LaneSeen(c.Now(), k, ready)
		}
	}
}

func (c Census) inspect(ctx context.Context, name string) (queue.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	return c.Broker.Inspect(ctx, name)
}
