package load

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

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

// finest is the shortest sleep of the generator: things due within a millisecond
// happen together, which is short against any call.
const finest = time.Millisecond

// Tally counts the things of streams that have happened. The zero value is empty.
type Tally struct {
	mu      sync.Mutex
	all, ok int
}

// late is the largest delay with which a thing is on time.
const late = time.Second

func (t *Tally) done(now time.Time, due []time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range due {
		if t.all++; now.Sub(d) <= late {
			t.ok++
		}
	}
}

// OnTime is the share of the things that the system had taken within a second of when
// they were due, 1 if there were none. However late, each happens: missing are those
// that were due when the run was stopped.
func (t *Tally) OnTime() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == 0 {
		return 1
	}
	return float64(t.ok) / float64(t.all)
}

// Run makes a stream happen from begin on, and returns when it is over or ctx ends: then
// with what happened until then and no error.
func Run(ctx context.Context, begin time.Time, tally *Tally, s Stream) error {
	if err := s.run(ctx, begin, tally); err != nil && ctx.Err() == nil {
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
