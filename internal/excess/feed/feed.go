// Package feed keeps an excess map informed of what the broker knows, until its
// context ends. That is how many replicas share the pages' limits, and how many
// messages wait in the lanes of pages in excess. It is all that replicas learn
// of one another, and none of them says it.
package feed

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
	// A replica that has just joined asks more often, joinLooks times. Those that
	// start in the same moment see one another only after they subscribed.
	joinEvery = 50 * time.Millisecond
	joinLooks = 10
	// depthEvery is how often the gate is asked which lanes to look at; it wants
	// each once a second.
	depthEvery = 250 * time.Millisecond
	// inspectTimeout bounds one question.
	inspectTimeout = 2 * time.Second
)

// Gate is an excess map as the feed sees it. *excess.Map is one.
type Gate interface {
	SetReplicas(n int)
	TakeDue(now time.Time) []excess.Key
	SetLaneDepth(now time.Time, k excess.Key, ready int)
}

// Feed asks the broker on behalf of one replica. All fields must be set.
type Feed struct {
	Broker queue.Broker
	Gate   Gate
	Queue  string // that every replica consumes: its consumers are the replicas
	Now    func() time.Time
	Random func() float64 // [0, 1), safe for concurrent use
}

// Replicas tells the gate the number of replicas until ctx ends. It calls first
// after the first answer, which counts this replica in, because it has not
// subscribed by then. It calls changed with every answer; changed may be nil.
func (f Feed) Replicas(ctx context.Context, first func(), changed func(n int)) {
	self, looks := 1, 0
	for {
		if info, err := f.inspect(ctx, f.Queue); err == nil {
			n := max(1, info.Consumers+self)
			f.Gate.SetReplicas(n)
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
		if !backoff.Sleep(ctx, time.Duration(float64(every)*(0.9+0.2*f.Random()))) {
			return
		}
	}
}

// LaneDepths tells the gate how many messages wait in the lanes of its pages in
// excess, until ctx ends.
func (f Feed) LaneDepths(ctx context.Context) {
	top := f.Broker.Topology()
	for backoff.Sleep(ctx, depthEvery) {
		depths := make(map[string]int)
		for _, k := range f.Gate.TakeDue(f.Now()) {
			lane := top.LaneOf(k.Page)
			ready, ok := depths[lane]
			if !ok {
				info, err := f.inspect(ctx, lane)
				if err != nil {
					break // the gate wants it again in a second
				}
				ready = info.Ready
				depths[lane] = ready
			}
			f.Gate.SetLaneDepth(f.Now(), k, ready)
		}
	}
}

func (f Feed) inspect(ctx context.Context, name string) (queue.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	return f.Broker.Inspect(ctx, name)
}
