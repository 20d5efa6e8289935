package load

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
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
	Intended int64                   // things that were due
	Done     int64                   // things that happened
	Late     *hdrhistogram.Histogram // µs from due until the system had taken it

	mu sync.Mutex
}

// NewTally returns an empty one.
func NewTally() *Tally {
	return &Tally{Late: hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 2)}
}

func (t *Tally) done(now time.Time, due []time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Done += int64(len(due))
	for _, d := range due {
		_ = t.Late.RecordValue(min(max(now.Sub(d).Microseconds(), 1), int64(time.Hour/time.Microsecond)))
	}
}

// OnTime is the share of the things intended that happened within a second of
// when they were due, 1 if there were none.
func (t *Tally) OnTime() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Intended == 0 {
		return 1
	}
	within := int64(0)
	for _, b := range t.Late.Distribution() {
		if b.To <= int64(time.Second/time.Microsecond) {
			within += b.Count
		}
	}
	return float64(within) / float64(t.Intended)
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
		if wait := time.Until(due); wait > 0 && !sleep(ctx, max(wait, finest)) {
			return ctx.Err()
		}
		batch = batch[:0]
		for now := time.Now(); more && len(batch) < size; after, more = next() {
			if due = begin.Add(after); due.After(now) {
				break
			}
			batch = append(batch, due)
		}
		tally.mu.Lock()
		tally.Intended += int64(len(batch))
		tally.mu.Unlock()
		if err := s.Do(ctx, batch); err != nil {
			return err
		}
		tally.done(time.Now(), batch)
	}
	return nil
}

// sleep waits for d; false means that ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
