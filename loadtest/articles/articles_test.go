package articles

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"chatclub/loadtest/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each experiment finds what its table says, with any seed, and draws its picture.
func TestExperiments(t *testing.T) {
	seeds := []uint64{1, 2}
	if testing.Short() {
		seeds = seeds[:1]
	}
	for _, e := range All() {
		for _, seed := range seeds {
			r := Play([]Experiment{e}, seed)
			if v := r.Verdict(); v.Outcome != report.Pass {
				t.Errorf("%s with seed %d: %s", e.Name, seed, v)
			}
			for _, c := range r.Charts {
				for _, l := range c.Lines {
					if len(l.X) < 2 || len(l.X) != len(l.Y) || slices.Max(l.X) == 0 {
						t.Errorf("%s: line %q of chart %q has %d by %d points, want two or more", e.Name, l.Name, c.Title, len(l.X), len(l.Y))
					}
				}
			}
		}
	}
}

// The figures for which the articles are known, apart from the bounds of the table.
func TestKnownFigures(t *testing.T) {
	for _, want := range []struct {
		name, what string
		here       string
	}{
		{"azure-calls", "naive: calls", "30,000"},
		{"azure-calls", "naive: errors", "20,000"},
		{"pushwoosh-limiters", "sliding-log: most of 1,000 let through in a second", "1,000"},
		{"pushwoosh-race", "set, then get: taken of 1,000 in a second", "1,000"},
		{"chatclub-block", "chatclub blocked after, where 2 % of calls may fail (0: never)", "0 s"},
		{"chatclub-chart", "most that is taken in a second, article", "330"},
	} {
		r := Play(Find(want.name), 1)
		i := slices.IndexFunc(r.Beside, func(b report.Beside) bool { return b.What == want.name+": "+want.what })
		if i < 0 || r.Beside[i].Here != want.here {
			t.Errorf("%s: %s = %v, want %s", want.name, want.what, r.Beside, want.here)
		}
	}
}

// Equal seeds give equal figures, also where strategies talk with a Redis.
func TestSeed(t *testing.T) {
	names := []string{"azure-leases", "chatclub-threads", "aws-netflix"}
	if testing.Short() {
		names = names[:1]
	}
	for _, name := range names {
		again := Play(Find(name), 7)
		if diff := cmp.Diff(Play(Find(name), 7).Beside, again.Beside); diff != "" {
			t.Errorf("%s, again (-first +second):\n%s", name, diff)
		}
	}
}

// A figure out of its bounds fails the report.
func TestMissed(t *testing.T) {
	r := Play([]Experiment{{"x", "", func(uint64) Result { return Result{Rows: []Row{{"half", "all", .5, "%", .6, 1}}} }}}, 1)
	if got, want := r.Verdict().String(), "FAIL: x: half is 60.00 % to 100 % (50.00 %)"; got != want {
		t.Errorf("verdict = %q, want %q", got, want)
	}
}

// What is due is done in order of time, and at one time in the order in which it was
// asked for; processes sleep meanwhile, and end with the clock.
func TestClock(t *testing.T) {
	c, got := newClock(2*time.Second), []string(nil)
	say := func(what string) { got = append(got, fmt.Sprintf("%s %g", what, c.since())) }
	c.after(time.Second, func() { say("b") })
	c.after(time.Second, func() { say("c") })
	c.after(0, func() { say("a") })
	c.every(always(1), steady, func() { say("every") })
	c.spawn(func(sleep func(time.Duration)) {
		for c.runs() {
			sleep(1500 * time.Millisecond)
			say("process")
		}
	})
	c.run()
	if diff := cmp.Diff([]string{"a 0", "b 1", "c 1", "every 1", "process 1.5", "process 3"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if n := busiest([]float64{.1, .5, 1.1, 1.4, 1.45, 3}); n != 4 {
		t.Errorf("busiest = %g, want 4 in the second from 0.5", n)
	}
}
