package core

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

const (
	// retention is how long a repeated event is recognised. Messenger repeats
	// one for at most an hour before it unsubscribes the app; the rest allows
	// for a queue that stood still.
	retention = 24 * time.Hour
	// pruneEvery keeps a round of pruning small beside a day of events.
	pruneEvery = 10 * time.Minute
)

// job is a delivery with the event in it, or why there is none.
type job struct {
	delivery *queue.Delivery
	event    message.Event
	err      error
}

// Run migrates the database, then handles events until ctx ends, and returns
// nil after its goroutines have ended: it takes no more events, finishes those
// begun within ShutdownTimeout, and hands the others back in order, and its
// broadcasts to other cores. It waits
// for a database or a broker that is away, and for a migration, its own or that
// of another core, as long as it takes. It returns an error when the database
// is newer than this program, or the subscription is refused or ended from
// elsewhere. Call it once.
func (c *Core) Run(ctx context.Context) error {
	if err := c.migrate(ctx); err != nil {
		if errors.Is(err, errAbandoned) {
			return nil // ctx has ended
		}
		return err
	}
	sub, err := c.cfg.Broker.Consume(c.cfg.Broker.Topology().Inbound(), queue.ConsumeOptions{Prefetch: c.cfg.Prefetch})
	if err != nil {
		return fmt.Errorf("consume events: %w", err)
	}
	c.setUnready(nil)
	c.cfg.Log.InfoContext(ctx, "core started", "workers", c.cfg.Workers, "prefetch", c.cfg.Prefetch)

	run, stop := context.WithCancel(ctx)
	defer stop()
	// What was begun may go on for a while after run has ended.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var group sync.WaitGroup
	shards := make([]chan job, c.cfg.Workers)
	for i := range shards {
		// Room for all that can be held: a busy page does not keep the intake
		// from the pages of other shards, until its events are all that is held.
		shards[i] = make(chan job, c.cfg.Prefetch)
		group.Go(func() { c.work(run, work, shards[i]) })
	}
	group.Go(func() { c.prune(run) })
	group.Go(func() { c.count(run, work) })
	group.Go(func() { c.caster.run(run, work) })
	if c.cfg.Idle > 0 {
		group.Go(func() { c.sweep(run) })
	}
	if c.router != nil {
		group.Go(func() { c.router.run(run) })
	}

	err = c.intake(run, sub, shards)
	if ctx.Err() != nil {
		err = nil // the broker, too, may be ending
	}
	stop()
	timer := time.AfterFunc(c.cfg.ShutdownTimeout, cancel)
	for _, shard := range shards {
		close(shard)
	}
	group.Wait()
	c.writeCounts(work)
	timer.Stop()
	// What is not settled returns to the front of the queue.
	if closeErr := sub.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close subscription: %w", closeErr)
	}
	return err
}

// errNotStarted is the readiness before Run.
var errNotStarted = errors.New("core has not started")

// setUnready is what Ready tells from now on.
func (c *Core) setUnready(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unready = err
}

// migrate prepares the database, and tells Ready how it goes. It tries until
// it succeeds, the database turns out to be newer than this program, or ctx has
// ended (errAbandoned). A try has no time-out: a step cut off is rolled back,
// and would be begun anew for ever.
func (c *Core) migrate(ctx context.Context) error {
	var last, newer error
	try := func() error {
		state := fmt.Errorf("database: migrating since %s", c.cfg.Now().UTC().Format(time.RFC3339))
		if last != nil {
			state = fmt.Errorf("%w, after %w", state, last)
		}
		c.setUnready(state)
		err := c.cfg.Store.Migrate(ctx)
		if err != nil {
			last = err
			c.setUnready(fmt.Errorf("database: %w", err))
		}
		if errors.Is(err, rooms.ErrNewer) {
			newer = err
			return nil
		}
		return err
	}
	if err := c.retry(ctx, func() bool { return true }, stepMigrate, try); err != nil {
		return err
	}
	return newer
}

// intake hands each event to the shard of its page until ctx ends.
func (c *Core) intake(ctx context.Context, sub queue.Subscription, shards []chan job) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, ok := <-sub.Deliveries():
			if !ok {
				return fmt.Errorf("consume events: %w", queue.ErrClosed)
			}
			j := job{delivery: d}
			j.event, j.err = message.DecodeEvent(d.Body)
			select {
			case shards[shardOf(j.event.Page, len(shards))] <- j:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// shardOf is the worker of a page. What could not be decoded has no page, and
// no order to keep.
func shardOf(page string, shards int) int {
	h := fnv.New32a()
	h.Write([]byte(page))
	return int(h.Sum32() % uint32(shards)) //nolint:gosec // Workers is small and positive
}

// work handles the events of a shard in their order. After run has ended it
// begins no other; work bounds the one in hand.
func (c *Core) work(run, work context.Context, jobs <-chan job) {
	for j := range jobs {
		if run.Err() != nil {
			continue
		}
		if !j.delivery.Live() {
			c.metrics.stale.Inc()
			continue
		}
		c.metrics.inHand.Inc()
		begin := time.Now()
		c.handle(run, work, j)
		c.metrics.duration.Observe(time.Since(begin).Seconds())
		c.metrics.inHand.Dec()
	}
}

// prune forgets old events now and then, until ctx ends.
func (c *Core) prune(ctx context.Context) {
	for {
		before := c.cfg.Now().Add(-retention)
		n, err := c.cfg.Store.Prune(ctx, before)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.failed(ctx, stepPrune, err, pruneEvery)
		default:
			c.cfg.Log.DebugContext(ctx, "pruned events", "events", n)
		}
		if !backoff.Sleep(ctx, pruneEvery) {
			return
		}
	}
}
