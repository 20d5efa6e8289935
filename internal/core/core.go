// Package core turns each inbound event into its outbound copies. Package rooms
// decides what an event does, package fanout makes the copies; core publishes
// them and acknowledges the event. It guarantees that
//
//   - an event is acknowledged only after every copy is confirmed and the event
//     is marked as finished. A core that is killed before that loses nothing: the
//     event is delivered again and makes the same copies with the same ids;
//   - a finished event that is repeated makes no copy;
//   - the events of one page are handled one after another, in the order of their
//     queue, whatever the number of cores. A page with many delays those of its
//     partition only, and these only by the events above Config.Prefetch;
//   - a database or broker that fails delays events and never drops one. An event
//     that the database can never store goes to the dead-letter queue, and so
//     does a message that is no event.
//
// Any number of cores may share one database.
package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/partitions"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

const (
	// retention is the time for which a repeated event is recognised. Messenger repeats
	// an event for at most an hour before it unsubscribes the app. The rest allows for
	// a queue that stood still.
	retention = 24 * time.Hour
	// pruneEvery keeps each pruning small beside a day of events.
	pruneEvery = 10 * time.Minute
	// forgetEvery is the period of forgetting the users who were silent for a year.
	forgetEvery = 24 * time.Hour
	// audienceEvery is often enough for an operator to watch.
	audienceEvery = time.Minute
	// overviewEvery is often enough for alerts, which wait for some minutes.
	overviewEvery = time.Minute
	// maxDuty is the share of the time that one of these may take, because they read
	// whole tables. A slow step is done less often.
	maxDuty = 0.01
	// fileEvery is the period of looking for SQLite's file, and of saying that it is gone.
	fileEvery = time.Minute
	// countEvery is the period of writing the counts. That is often enough for an
	// operator to watch, and a killed core loses the counts of five seconds.
	countEvery = 5 * time.Second
	// silentPause is the pause before the next question whether the broker answers.
	silentPause = 100 * time.Millisecond
)

// Core consumes its part of the inbound partitions. The zero value is not useful; New makes a
// Core. Safe for concurrent use.
type Core struct {
	cfg     Config
	metrics *metrics
	retry   retrier
	startup *startup
	handler *handler
	pages   *pages // of Run
	keeper  *partitions.Keeper
}

// New returns a Core that does nothing before Run.
func New(cfg Config) (*Core, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new core: %w", err)
	}
	c := &Core{cfg: cfg, metrics: newMetrics(cfg.Registerer)}
	c.retry = retrier{failures: c.metrics.failures, log: cfg.Log, failed: new(atomic.Int64)}
	c.startup = &startup{store: cfg.Store, now: cfg.Now, retry: c.retry, unready: errNotStarted}
	c.handler = newHandler(cfg, c.metrics, c.retry)
	top := cfg.Broker.Topology()
	c.keeper = &partitions.Keeper{
		Config: partitions.Config{Broker: cfg.Broker, Slots: top.CoreSlots(), Log: cfg.Log, Random: rand.Float64, Watch: cfg.Watch},
		Queues: top.Inbounds(), Prefetch: cfg.Prefetch, Patience: cfg.ShutdownTimeout, Take: c.take,
	}
	c.metrics.registerPartitions(cfg.Registerer, c.keeper.Owned)
	return c, nil
}

// Ready returns nil once Run takes events, while both the broker and the database
// answer and no partition stands. Otherwise the error says which of them does not, how far
// the migration of the database is, or which partition stands. Safe for concurrent use.
func (c *Core) Ready(ctx context.Context) error {
	var broker error
	if err := c.cfg.Broker.Ready(); err != nil {
		broker = fmt.Errorf("broker: %w", err)
	}
	database := c.startup.state()
	if database == nil {
		database = c.cfg.Store.Ping(ctx)
	}
	return errors.Join(broker, database, c.cfg.Watch.Ready())
}

// SinceTurn returns the longest time for which the loop that takes a partition's events has
// made no turn: some seconds at most, however long an event takes. Safe for concurrent use.
func (c *Core) SinceTurn() time.Duration { return c.keeper.SinceTurn() }

// Run migrates the database, then handles events until ctx ends. It returns nil
// after its goroutines have ended. At the end it takes no more events, finishes
// those in progress within ShutdownTimeout, and hands the others back in order.
//
// It waits as long as it takes: for a database or a broker that is away, and for
// its own migration or that of another core, and for a bot that consumes the events. It returns an error if the
// database is newer than this program or older than any release, if a subscription is
// refused or ended from elsewhere, or if Alongside fails. Call it once.
func (c *Core) Run(ctx context.Context) error {
	if err := c.startup.migrate(ctx); err != nil {
		if errors.Is(err, errAbandoned) {
			return nil // ctx has ended
		}
		return err
	}
	if !c.awaitBot(ctx) {
		return nil
	}
	c.startup.set(nil)
	c.cfg.Log.InfoContext(ctx, "core started", "workers", c.cfg.Workers, "prefetch", c.cfg.Prefetch)

	group, run := errgroup.WithContext(ctx)
	// Work that was begun may go on for a while after run has ended.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	c.pages = newPages(c.cfg.Workers, c.cfg.Broker.Topology().Partitions)
	start := func(f func()) { group.Go(func() error { f(); return nil }) }
	for range c.cfg.Workers {
		start(func() { c.work(run, work) })
	}
	start(func() { c.repeat(run, stepPrune, pruneEvery, c.onTime(pruneEvery, c.prune)) })
	start(func() { c.repeat(run, stepPrune, forgetEvery, c.onTime(forgetEvery, c.cfg.Store.PrunePeople)) })
	start(func() { c.repeat(run, stepAudience, audienceEvery, c.cfg.Store.CountAudiences) })
	start(func() { c.repeat(run, stepOverview, overviewEvery, c.overview) })
	start(func() { c.count(run, work) })
	start(func() { c.watchFile(run) })
	start(func() { c.watch(run) })
	if c.cfg.Idle > 0 {
		start(func() { sweeper{c.cfg, c.retry}.run(run) })
	}
	if c.cfg.Alongside != nil {
		group.Go(func() error { return c.cfg.Alongside(run) })
	}
	group.Go(func() error { return c.keeper.Run(run) })

	<-run.Done()
	c.pages.close()
	timer := time.AfterFunc(c.cfg.ShutdownTimeout, cancel)
	defer timer.Stop()
	err := group.Wait()
	c.writeCounts(work)
	return err
}

// take puts an event behind those of its page.
func (c *Core) take(claim *partitions.Claim, d *queue.Delivery) {
	in := inbound{claim: claim, delivery: d}
	in.event, in.err = message.DecodeEvent(d.Body)
	c.pages.add(in)
}

// work handles the next event of one page after another. After run has ended it
// begins no other; work bounds the one in progress.
func (c *Core) work(run, work context.Context) {
	for {
		in, ok := c.pages.next()
		if !ok {
			return
		}
		in.claim.Handle(func() { c.handle(run, work, in) })
		c.pages.done(in)
	}
}

// handle handles one event. While the broker is silent it waits, because another core may
// have the event by now: after a cut-off, or when this process was paused.
func (c *Core) handle(run, work context.Context, in inbound) {
	for in.delivery.Live() && c.cfg.Broker.IsSilent() && backoff.Sleep(run, silentPause) {
	}
	if run.Err() != nil {
		return
	}
	if !in.delivery.Live() {
		c.metrics.stale.Inc()
		return
	}
	c.metrics.inHand.Inc()
	begin := time.Now()
	c.handler.handle(run, work, in)
	c.metrics.duration.Observe(time.Since(begin).Seconds())
	c.metrics.inHand.Dec()
}

// repeat does a step now and then, until ctx ends. One that fails is tried again soon.
func (c *Core) repeat(ctx context.Context, s step, every time.Duration, do func(context.Context) error) {
	for {
		var took time.Duration
		err := c.retry.do(ctx, func() bool { return true }, s, func() error {
			begin := time.Now()
			err := do(ctx)
			took = time.Since(begin)
			if ctx.Err() == nil {
				if err != nil { // a slow failure is no more frequent than a slow success
					backoff.Sleep(ctx, min(every, time.Duration(float64(took)/maxDuty)))
				}
				return err
			}
			return nil // its end interrupted the step
		})
		if errors.Is(err, errAbandoned) || !backoff.Sleep(ctx, max(every, time.Duration(float64(took)/maxDuty))) {
			return // ctx has ended
		}
	}
}

// onTime returns a step that deletes what is old, unless the clock is far ahead. Only people
// set a clock right, so the next try is the next step.
func (c *Core) onTime(every time.Duration, do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := c.cfg.Store.CheckClock(ctx)
		if errors.Is(err, rooms.ErrAhead) {
			c.retry.note(ctx, stepPrune, err, every)
			return nil
		}
		if err != nil {
			return err
		}
		return do(ctx)
	}
}

// prune deletes old events.
func (c *Core) prune(ctx context.Context) error {
	n, err := c.cfg.Store.Prune(ctx, c.cfg.Now().Add(-retention))
	if err == nil {
		c.cfg.Log.DebugContext(ctx, "pruned events", "events", n)
	}
	return err
}

// overview sets the gauges of all pages.
func (c *Core) overview(ctx context.Context) error {
	view, err := c.cfg.Store.Overview(ctx)
	if err == nil {
		c.metrics.setOverview(view)
	}
	return err
}

// watchFile says every minute that SQLite's file is gone, until ctx ends. Ready does, too, but
// perhaps nobody asks.
func (c *Core) watchFile(ctx context.Context) {
	for backoff.Sleep(ctx, fileEvery) {
		if err := c.cfg.Store.Ping(ctx); errors.Is(err, rooms.ErrGone) {
			c.cfg.Log.ErrorContext(ctx, "database is gone", "err", err)
		}
	}
}

// count writes the counts now and then, until run ends. The end of run does not
// interrupt a write, because its counts would be lost; work bounds it.
func (c *Core) count(run, work context.Context) {
	for backoff.Sleep(run, countEvery) {
		c.writeCounts(work)
	}
}

// writeCounts writes the counts once. Counts that cannot be written are lost,
// because figures for operators are no reason to delay anything.
func (c *Core) writeCounts(ctx context.Context) {
	counts := c.cfg.Counter.Take()
	if len(counts) == 0 {
		return
	}
	if err := c.cfg.Store.AddCounts(ctx, counts); err != nil {
		c.retry.note(ctx, stepCount, err, countEvery)
	}
}
