package trial

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"chatclub/internal/backoff"
	"chatclub/loadtest/load"
)

// load makes the load, and what the script says, until both are over.
func (t *trial) load(ctx context.Context, streams []load.Stream) error {
	defer t.attend(ctx)()
	all, loading := errgroup.WithContext(ctx)
	for _, f := range t.foreign {
		all.Go(func() error { return load.Run(loading, t.controls.begin, load.NewTally(), f.stream()) })
	}
	for i, s := range streams {
		tally := t.tally
		if t.Plan.Streams[i].Backlog {
			tally = load.NewTally()
		}
		all.Go(func() error { return load.Run(loading, t.controls.begin, tally, s) })
	}
	all.Go(func() error { return t.script(loading) })
	err := all.Wait()
	if err != nil && ctx.Err() != nil {
		err = nil // it was asked to stop
	}
	if err == nil { // to its end, also where nothing was due at the last
		backoff.Sleep(ctx, time.Until(t.controls.begin.Add(t.Plan.Length)))
	}
	t.length = min(t.ran(), t.Plan.Length)
	return err
}

// lateStep is how late a step may be for the run to count, as the load may.
const lateStep = time.Second

// script does the plan's steps in their order.
func (t *trial) script(ctx context.Context) error {
	for _, s := range t.Plan.Script {
		if !backoff.Sleep(ctx, time.Until(t.controls.begin.Add(s.At))) {
			return nil
		}
		at := t.ran()
		t.Log.Info("step", "at", at, "name", s.Name)
		if late := at - s.At; late > lateStep {
			t.late = append(t.late, fmt.Sprintf("a step was late: %s, %.1f s after its time", s.Name, late.Seconds()))
		}
		if err := s.Do(context.WithoutCancel(ctx), t.controls); err != nil {
			return fmt.Errorf("at %v, %s: %w", s.At, s.Name, err)
		}
	}
	return nil
}

// grace is how long calls that were made at the load's end may take to be
// answered before the ledger is read.
const grace = time.Second

// settle waits for what the plan says should still arrive. What is dead will
// not.
func (t *trial) settle(ctx context.Context) error {
	if t.hook != nil {
		t.hook.posts.Wait()
	}
	for _, f := range t.foreign {
		f.calls.Wait()
	}
	longest := t.Plan.Drain
	if t.stopped {
		longest = 0
	}
	defer t.attend(ctx)()
	end := time.Now().Add(max(longest, grace))
	for {
		c, err := t.judge.Totals(ctx)
		if err != nil {
			return err
		}
		left := c.Pending - int64(t.dead.count())
		if t.arrived = left <= 0; t.arrived || !time.Now().Before(end) {
			break
		}
		backoff.Sleep(ctx, min(again(left), time.Until(end)))
	}
	var err error
	t.ended, err = t.fleet.Usage()
	t.measured = t.ran()
	return err
}
