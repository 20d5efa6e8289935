package load_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
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

// constant is rate a second for a time.
func constant(rate float64, length time.Duration) load.Schedule {
	return load.Schedule{Segments: []load.Segment{{Rate: rate, For: length}}}
}

// Random arrivals come at the rate, and as unevenly as a Poisson process does.
func TestRandomScheduleKeepsItsRate(t *testing.T) {
	t.Parallel()
	s := constant(1000, 100*time.Second)
	s.Random = rand.New(rand.NewPCG(1, 2))
	all := slices.Collect(s.Due())
	if !slices.IsSorted(all) || math.Abs(float64(len(all))-100_000) > 1500 { // 5 times the deviation of 316
		t.Errorf("%d arrivals, want 100,000 ± 1,500 in order", len(all))
	}
	short := 0
	for i := 1; i < len(all); i++ {
		if all[i]-all[i-1] < time.Millisecond {
			short++
		}
	}
	if share := float64(short) / float64(len(all)); math.Abs(share-(1-1/math.E)) > .01 {
		t.Errorf("%.3f of the distances are below the mean, want 0.632", share)
	}
}

// A system that takes 100 ms for each batch does not slow the schedule down:
// what was due meanwhile happens together, with the times at which it was due.
func TestLoadIsOpenLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now().Add(time.Second)
		tally := load.NewTally()
		var due []time.Time
		err := load.Run(t.Context(), begin, tally, load.Stream{
			Schedule: constant(100, 10*time.Second),
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
		if tally.OnTime() != 1 || tally.Late.TotalCount() != 1000 {
			t.Errorf("tally = %d, %g on time, want 1000, all on time", tally.Late.TotalCount(), tally.OnTime())
		}
		// Batches are 10 long: the first waited 190 ms for its end, the last 100.
		if p50 := tally.Late.ValueAtQuantile(50); p50 < 130_000 || p50 > 170_000 {
			t.Errorf("median lateness = %d µs, want about 150 ms", p50)
		}
	})
}

// A generator that cannot keep up says so.
func TestLateGeneratorIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tally := load.NewTally()
		err := load.Run(t.Context(), time.Now(), tally, load.Stream{
			Schedule: constant(100, 10*time.Second), Batch: 1,
			Do: func(context.Context, []time.Time) error { time.Sleep(20 * time.Millisecond); return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := tally.OnTime(); got > .11 || tally.Late.TotalCount() != 1000 {
			t.Errorf("%g of %d on time, want a tenth of 1000", got, tally.Late.TotalCount())
		}
	})
}

func TestLoadEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tally := load.NewTally()
		stream := load.Stream{Schedule: constant(10, time.Hour), Do: func(context.Context, []time.Time) error { return nil }}
		if err := load.Run(ctx, time.Now(), tally, stream); err != nil || tally.Late.TotalCount() < 10 || tally.Late.TotalCount() > 11 {
			t.Errorf("Run() = %v after %d things, want nil after a second's 10", err, tally.Late.TotalCount())
		}
		broken := errors.New("broken")
		stream.Do = func(context.Context, []time.Time) error { return broken }
		if err := load.Run(t.Context(), time.Now(), tally, stream); !errors.Is(err, broken) {
			t.Errorf("Run() = %v, want the stream's error", err)
		}
	})
}

// A backlog is all due at once, so its stream never waits; it ends all the same.
func TestBacklogEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batches := 0
	err := load.Run(ctx, time.Now(), load.NewTally(), load.Stream{
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
