package trial

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"chatclub/internal/load"
)

// load makes the load, and what the script says, until both are over.
func (t *trial) load(ctx context.Context, streams []load.Stream) error {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer stop()
	watcher.Go(func() { t.watch(watching) })
	all, loading := errgroup.WithContext(ctx)
	for _, f := range t.foreign {
		all.Go(func() error { return load.Run(loading, t.stage.begin, load.NewTally(), f.stream()) })
	}
	for i, s := range streams {
		tally := t.tally
		if t.Plan.Streams[i].Backlog {
			tally = load.NewTally()
		}
		all.Go(func() error { return load.Run(loading, t.stage.begin, tally, s) })
	}
	all.Go(func() error { return t.script(loading) })
	err := all.Wait()
	if err != nil && ctx.Err() != nil {
		err = nil // it was asked to stop
	}
	if err == nil { // to its end, also where nothing was due at the last
		wait(ctx, time.Until(t.stage.begin.Add(t.Plan.Length)))
	}
	t.length = min(time.Since(t.stage.begin), t.Plan.Length)
	return err
}

// script does the plan's steps in their order.
func (t *trial) script(ctx context.Context) error {
	for _, s := range t.Plan.Script {
		if !wait(ctx, time.Until(t.stage.begin.Add(s.At))) {
			return nil
		}
		t.Log.Info("step", "at", time.Since(t.stage.begin), "name", s.Name)
		if err := s.Do(context.WithoutCancel(ctx), t.stage); err != nil {
			return fmt.Errorf("at %v, %s: %w", s.At, s.Name, err)
		}
	}
	return nil
}

// wait waits for d; false means that ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// grace is how long calls that were made at the load's end may take to be
// answered before the book is read.
const grace = time.Second

// settle waits for what the plan says should still arrive.
func (t *trial) settle(ctx context.Context, interrupted bool) error {
	if t.hook != nil {
		t.hook.posts.Wait()
	}
	for _, f := range t.foreign {
		f.calls.Wait()
	}
	longest := t.Plan.Drain
	if interrupted {
		longest = 0
	}
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer stop()
	watcher.Go(func() { t.watch(watching) })
	end := time.Now().Add(max(longest, grace))
	for time.Now().Before(end) {
		c, err := t.judge.Totals(ctx)
		if err != nil {
			return err
		}
		if c.Pending == 0 {
			t.drained = time.Since(t.stage.begin)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	var err error
	t.ended, err = t.fleet.Usage()
	t.measured = time.Since(t.stage.begin)
	return err
}
