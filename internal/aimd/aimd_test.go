package aimd_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/aimd"
)

const (
	ms   = time.Millisecond
	fast = 100 * ms // exactly the target of most tests
	slow = fast + 1
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestSteps tells calls one after the other, each begun when the one before it
// ended, and looks at the limit after each group.
func TestSteps(t *testing.T) {
	t.Parallel()
	type group struct {
		count    int
		latency  time.Duration
		inFlight int
		want     int
	}
	ten := aimd.Config{Min: 2, Max: 12, Start: 10, Target: fast, Percentile: .8, Window: 10, Backoff: .5} // 2 slow of 10 may be
	for _, tc := range []struct {
		name   string
		config func(*aimd.Config)
		groups []group
	}{
		{"no verdict before the sample is full", nil, []group{{9, slow, 10, 10}, {1, slow, 10, 5}}},
		{"grows by one in a window after the first", nil, []group{{9, fast, 10, 10}, {10, fast, 10, 10}, {2, fast, 10, 11}}},
		{"the target itself is fast enough", nil, []group{{10, fast, 10, 10}, {11, fast, 11, 11}}},
		{"a share of slow ones is no overload", nil, []group{{2, slow, 10, 10}, {8, fast, 10, 10}, {11, fast, 10, 11}}},
		{"one more is", nil, []group{{3, slow, 10, 10}, {6, fast, 10, 10}, {1, fast, 10, 5}}},
		{"the sample slides", nil, []group{{1, slow, 4, 10}, {9, fast, 4, 10}, {1, fast, 4, 10}, {2, slow, 10, 10}, {8, fast, 4, 10}, {1, slow, 10, 10}, {1, slow, 10, 10}, {1, slow, 10, 5}}},
		{"one cut for a window", nil, []group{{10, slow, 10, 5}, {9, slow, 5, 5}, {1, slow, 5, 2}}},
		{"not below Min", nil, []group{{100, slow, 12, 2}}},
		{"not above Max", nil, []group{{100, fast, 12, 12}}},
		{"down from Max at once", nil, []group{{100, fast, 12, 12}, {3, slow, 12, 6}}},
		{"no growth while less than half is used", nil, []group{{100, fast, 4, 10}}},
		{"growth when half is used", nil, []group{{21, fast, 5, 11}}},
		{"a cut from what was used", nil, []group{{9, slow, 1, 10}, {1, slow, 2, 2}}},
		{"a cut from twice what was used at most", nil, []group{{9, slow, 1, 10}, {1, slow, 3, 3}}},
		{"used since the last cut alone", func(c *aimd.Config) { c.Start = 12 }, []group{{10, slow, 12, 6}, {10, slow, 2, 2}}},
		{"7 of 100 must be fast, whatever 0.07 × 100 is in binary", func(c *aimd.Config) { c.Percentile, c.Window = .07, 100 }, []group{{7, fast, 4, 10}, {93, slow, 4, 10}, {1, slow, 4, 4}}},
		{"fractions stay", func(c *aimd.Config) { c.Backoff, c.Start = .9, 3 }, []group{{10, slow, 3, 2}, {11, fast, 3, 2}, {2, fast, 3, 3}}},
		{"a limit above the window grows by one in a limit of results", func(c *aimd.Config) { c.Max, c.Start = 200, 100 }, []group{{9, fast, 100, 100}, {100, fast, 100, 100}, {1, fast, 100, 101}}},
		{"off", func(c *aimd.Config) { c.Target = 0 }, []group{{0, 0, 0, 12}, {100, slow, 12, 12}, {100, fast, 12, 12}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := ten
			if tc.config != nil {
				tc.config(&cfg)
			}
			l, now := newLimiter(t, cfg), epoch
			for i, g := range tc.groups {
				for range g.count {
					now = now.Add(g.latency)
					l.Observe(now, g.latency, g.inFlight)
				}
				if got := l.Limit(); got != g.want {
					t.Errorf("Limit() after group %d = %d, want %d", i, got, g.want)
				}
			}
		})
	}
}

// TestCallsBegunBeforeACut say nothing about the limit after it.
func TestCallsBegunBeforeACut(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, aimd.Config{Min: 1, Max: 100, Start: 100, Target: fast, Window: 10, Backoff: .5})
	now := epoch
	for range 100 { // all in flight at once
		l.Observe(now, slow, 100)
	}
	if got := l.Limit(); got != 50 {
		t.Fatalf("Limit() after 100 slow calls at once = %d, want 50", got)
	}
	now = now.Add(slow)
	for range 9 {
		l.Observe(now, slow+1, 100) // begun 1 ns before the cut
		l.Observe(now, slow, 100)   // begun at the cut
	}
	if got := l.Limit(); got != 50 {
		t.Errorf("Limit() after 9 slow calls = %d, want 50", got)
	}
	l.Observe(now, slow, 100)
	if got := l.Limit(); got != 25 {
		t.Errorf("Limit() after 10 slow calls = %d, want 25", got)
	}
}

// TestClockGoesBack: a limiter whose clock was set back by a day still works.
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, aimd.Config{Min: 1, Max: 100, Start: 100, Target: fast, Window: 10, Backoff: .5})
	for i, now := range []time.Time{epoch, epoch.Add(-24 * time.Hour)} {
		l.Observe(now, slow, 100) // the first after the step is before the cut
		for range 10 {
			now = now.Add(slow)
			l.Observe(now, slow, 100)
		}
		if got, want := l.Limit(), []int{50, 25}[i]; got != want {
			t.Errorf("Limit() = %d, want %d", got, want)
		}
	}
}

// TestSlowCallsAmongManyFast: 500 calls in flight of which every tenth takes
// 300 ms and the others 50 are 6,700 calls/s. The sample is full of fast calls
// before the first slow one ends, and the slow ones must count all the same.
func TestSlowCallsAmongManyFast(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, aimd.Config{Min: 1, Max: 5000, Start: 500, Target: 200 * ms})
	type call struct{ end, latency time.Duration }
	var inFlight []call // the first to end comes first
	var now time.Duration
	highest := 0
	for i := 0; now < 30*time.Second; {
		for ; len(inFlight) < l.Limit(); i++ {
			c := call{now + 50*ms, 50 * ms}
			if i%10 == 0 {
				c = call{now + 300*ms, 300 * ms}
			}
			at, _ := slices.BinarySearchFunc(inFlight, c.end+1, func(c call, end time.Duration) int { return int(c.end - end) })
			inFlight = slices.Insert(inFlight, at, c)
		}
		ended := inFlight[0]
		now = ended.end
		l.Observe(epoch.Add(now), ended.latency, len(inFlight))
		inFlight = inFlight[1:]
		highest = max(highest, l.Limit())
	}
	// Before the first slow one ends after 300 ms, the fast ones have taken at
	// most six round trips.
	if highest > 506 {
		t.Errorf("highest limit = %d, want at most 506", highest)
	}
	// No limit is low enough, so it goes to the lowest, but for the growth that
	// there is between a cut and the next slow call.
	if got := l.Limit(); got > 10 {
		t.Errorf("Limit() after 30 s with one call in ten above the target = %d, want at most 10", got)
	}
}

func TestConfigFaultsAreNamed(t *testing.T) {
	t.Parallel()
	good := aimd.Config{Min: 1, Max: 10, Start: 5, Target: fast}
	for _, tc := range []struct {
		change func(*aimd.Config)
		want   string // empty: no fault
	}{
		{func(*aimd.Config) {}, ""},
		{func(c *aimd.Config) { c.Target = 0 }, ""},
		{func(c *aimd.Config) { c.Percentile, c.Window, c.Backoff = .99, 1, .5 }, ""},
		{func(c *aimd.Config) { c.Min = 0 }, "Min 0"},
		{func(c *aimd.Config) { c.Max = 0 }, "Max 0"},
		{func(c *aimd.Config) { c.Max = math.MaxInt }, "Max 9223372036854775807"},
		{func(c *aimd.Config) { c.Start = 0 }, "Start 0"},
		{func(c *aimd.Config) { c.Start = 11 }, "Start 11"},
		{func(c *aimd.Config) { c.Target = -1 }, "Target -1ns"},
		{func(c *aimd.Config) { c.Percentile = 95 }, "Percentile 95"},
		{func(c *aimd.Config) { c.Percentile = -.1 }, "Percentile -0.1"},
		{func(c *aimd.Config) { c.Percentile = math.NaN() }, "Percentile NaN"},
		{func(c *aimd.Config) { c.Window = -1 }, "Window -1"},
		{func(c *aimd.Config) { c.Window = math.MaxInt }, "Window 9223372036854775807"},
		{func(c *aimd.Config) { c.Backoff = 1 }, "Backoff 1"},
		{func(c *aimd.Config) { c.Backoff = math.Inf(-1) }, "Backoff -Inf"},
	} {
		cfg := good
		tc.change(&cfg)
		l, err := aimd.New(cfg)
		if (err == nil) != (tc.want == "") || (l == nil) != (err != nil) || err != nil && !strings.Contains(err.Error(), tc.want+" must ") {
			t.Errorf("New(%+v) = %v, %v, want %q", cfg, l, err, tc.want)
		}
	}
	_, err := aimd.New(aimd.Config{Max: -1, Target: -1, Percentile: 2, Window: -1, Backoff: 2})
	for _, name := range []string{"Min", "Max", "Start", "Target", "Percentile", "Window", "Backoff"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New with every field wrong = %v, want %s named", err, name)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, window := range []int{100, 10_000} {
		b.Run(fmt.Sprint("window=", window), func(b *testing.B) {
			l := newLimiter(b, aimd.Config{Min: 1, Max: 500, Start: 100, Target: fast, Window: window})
			now, i := epoch, 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				now = now.Add(ms)
				latency := fast
				if i%17 == 0 { // 5.9 %: cuts and growth both happen
					latency = slow
				}
				l.Observe(now, latency, l.Limit())
			}
		})
	}
}

func TestObserveDoesNotAllocate(t *testing.T) {
	l := newLimiter(t, aimd.Config{Min: 1, Max: 500, Start: 100, Target: fast})
	now, i := epoch, 0
	if got := testing.AllocsPerRun(1000, func() {
		i++
		now = now.Add(ms)
		l.Observe(now, fast+time.Duration(i%2), l.Limit())
	}); got != 0 {
		t.Errorf("allocations of Observe = %g, want 0", got)
	}
}
