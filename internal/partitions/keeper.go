// Package partitions gives each replica of a program its part of the partitions, which
// are queues with a single active consumer. It guarantees that
//
//   - every replica subscribes to all of them, with priorities that its slot decides
//     on, and the broker delivers each to the replica with the highest. Nobody counts
//     replicas or hands anything over;
//   - a partition that is given up is left cleanly: nothing of it is begun any more,
//     the work in hand ends, and the rest goes back to the front in its order. So
//     nothing is overtaken, and nothing done twice;
//   - a newcomer is behind all others for some seconds.
//
// A [Config] finds a replica's [Place]; a [Keeper] does all of it. core uses a Keeper;
// dispatchers a Place, because each partition of theirs has lanes that come and go with it.
package partitions

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
)

const (
	// checkEvery is the period of checking a claim.
	checkEvery = time.Second
	// LookAfter is the time without a delivery after which an owner that holds something
	// looks whether it is outranked. The broker does not tell it.
	LookAfter = time.Second
	// ArrivalTime is the longest time of a delivery from the broker to its reader, unless the
	// broker or this process is slow.
	ArrivalTime = 100 * time.Millisecond
	// HeldTime is the longest time for which a claim holds something without a pause. The
	// rest up to queue.MaxHeld is for the work in hand.
	HeldTime = queue.MaxHeld - 5*time.Minute
	// ActiveFor is the time after its last delivery for which a partition counts as
	// ours: the broker does not say which consumer is the active one.
	ActiveFor = 10 * time.Second
)

// Keeper keeps a replica's subscriptions of all partitions. Fields that are exported
// must be set before Run, all but Watch. Safe for concurrent use.
type Keeper struct {
	Config
	Queues   []string                          // the partitions, by number
	Prefetch int                               // messages of one partition held at most
	Patience time.Duration                     // for the work in hand when a partition is given up
	Take     func(c *Claim, d *queue.Delivery) // gets the deliveries, in order; it must not block

	turned [queue.MaxPartitions]atomic.Int64 // when each partition's loop made its last turn, in ns since 1970; 0: it does not run

	mu      sync.Mutex
	place   Place
	trial   bool
	changed chan struct{} // closed when place or trial has changed
	claims  map[string]*Claim
}

// Run consumes until ctx ends, then leaves all partitions, which takes Patience at most
// and a moment. It returns an error if the broker is closed by others. Call it once.
func (k *Keeper) Run(ctx context.Context) error {
	place, alone, ok := k.Find(ctx.Done()) //nolint:contextcheck // each try has a bound of its own
	if !ok {
		return nil // ctx has ended
	}
	k.claims = make(map[string]*Claim, len(k.Queues))
	k.move(place, !alone)
	group, run := errgroup.WithContext(ctx)
	for i := range k.Queues {
		group.Go(func() error { return k.keep(run, i) })
	}
	group.Go(func() error { k.watch(run); return nil })
	err := group.Wait()
	place, _ = k.standing()
	place.Close()
	return err
}

// move subscribes to every partition with the priorities of a place.
func (k *Keeper) move(p Place, trial bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.changed != nil {
		close(k.changed)
	}
	k.place, k.trial, k.changed = p, trial, make(chan struct{})
}

// standing is the place, and whether it is on trial.
func (k *Keeper) standing() (Place, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.place, k.trial
}

// watch ends the trial, and finds another slot where somebody has taken the same.
func (k *Keeper) watch(ctx context.Context) {
	if p, trial := k.standing(); trial && backoff.Sleep(ctx, TrialTime) {
		k.move(p, false)
	}
	for backoff.Sleep(ctx, SlotCheck) {
		old, _ := k.standing()
		if taken, err := k.IsTaken(ctx, old); err != nil || !taken || k.Random() < 0.5 {
			continue // the other one may find another
		}
		if p, _, ok := k.Find(ctx.Done()); ok { //nolint:contextcheck // as above
			k.move(p, false)
			old.Close()
		}
	}
}

// keep subscribes to a partition until ctx ends. A new subscription is there before the
// old one is left, so that the broker gives the partition to nobody with a lower priority
// meanwhile.
func (k *Keeper) keep(ctx context.Context, i int) error {
	defer k.turned[i].Store(0)
	var leaving sync.WaitGroup
	defer leaving.Wait()
	leave := func() {}
	for {
		c, err := k.open(i)
		leaving.Go(leave)
		if err != nil {
			return err
		}
		leave = func() { k.leave(c) }
		if err := k.serve(ctx, c, &k.turned[i]); err != nil || ctx.Err() != nil {
			k.turned[i].Store(0)
			leave()
			return err
		}
	}
}

// open subscribes to a partition with this replica's priority for it.
func (k *Keeper) open(i int) (*Claim, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sub, err := k.Broker.Consume(k.Queues[i], queue.ConsumeOptions{Prefetch: k.Prefetch, Priority: k.place.Priority(i, k.trial)})
	if err != nil {
		return nil, fmt.Errorf("consume partition: %w", err)
	}
	c := &Claim{queue: k.Queues[i], sub: sub, prefetch: k.Prefetch, changed: k.changed, idle: make(chan struct{})}
	k.claims[c.queue] = c
	return c, nil
}

// serve passes deliveries on until ctx ends or the claim is to be renewed.
func (k *Keeper) serve(ctx context.Context, c *Claim, turned *atomic.Int64) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		turned.Store(time.Now().UnixNano())
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
			return nil
		case d, ok := <-c.sub.Deliveries():
			switch {
			case ok && k.Watch.Take(d):
			case ok:
				k.Watch.Saw(c.queue)
				c.add()
				k.Take(c, d)
			case ctx.Err() == nil:
				return fmt.Errorf("consume partition: %w", queue.ErrClosed)
			default:
				return nil // the broker is closing, too
			}
		case <-tick.C:
			if k.isOutranked(ctx, c) || c.heldFor() > HeldTime {
				return nil
			}
		}
	}
}

// isOutranked finds out whether the broker waits for this replica to hold nothing: it
// holds something, is delivered nothing, and more waits, which is not on its way. What is
// held may be in nobody's hands for long, when its page waits for something.
func (k *Keeper) isOutranked(ctx context.Context, c *Claim) bool {
	if !c.isStarved() {
		return false
	}
	info, err := k.inspect(ctx, c.queue)
	return err == nil && info.Ready > 0 && backoff.Sleep(ctx, ArrivalTime) && len(c.sub.Deliveries()) == 0
}

// leave gives a claim up. Nothing more of it is begun, and the work in hand ends. Then the
// broker puts the rest back to the front of its queue, in order.
func (k *Keeper) leave(c *Claim) {
	select {
	case <-c.stop():
	case <-time.After(k.Patience):
		k.Log.Warn("partition given up with work in hand, which is done again", "queue", c.queue, "patience", k.Patience)
	}
	if err := c.sub.Close(); err != nil {
		k.Log.Warn("subscription of a partition not closed", "queue", c.queue, "err", err)
	}
}

// SinceTurn returns the longest time since a partition's loop made its last turn, 0 while none
// runs. A well one makes a turn every few seconds, whatever its events wait for.
func (k *Keeper) SinceTurn() (longest time.Duration) {
	for i := range k.turned { // without the lock, which a loop that stands still may have
		if at := k.turned[i].Load(); at != 0 {
			longest = max(longest, time.Since(time.Unix(0, at)))
		}
	}
	return longest
}

// Owned is the number of the partitions of which something is held, or was delivered
// lately.
func (k *Keeper) Owned() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.claims {
		if c.isActive() {
			n++
		}
	}
	return n
}
