package core

import (
	"context"
	"errors"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/rooms"
)

// errAbandoned: the event is left as it is; it will be delivered again.
var errAbandoned = errors.New("event abandoned")

const (
	// storeTimeout bounds one operation of the database: a hundred times what
	// the slowest takes, less than a lost connection takes to be noticed.
	storeTimeout = 10 * time.Second
	// The pauses between tries: the first is some times a broker's failover or
	// a deadlock's length, the longest what an operator sees as "at once".
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// retry calls do until it returns nil or a fault that lies in the event, and
// returns that. It gives up, with errAbandoned, only when run has ended or
// live says no; pauses grow from minPause to maxPause, ± 25 %.
func (c *Core) retry(run context.Context, live func() bool, s step, do func() error) error {
	for failures := 1; ; failures++ {
		err := do()
		if err == nil || errors.Is(err, rooms.ErrData) {
			return err
		}
		pause := pauseAfter(failures)
		c.failed(run, s, err, pause)
		if !backoff.Sleep(run, pause) || !live() {
			return errAbandoned
		}
	}
}

// failed counts and logs a failure that is tried again after pause.
func (c *Core) failed(ctx context.Context, s step, err error, pause time.Duration) {
	c.metrics.failures.WithLabelValues(string(s)).Inc()
	c.cfg.Log.WarnContext(ctx, "step failed", "step", s, "retry_in", pause, "err", err)
}

// onStore gives an operation of the database its time limit.
func onStore(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return do(ctx)
}

// pauseAfter returns the pause after so many failures in a row, from 1.
func pauseAfter(failures int) time.Duration {
	return backoff.Policy{Min: minPause, Max: maxPause, Low: 0.75, High: 1.25}.Delay(failures)
}
