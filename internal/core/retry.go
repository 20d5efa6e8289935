package core

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"chatclub/internal/rooms"
	"chatclub/internal/wait"
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
	for failures := 0; ; failures++ {
		err := do()
		if err == nil || errors.Is(err, rooms.ErrData) {
			return err
		}
		pause := backoff(failures)
		c.failed(run, s, err, pause)
		if !wait.For(run, pause) || !live() {
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

func backoff(failures int) time.Duration {
	pause := maxPause
	if shift := min(failures, 10); minPause<<shift < maxPause {
		pause = minPause << shift
	}
	return time.Duration(float64(pause) * (0.75 + rand.Float64()/2))
}
