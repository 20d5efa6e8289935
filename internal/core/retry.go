package core

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/backoff"
	"chatclub/internal/rooms"
)

// errAbandoned says that an event is left unsettled, to be delivered again.
var errAbandoned = errors.New("event abandoned")

// pauses are the pauses between two tries, ± 25 %. The first is some times the
// length of a broker's failover or a deadlock. The longest is 2 s, which users hardly
// notice after an outage. Each worker makes one try in that time.
var pauses = backoff.Policy{Min: 50 * time.Millisecond, Max: 1600 * time.Millisecond, Low: 0.75, High: 1.25}

// retrier repeats failed steps. Safe for concurrent use.
type retrier struct {
	failures map[step]prometheus.Counter
	log      *slog.Logger
	failed   *atomic.Int64 // when a step failed last, in ns since 1970
}

// do calls try until it returns nil or an error whose cause is in the event, and
// returns that. It gives up, with errAbandoned, only if run has ended or live
// returns false.
func (r retrier) do(run context.Context, live func() bool, s step, try func() error) error {
	for failures := 1; ; failures++ {
		err := try()
		if err == nil || errors.Is(err, rooms.ErrData) {
			return err
		}
		pause := pauses.Delay(failures)
		r.note(run, s, err, pause)
		if !backoff.Sleep(run, pause) || !live() {
			return errAbandoned
		}
	}
}

// note counts and logs a failure that is tried again after pause.
func (r retrier) note(ctx context.Context, s step, err error, pause time.Duration) {
	r.failures[s].Inc()
	r.failed.Store(time.Now().UnixNano())
	r.log.WarnContext(ctx, "step failed", "step", s, "retry_in", pause, "err", err)
}
