package load_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/loadtest/load"
)

func TestScheduleIsDue(t *testing.T) {
	t.Parallel()
	s := load.Schedule{Segments: []load.Segment{
		{Burst: 2, Rate: 2, For: time.Second},
		{For: time.Second},
		{Rate: 4, For: 500 * time.Millisecond},
	}}
	var want []time.Duration
	for _, ms := range []int{0, 0, 0, 500, 2000, 2250} {
		want = append(want, time.Duration(ms)*time.Millisecond)
	}
	if got := slices.Collect(s.Due()); !slices.Equal(got, want) {
		t.Errorf("Due() = %v, want %v", got, want)
	}
}

// A system that takes 100 ms for each batch does not slow the schedule down:
// what was due meanwhile happens together, with the times at which it was due.
func TestLoadIsOpenLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now().Add(time.Second)
		tally := new(load.Tally)
		var due []time.Time
		err := load.Run(t.Context(), begin, tally, load.Stream{
			Schedule: load.Schedule{Segments: []load.Segment{{Rate: 100, For: 10 * time.Second}}},
			Do: func(_ context.Context, batch []time.Time) error {
				due = append(due, batch...)
				time.Sleep(100 * time.Millisecond)
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); len(due) != 1000 || took > 10200*time.Millisecond {
			t.Errorf("%d things in %v, want 1000 within 10.2s", len(due), took)
		}
		for i, at := range due {
			if want := begin.Add(time.Duration(i) * 10 * time.Millisecond); !at.Equal(want) {
				t.Fatalf("thing %d was due at %v, want %v", i, at.Sub(begin), want.Sub(begin))
			}
		}
		if tally.OnTime() != 1 {
			t.Errorf("on time = %g, want all", tally.OnTime())
		}
	})
}

// A generator that cannot keep up says so.
func TestLateGeneratorIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tally := new(load.Tally)
		err := load.Run(t.Context(), time.Now(), tally, load.Stream{
			Schedule: load.Schedule{Segments: []load.Segment{{Rate: 100, For: 10 * time.Second}}}, Batch: 1,
			Do: func(context.Context, []time.Time) error { time.Sleep(20 * time.Millisecond); return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := tally.OnTime(); got > .11 {
			t.Errorf("on time = %g, want a tenth", got)
		}
	})
}

// A backlog is all due at once, so its stream never waits; it ends all the same.
func TestBacklogEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batches := 0
	err := load.Run(ctx, time.Now(), new(load.Tally), load.Stream{
		Schedule: load.Schedule{Segments: []load.Segment{{Burst: 1000, For: time.Second}}}, Batch: 10,
		Do: func(context.Context, []time.Time) error {
			if batches++; batches == 3 {
				cancel()
			}
			return nil
		},
	})
	if err != nil || batches != 3 {
		t.Errorf("Run() = %v after %d batches, want nil after the 3 until it was stopped", err, batches)
	}
}
