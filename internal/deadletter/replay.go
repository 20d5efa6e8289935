package deadletter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
)

// maxBatch bounds one publish, and so the copies that a kill doubles.
const maxBatch = 64

// batchesPerSecond is the number of batches that a rate is made of: few enough for
// round trips to a slow broker, so that the rate is kept.
const batchesPerSecond = 10

// Replay says which letters are sent again, and how.
type Replay struct {
	Filter
	Rate  float64 // letters a second, above 0
	Limit int     // letters at most; 0: all
	Renew bool    // their age begins again
}

// Batch returns the number of letters that are published and acknowledged together.
func (r Replay) Batch() int {
	return int(min(max(1, math.Ceil(r.Rate/batchesPerSecond)), maxBatch))
}

// Outcome is the result of a replay.
type Outcome struct {
	Replayed Counts
	Kept     Counts // meant, but not one of our messages
}

// Replay publishes every letter that is meant to the queue that it came from,
// under its own id and in order, and takes it off the dead-letter queue when that
// is confirmed. After an error, or a kill, the rest is still there: to begin again
// goes on. It refuses when the deployment has another number of partitions.
func (q Queue) Replay(ctx context.Context, r Replay) (Outcome, error) {
	run := replaying{Replay: r, queue: q, out: Outcome{Replayed: make(Counts), Kept: make(Counts)}}
	if err := q.checkPartitions(ctx); err != nil {
		return run.out, err
	}
	err := q.walk(ctx, takePrefetch,
		func(d *queue.Delivery) (bool, error) { return run.visit(ctx, d) },
		func() error { return run.flush(ctx) })
	return run.out, err
}

// checkPartitions returns an error when a page's messages would go to another
// partition than where its dispatcher takes them.
func (q Queue) checkPartitions(ctx context.Context) error {
	t := q.Broker.Topology()
	if _, err := q.inspect(ctx, t.Outbound(t.Partitions-1)); err != nil {
		return fmt.Errorf("%w, or PARTITIONS less than %d", err, t.Partitions)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := q.Broker.Inspect(ctx, t.Outbound(t.Partitions))
	if err == nil {
		return fmt.Errorf("there is a queue %q: PARTITIONS is more than %d", t.Outbound(t.Partitions), t.Partitions)
	}
	if errors.Is(err, queue.ErrUnroutable) {
		return nil
	}
	return err
}

// replaying is a replay on its way.
type replaying struct {
	Replay
	queue Queue
	out   Outcome

	seen    int
	letters []Letter // of batch
	batch   []queue.Transfer
	due     time.Time // of the next batch
}

// visit adds a letter to the batch.
func (r *replaying) visit(ctx context.Context, d *queue.Delivery) (taken bool, err error) {
	now, t := r.queue.Now(), r.queue.Broker.Topology()
	l := Read(d, t)
	if !r.Match(l, now) {
		return false, nil
	}
	var renew time.Time
	if r.Renew {
		renew = now
	}
	list, err := l.Revive(t, renew)
	if err != nil {
		r.out.Kept[l.Reason]++
		return false, nil //nolint:nilerr // it is counted, and stays
	}
	r.letters = append(r.letters, l)
	r.batch = append(r.batch, queue.Transfer{Delivery: d, To: list})
	r.seen++
	if last := r.seen == r.Limit; last || len(r.batch) == r.Batch() {
		if err = r.flush(ctx); err == nil && last {
			err = errEnough
		}
	}
	return true, err
}

// flush publishes the batch when it is due, and acknowledges the confirmed letters.
func (r *replaying) flush(ctx context.Context) error {
	if len(r.batch) == 0 {
		return nil
	}
	if !backoff.Sleep(ctx, r.due.Sub(r.queue.Now())) {
		return context.Cause(ctx)
	}
	r.due = r.queue.Now().Add(time.Duration(float64(len(r.batch)) / r.Rate * float64(time.Second)))
	// A begun publish is ended: a signal must not double it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	var errs []error
	for i, err := range queue.TransferAll(ctx, r.queue.Broker, r.batch) {
		switch {
		case err == nil:
			r.out.Replayed[r.letters[i].Reason]++
		case errors.Is(err, queue.ErrStale):
			errs = append(errs, ErrLost)
		default:
			errs = append(errs, fmt.Errorf("replay %q: %w", r.letters[i].ID, err))
		}
	}
	r.letters, r.batch = nil, nil
	if len(errs) > 0 {
		return errs[0] // the others are like it
	}
	return nil
}
