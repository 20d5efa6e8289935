package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chatclub/internal/backoff"
)

// checkRunning reads the counts that a running system's ledger holds already, and takes
// the platform's limit as it is.
func (t *trial) checkRunning(ctx context.Context) (err error) {
	if t.earlier, err = t.judge.Totals(ctx); err != nil {
		return err
	}
	if t.earlier.Pending > 0 {
		return fmt.Errorf("the platform still awaits %d messages: nothing else may use the system during a trial", t.earlier.Pending)
	}
	settings, err := t.judge.Settings(ctx)
	if err != nil {
		return err
	}
	text, _ := settings["text"].(map[string]any)
	limit, ok := text["per_second"].(float64)
	if !ok || limit < 1 {
		return errors.New("the platform does not tell its limit of texts a second")
	}
	t.Part.Limit = limit
	t.note("the platform is taken as it is: %g texts a second and page by %v, latency %v", limit, text["algorithm"], settings["latency"])
	return t.checkClock(ctx)
}

// apart is how far the platform's clock may be from ours: a latency is the
// difference of the two, and 20 ms are half of a call's.
const apart = 20 * time.Millisecond

// checkClock notes a platform whose clock is another. Of a few questions the
// one that was answered fastest says most: what it took, it cannot be wrong by.
func (t *trial) checkClock(ctx context.Context) error {
	var offset time.Duration
	least := time.Duration(-1)
	for range 5 {
		asked := time.Now()
		now, err := t.judge.Now(ctx)
		if err != nil || now.IsZero() {
			return err
		}
		if took := time.Since(asked); least < 0 || took < least {
			least, offset = took, now.Sub(asked.Add(took/2))
		}
	}
	if offset.Abs()-least/2 > apart {
		t.note("the platform's clock is %v apart from the load generator's: every latency is wrong by it", offset.Round(time.Millisecond))
	}
	return nil
}

// putBackFor is how long a running deployment's limit is tried to be put back.
const putBackFor = 30 * time.Second

// putBack sets a running deployment's platform to the limit that it had before
// the trial, if the trial has changed it.
func (t *trial) putBack(ctx context.Context) error {
	if !t.Running || len(t.limits) < 2 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackFor)
	defer cancel()
	for {
		err := t.setLimit(ctx, t.Part.Limit)
		if err == nil {
			return nil
		}
		if !backoff.Sleep(ctx, time.Second) {
			return fmt.Errorf("put the platform's limit back to %g a second, which is left to you: %w", t.Part.Limit, err)
		}
	}
}
