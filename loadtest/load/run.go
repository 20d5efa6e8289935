package load

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"chatclub/internal/backoff"
)

// Stream is things of one kind that happen on a schedule.
type Stream struct {
	Schedule Schedule
	// Do makes things happen, at most Batch at a time, and returns when the
	// system has taken them. It is not called twice at once. The times are when
	// each was due.
	Do    func(ctx context.Context, due []time.Time) error
	Batch int // default 512
}

const defaultBatch = 512

// finest is how long the generator sleeps at least: things due within a
// millisecond happen together, which is short against any call.
const finest = time.Millisecond

// Tally is what a run of streams came to.
type Tally struct {
	Late *hdrhistogram.Histogram // µs from due until the system had taken it, of each thing that happened

	mu sync.Mutex
}

// NewTally returns an empty one.
func NewTally() *Tally {
	return &Tally{Late: hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 2)}
}

func (t *Tally) done(now time.Time, due []time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range due {
		_ = t.Late.RecordValue(min(max(now.Sub(d).Microseconds(), 1), int64(time.Hour/time.Microsecond)))
	}
}

// OnTime is the share of the things that happened within a second of when they
// were due, 1 if there were none. However late, each happens: what is missing
// is what was due when the run was stopped.
func (t *Tally) OnTime() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.Late.TotalCount()
	if all == 0 {
		return 1
	}
	within := int64(0)
	for _, b := range t.Late.Distribution() {
		if b.To <= int64(time.Second/time.Microsecond) {
			within += b.Count
		}
	}
	return float64(within) / float64(all)
}

// Run makes every stream happen from begin on, and returns when all are over
// or ctx ends: then with what happened until then and no error.
func Run(ctx context.Context, begin time.Time, tally *Tally, streams ...Stream) error {
	all, streaming := errgroup.WithContext(ctx)
	for _, s := range streams {
		all.Go(func() error { return s.run(streaming, begin, tally) })
	}
	if err := all.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("make load: %w", err)
	}
	return nil
}

func (s Stream) run(ctx context.Context, begin time.Time, tally *Tally) error {
	next, stop := iter.Pull(s.Schedule.Due())
	defer stop()
	size := s.Batch
	if size == 0 {
		size = defaultBatch
	}
	batch := make([]time.Time, 0, size)
	after, more := next()
	for more {
		due := begin.Add(after)
		if left := time.Until(due); left > 0 && !backoff.Sleep(ctx, max(left, finest)) {
			return ctx.Err()
		}
		batch = batch[:0]
		for now := time.Now(); more && len(batch) < size; after, more = next() {
			if due = begin.Add(after); due.After(now) {
				break
			}
			batch = append(batch, due)
		}
		if err := ctx.Err(); err != nil { // a stream that is behind never waits, and would not notice
			return err
		}
		if err := s.Do(ctx, batch); err != nil {
			return err
		}
		tally.done(time.Now(), batch)
	}
	return nil
}
