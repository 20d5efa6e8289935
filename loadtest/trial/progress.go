package trial

import (
	"context"
	"time"

	"chatclub/internal/backoff"
)

// Progress is how a trial stands.
type Progress struct {
	Left     time.Duration // of the load; 0 once it is over
	SentPerS float64       // in the last step
	Sent     int64
	Refused  int64
	Awaited  int64 // announced and not accepted: lost, if it stays so
	Dead     int
}

// watchEvery is how often progress is told, less often where it costs too much.
const watchEvery = 500 * time.Millisecond

// watch reports the progress until ctx ends.
func (t *trial) watch(ctx context.Context) {
	if t.Progress == nil {
		return
	}
	last, at := t.before.Accepted, t.controls.begin
	for every := watchEvery; backoff.Sleep(ctx, every); {
		c, err := t.judge.Totals(ctx)
		if err != nil {
			continue // verdict will see it
		}
		every = max(watchEvery, again(c.Pending))
		now := time.Now()
		t.Progress(Progress{
			Left:     max(0, t.Plan.Length-now.Sub(t.controls.begin)),
			SentPerS: float64(c.Accepted-last) / now.Sub(at).Seconds(),
			Sent:     c.Accepted - t.before.Accepted, Refused: c.Refused - t.before.Refused, Awaited: c.Pending - t.earlier.Pending, Dead: t.dead.count(),
		})
		last, at = c.Accepted, now
	}
}
