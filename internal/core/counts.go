package core

import (
	"context"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/rooms"
)

// countEvery is how often the counts go to the database: often enough for an
// operator's eye, and a killed core loses no more than that of them.
const countEvery = 5 * time.Second

// counts are what was done in each room since it was last written down. They are kept
// here, because a row of the room changed by every event would make the cores
// wait for each other. The zero value is empty. Safe for concurrent use.
type counts struct {
	mu     sync.Mutex
	places map[rooms.Place]rooms.Count
}

// add counts something that was written for a room, with its messages.
func (c *counts) add(at rooms.Place, messages int) {
	c.addTo(at, rooms.Count{Events: 1, Copies: int64(messages)})
}

// copies counts messages alone: answers, and what is counted already.
func (c *counts) copies(at rooms.Place, messages int) {
	c.addTo(at, rooms.Count{Copies: int64(messages)})
}

func (c *counts) addTo(at rooms.Place, more rooms.Count) {
	if more == (rooms.Count{}) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places == nil {
		c.places = make(map[rooms.Place]rooms.Count)
	}
	n := c.places[at]
	n.Events += more.Events
	n.Copies += more.Copies
	c.places[at] = n
}

// take returns the counts and begins anew.
func (c *counts) take() map[rooms.Place]rooms.Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	places := c.places
	c.places = nil
	return places
}

// count writes the counts down now and then until run ends, which must not
// interrupt it: what it has taken would be lost. work bounds it.
func (c *Core) count(run, work context.Context) {
	for backoff.Sleep(run, countEvery) {
		c.writeCounts(work)
	}
}

// writeCounts gives up what it cannot write: the operators' figures are no
// reason to hold anything up.
func (c *Core) writeCounts(ctx context.Context) {
	places := c.counts.take()
	if len(places) == 0 {
		return
	}
	if err := onStore(ctx, func(ctx context.Context) error { return c.cfg.Store.AddCounts(ctx, places) }); err != nil {
		c.failed(ctx, stepCount, err, countEvery)
	}
}
