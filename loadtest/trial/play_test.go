package trial

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/dispatch"
	"chatclub/internal/machine"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/load"
	"chatclub/loadtest/report"
)

// one is a page with less to send than its limit.
func one() Plan {
	return Plan{
		Limit: 300, Replicas: 1, Length: 5 * time.Second,
		Streams: []Stream{{Group: Cold, Pages: Pages(1, 1), Segments: []load.Segment{{Rate: 20, For: 5 * time.Second}}}},
	}
}

// play runs a plan in this process.
func play(ctx context.Context, t *testing.T, plan Plan, wrap func(dispatch.Caller) dispatch.Caller) report.Run {
	t.Helper()
	return playAfter(ctx, t, 0, plan, wrap)
}

// playAfter runs a plan in this process, after a rest.
func playAfter(ctx context.Context, t *testing.T, rest time.Duration, plan Plan, wrap func(dispatch.Caller) dispatch.Caller) report.Run {
	t.Helper()
	run, err := Run(ctx, Config{
		Plan: plan, Strategy: report.Own, Seed: 1, Log: slog.New(slog.DiscardHandler), Topology: queue.Topology{Prefix: "t", Partitions: 4}, Rest: rest,
		Wrap: wrap, Open: fleet.OpenLocal,
	})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// noted reports whether a run has a note that begins so.
func noted(run report.Run, begin string) bool {
	return slices.ContainsFunc(run.Notes, func(n string) bool { return strings.HasPrefix(n, begin) })
}

// shown is a figure that may be unknown.
func shown(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprint(*v)
}

// A user who stops a run gets the report of what ran, also where that is nothing.
func TestStoppedRunIsReported(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 500 * time.Millisecond, 3500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			plan := one()
			plan.Drain = time.Minute
			run := play(ctx, t, plan, nil)
			if run.Status != report.Interrupted || !strings.HasPrefix(run.Reason, "stopped ") || run.DrainS != nil || noted(run, "not everything") {
				t.Errorf("stopped after %v: %+v, want interrupted, without a word about draining", after, run)
			}
			if after > 3*time.Second && (run.Sent == nil || *run.Sent == 0 || *run.Lost != 0) {
				t.Errorf("stopped after %v: sent %v lost %v, want some and 0", after, run.Sent, run.Lost)
			}
			r := &report.Report{Schema: report.Schema, Scenario: "one", Runs: []report.Run{run}}
			if err := report.Save(filepath.Join(t.TempDir(), "out"), r); err != nil {
				t.Errorf("stopped after %v: Save() = %v, want nil", after, err)
			}
		})
	}
}

// never answers that no message can be sent.
type never struct{}

func (never) Send(context.Context, message.Outbound) sender.Result {
	return sender.Result{Outcome: sender.BadMessage}
}

// Nobody waits for what is dead.
func TestDrainDoesNotWaitForTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := one()
		plan.Drain = time.Hour
		run := play(t.Context(), t, plan, func(dispatch.Caller) dispatch.Caller { return never{} })
		if *run.Dead != 100 || *run.Lost != 0 {
			t.Errorf("dead %d lost %d, want 100 and 0", *run.Dead, *run.Lost)
		}
		if run.DrainS == nil || *run.DrainS != 5 || run.Seconds > 10 || noted(run, "not everything") {
			t.Errorf("drained after %s of %g s, notes %q, want after 5, and no wait", shown(run.DrainS), run.Seconds, run.Notes)
		}
	})
}

// observed knows when the first and the latest call were begun that sent
// something.
type observed struct {
	mu          sync.Mutex
	first, last time.Time
}

func (o *observed) wrap(c dispatch.Caller) dispatch.Caller { return observedCaller{c, o} }

type observedCaller struct {
	dispatch.Caller
	o *observed
}

func (c observedCaller) Send(ctx context.Context, out message.Outbound) sender.Result {
	began := time.Now()
	r := c.Caller.Send(ctx, out)
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	if r.Outcome == sender.Sent {
		if c.o.first.IsZero() || began.Before(c.o.first) {
			c.o.first = began
		}
		if began.After(c.o.last) {
			c.o.last = began
		}
	}
	return r
}

// The time of the last arrival is exact, though the ledger is read seldom.
func TestDrainIsWhenTheLastArrived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := one()
		plan.Drain, plan.Length, plan.Limit = time.Minute, time.Second, 100
		plan.Platform = map[string]any{"text": map[string]any{"per_second": 100, "phase": "333ms"}, "latency": "fixed:7ms"}
		plan.Streams[0].Segments = []load.Segment{{Burst: 450, For: time.Second}}
		begin := time.Now().Add(2 * time.Second) // virtual time begins at a whole second
		var calls observed
		run := play(t.Context(), t, plan, calls.wrap)
		if want := calls.last.Sub(begin).Seconds(); run.DrainS == nil || *run.DrainS != want || want < 3 {
			t.Errorf("drained after %s s, want the %g s of the last call", shown(run.DrainS), want)
		}
	})
}

// Dispatchers have their rest before the load, which is as long as ever.
func TestLoadComesAfterTheRest(t *testing.T) {
	t.Parallel()
	const rest = 8 * time.Second
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var calls observed
		run := playAfter(t.Context(), t, rest, one(), calls.wrap)
		if waited := calls.first.Sub(begin); waited < rest || *run.Sent != 100 {
			t.Errorf("the first call came after %v, and %d were sent, want %v at least and 100", waited, *run.Sent, rest)
		}
	})
}

// A step that is made late makes another run than the plan says.
func TestLateStepIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := one()
		slow := func(context.Context, *Controls) error { time.Sleep(2500 * time.Millisecond); return nil }
		plan.Script = []Step{{At: time.Second, Name: "first", Do: slow}, {At: 2 * time.Second, Name: "second", Do: slow}}
		run := play(t.Context(), t, plan, nil)
		if want := "a step was late: second, 1.5 s after its time"; run.Status != report.Inconclusive || run.Reason != want {
			t.Errorf("status %q, reason %q, want inconclusive, %q", run.Status, run.Reason, want)
		}
	})
}

// A sender of all that each second takes uses the whole quota, wherever the
// warm-up and the load end.
func TestQuotaIsOfWholeSeconds(t *testing.T) {
	t.Parallel()
	begin := time.Now().Truncate(time.Second).Add(-30 * time.Second)
	full := newRecorder([]string{"1"}, begin)
	for i := range int64(20) {
		full.seconds["1"][begin.Unix()+i] = ledger.Second{Text: ledger.Cell{Accepted: 300}}
	}
	quota := func(warm, length time.Duration, foreign []int64) *float64 {
		tr := &trial{length: length, recorder: full, controls: &Controls{begin: begin, limits: []limitChange{{0, 300}}}}
		tr.Plan = Plan{Warm: warm, Limit: 300, Streams: []Stream{{Group: Hot, Pages: Pages(1, 1)}}}
		var run report.Run
		tr.quota(&run, foreign)
		return run.QuotaUse
	}
	for _, tc := range []struct{ warm, length time.Duration }{
		{2500 * time.Millisecond, 10 * time.Second}, {2 * time.Second, 9400 * time.Millisecond}, {-1, 2100 * time.Millisecond}, {0, 20 * time.Second},
	} {
		if got := quota(tc.warm, tc.length, nil); got == nil || math.Abs(*got-1) > 1e-9 {
			t.Errorf("warm %v, length %v: quota used = %s, want 1", tc.warm, tc.length, shown(got))
		}
	}
	if got := quota(0, 25*time.Second, nil); got == nil || math.Abs(*got-.8) > 1e-9 {
		t.Errorf("quota used with nothing in a fifth of the time = %s, want 0.8", shown(got))
	}
	// Of 300 calls 100 are others': what is left of the limit is ours.
	if got := quota(0, time.Second, []int64{0, 60, 40}); got == nil || math.Abs(*got-1) > 1e-9 {
		t.Errorf("quota used beside another app = %s, want 1", shown(got))
	}
	if got := quota(2100*time.Millisecond, 2900*time.Millisecond, nil); got != nil {
		t.Errorf("without a whole second: quota used = %g, want unknown", *got)
	}
}

// A limit that is changed just after a step's begin is the limit of that step.
func TestLimitOfAStep(t *testing.T) {
	t.Parallel()
	tr := &trial{controls: &Controls{limits: []limitChange{{0, 300}, {6*time.Second + 3*time.Millisecond, 150}}}}
	for i, want := range map[int]float64{5: 300, 6: 150, 7: 150} {
		if got := tr.limitIn(i, time.Second); got != want {
			t.Errorf("limit in second %d = %g, want %g", i, got, want)
		}
		if got := tr.limitIn(10*i, tenth); got != want {
			t.Errorf("limit in the first tenth of second %d = %g, want %g", i, got, want)
		}
	}
}

// The ledger keeps ten minutes of a page, a run is longer, and all of it
// is shown, of each page that is, wherever its id stands among thousands.
func TestWholeCourseIsShown(t *testing.T) {
	t.Parallel()
	for _, group := range []string{Hot, Cold} {
		synctest.Test(t, func(t *testing.T) {
			const minutes = 45
			plan := one()
			plan.Length = minutes * time.Minute
			plan.Streams = []Stream{
				{Group: "others", Pages: Pages(1, 3000), Segments: []load.Segment{{Rate: 3000, For: time.Second}}},
				{Group: group, Pages: []Page{{"99999", 1}}, Segments: []load.Segment{{Rate: 1, For: plan.Length}}},
			}
			run := play(t.Context(), t, plan, nil)
			if len(run.Series) != 1 || len(run.Series[0].Sent) != minutes*60+1 {
				t.Fatalf("series of %d steps, want one of %d", len(run.Series), minutes*60+1)
			}
			want := *run.Sent
			if group == Hot {
				want = minutes * 60
				if q := run.QuotaUse; q == nil || math.Abs(*q-1.0/300) > 1e-5 {
					t.Errorf("quota used = %s, want 1/300", shown(q))
				}
			}
			if got := sum(run.Series[0].Sent); got != want || want < minutes*60 {
				t.Errorf("%s: %d sent in the series, want %d", group, got, want)
			}
		})
	}
}

func TestTooLongLoadIsRefused(t *testing.T) {
	t.Parallel()
	plan := one()
	plan.Length = 24*time.Hour + time.Second
	if _, err := Run(t.Context(), Config{Plan: plan}); err == nil {
		t.Error("Run() of more than a day = nil, want an error")
	}
}

// How much others had of the machine counts only where it is known.
func TestOthersShareOfTheMachine(t *testing.T) {
	t.Parallel()
	second := time.Duration(runtime.NumCPU()) * time.Second // of all processors
	for _, tc := range []struct {
		name   string
		before *machine.Use
		after  *machine.Use
		want   float64
	}{
		{"not told", nil, nil, 0},
		{"not told in the end", &machine.Use{}, nil, 0},
		{"idle", &machine.Use{All: second}, &machine.Use{All: 11 * second}, 0},
		{"busy", &machine.Use{All: second, Others: second / 2}, &machine.Use{All: 11 * second, Others: second/2 + 3*second}, .3},
		{"other processors are counted", &machine.Use{}, &machine.Use{All: 20 * second, Others: 10 * second}, 0},
	} {
		tr := trial{measured: 10 * time.Second, started: fleet.Usage{Machine: tc.before}, ended: fleet.Usage{Machine: tc.after}}
		if got := tr.others(); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: others() = %g, want %g", tc.name, got, tc.want)
		}
	}
}
