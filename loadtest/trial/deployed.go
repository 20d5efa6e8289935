package trial

import (
	"context"
	"fmt"
	"time"
)

// checkDeployed reads the counts that a running system's ledger holds already, and takes
// the platform's limit as it is.
func (t *trial) checkDeployed(ctx context.Context) (err error) {
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
	t.Part.Limit = float64(settings.Text.PerSecond)
	t.note("the platform is taken as it is: %d texts a second and page by %s, latency %v", settings.Text.PerSecond, settings.Text.Algorithm, settings.Latency)
	return nil
}

// putBack sets a running deployment's platform to the limit that it had before
// the trial, if the trial has changed it.
func (t *trial) putBack(ctx context.Context) error {
	if t.Deployed == nil || len(t.limits) < 2 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second) // a question to the platform
	defer cancel()
	if err := t.setLimit(ctx, t.Part.Limit, 0); err != nil {
		return fmt.Errorf("put the platform's limit back to %g a second, which is left to you: %w", t.Part.Limit, err)
	}
	return nil
}
