package scenario_test

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/loadtest/fleet"
	"chatclub/loadtest/report"
	"chatclub/loadtest/scenario"
)

// parsed has a scenario's common parameters, after the flags given, and what builds
// its set.
func parsed(t *testing.T, name string, args ...string) (*scenario.Common, func() (scenario.Set, error)) {
	t.Helper()
	s, ok := scenario.Find(name)
	if !ok {
		t.Fatalf("no scenario %q", name)
	}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	common, build := s.Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return common, build
}

// built is a scenario's set with the flags given.
func built(t *testing.T, name string, args ...string) scenario.Set {
	t.Helper()
	_, build := parsed(t, name, args...)
	set, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// perfect is a run of ours in which nothing went wrong.
func perfect(status report.Status) report.Run {
	return report.Run{Status: status, Figures: report.Figures{
		Strategy: scenario.Own, QuotaUse: new(.98), RefusedPerSent: new(0.), Lost: new(int64(0)), Duplicated: new(int64(0)),
		Unexpected: new(int64(0)), Dead: new(int64(0)), ColdP99MS: new(4.),
	}}
}

// said is what became of the expectation whose text begins so.
func said(t *testing.T, list []report.Expectation, text string) report.Expectation {
	t.Helper()
	i := slices.IndexFunc(list, func(e report.Expectation) bool { return strings.HasPrefix(e.Text, text) })
	if i < 0 {
		t.Fatalf("expectations = %+v, want one that begins with %q", list, text)
	}
	return list[i]
}

func met(e report.Expectation) string {
	if e.Met == nil {
		return "unknown"
	}
	return fmt.Sprint(*e.Met)
}

// A run that proves nothing, or did not run to its end, meets no expectation:
// a late generator makes every one of them easy. It does not excuse a message
// that is lost.
func TestOnlyACompleteRunMeetsAnything(t *testing.T) {
	t.Parallel()
	expect := built(t, "saturate").Expect
	for _, e := range expect([]report.Run{perfect(report.Complete)}) {
		if met(e) != "true" {
			t.Errorf("complete: %s (%s) = %s, want true", e.Text, e.Got, met(e))
		}
	}
	for _, status := range []report.Status{report.Inconclusive, report.Interrupted} {
		for _, e := range expect([]report.Run{perfect(status)}) {
			if met(e) != "unknown" {
				t.Errorf("%s: %s (%s) = %s, want unknown", status, e.Text, e.Got, met(e))
			}
		}
		bad := perfect(status)
		bad.Lost, bad.QuotaUse = new(int64(3)), new(.1)
		list := expect([]report.Run{bad})
		if e := said(t, list, "nothing lost"); met(e) != "false" || e.Got != "3" {
			t.Errorf("%s: %s (%s) = %s, want false with 3", status, e.Text, e.Got, met(e))
		}
		if e := said(t, list, "quota"); met(e) != "unknown" {
			t.Errorf("%s: %s (%s) = %s, want unknown", status, e.Text, e.Got, met(e))
		}
	}
}

// The cold pages' bound comes from the baseline, and says so; of a baseline
// that proves nothing there is none.
func TestColdPagesAreComparedWithTheBaseline(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"neighbour", "zipf"} {
		set := built(t, name)
		if len(set.Parts) != 2 || !set.Parts[0].Baseline || set.Parts[1].Baseline {
			t.Fatalf("%s: parts = %+v, want a baseline and the run", name, set.Parts)
		}
		for _, tc := range []struct {
			base report.Status
			loud float64
			want string
		}{{report.Complete, 9.9, "true"}, {report.Complete, 10.1, "false"}, {report.Inconclusive, 9.9, "unknown"}, {report.Inconclusive, 10.1, "unknown"}} {
			quiet, loud := perfect(tc.base), perfect(report.Complete)
			loud.ColdP99MS = &tc.loud
			e := said(t, set.Expect([]report.Run{quiet, loud}), "cold p99 at most 10 ms, which is twice the 4 ms without")
			if met(e) != tc.want {
				t.Errorf("%s: cold p99 %g ms beside a baseline of 4 ms (%q) = %s, want %s", name, tc.loud, tc.base, met(e), tc.want)
			}
		}
	}
}

// The runs that others are compared with are marked so, in every scenario.
func TestBaselinesAreMarked(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"saturate": 0, "neighbour": 1, "zipf": 1, "mindbox-latency": 1, "ceiling": 9} {
		n := 0
		for _, p := range built(t, name).Parts {
			if p.Baseline {
				n++
			}
		}
		if n != want {
			t.Errorf("baselines of %s = %d, want %d", name, n, want)
		}
	}
}

// pairs are runs of ceiling: ours and the bare loop's, A B B A. The ratio is up
// to 6 % off, and every other pair has runs that cost busy times as much.
func pairs(n int, ratio, busy float64, processes bool) []report.Run {
	var runs []report.Run
	for i := range n {
		ours, bare := perfect(report.Complete), perfect(report.Complete)
		bare.Strategy = fleet.Bare
		cost := 100.
		if i%2 == 1 {
			cost *= busy
		}
		off := []float64{.94, .97, 1, 1.03, 1.06}[i%5]
		for r, v := range map[*report.Run]float64{&ours: cost * ratio * off, &bare: cost} {
			if r.CPUUSPerSent = &v; processes {
				r.CPU = &report.CPUSplit{Dispatchers: &v}
			}
		}
		if i%2 == 1 {
			runs = append(runs, bare, ours)
		} else {
			runs = append(runs, ours, bare)
		}
	}
	return runs
}

// The bound is missed only if it is below all of what the ratio may be, and met
// only if it is not below any of it; on a busy machine, of few pairs and in one
// process nothing is said.
func TestCeilingJudgesTheInterval(t *testing.T) {
	t.Parallel()
	expect := built(t, "ceiling").Expect
	for _, tc := range []struct {
		pairs       int
		ratio, busy float64
		processes   bool
		want, got   string
	}{
		{10, 1.2, 1, true, "true", "1.20 ×, median of 10 pairs, 95 % interval 1.13 to 1.27, control (the same side twice) 1.00 to 1.03"},
		{10, 1.28, 1, true, "unknown", "the limit lies in the interval"},
		{10, 1.34, 1, true, "unknown", "the limit lies in the interval"},
		{10, 1.4, 1, true, "false", "1.40 ×"},
		{10, 1.4, 1.3, true, "unknown", "1.40 ×, median of 10 pairs, 95 % interval 1.32 to 1.48, control (the same side twice) 0.79 to 1.30: inconclusive: the control is not 1"},
		{6, 1.4, 1, true, "unknown", "1.38 ×, median of 6 pairs: inconclusive: the pairs are too few"},
		{10, 1.2, 1, false, "unknown", "no verdict"},
		{10, 9, 1, false, "unknown", "no verdict"},
	} {
		e := said(t, expect(pairs(tc.pairs, tc.ratio, tc.busy, tc.processes)), "processor time")
		if met(e) != tc.want || !strings.Contains(e.Got, tc.got) {
			t.Errorf("%d pairs, ratio %g, busy %g, processes %t: %s (%s), want %s with %q",
				tc.pairs, tc.ratio, tc.busy, tc.processes, met(e), e.Got, tc.want, tc.got)
		}
	}
	// A pair that proves nothing is left out.
	runs := append(pairs(10, 1.2, 1, true), pairs(2, 9, 1, true)...)
	for i := range runs[20:] {
		runs[20+i].Status = report.Inconclusive
	}
	if e := said(t, expect(runs), "processor time"); met(e) != "true" || !strings.Contains(e.Got, "10 pairs") {
		t.Errorf("with two inconclusive pairs of 9 ×: %s (%s), want true of 10 pairs", met(e), e.Got)
	}
}

// The warm-up is a number of whole seconds, as the platform's windows are.
func TestWarmUpIsOfWholeSeconds(t *testing.T) {
	t.Parallel()
	for duration, want := range map[string]time.Duration{"1s": 0, "6s": 2 * time.Second, "8s": 2 * time.Second, "10s": 3 * time.Second, "1m": 5 * time.Second} {
		if got := built(t, "saturate", "-duration", duration).Parts[0].Plan.Warm; got != want {
			t.Errorf("warm-up of %s = %v, want %v", duration, got, want)
		}
	}
}

// A flag that means nothing to a scenario is none of its flags.
func TestNoFlagIsIgnored(t *testing.T) {
	t.Parallel()
	unused := map[string][]string{
		"chatclub-room": {"warm"}, "bursts": {"warm"}, "aws-overload": {"warm"},
		"lively-room": {"warm"}, "voice": {"via"}, "sick-member": {"via", "warm"}, "sick-page": {"via", "warm"},
		"azure-10000": {"duration", "warm"}, "pushwoosh-sendrate": {"duration", "algorithm"},
		"mindbox-latency": {"replicas", "latency"}, "ceiling": {"duration", "warm", "drain", "via", "room"},
	}
	common := flag.NewFlagSet("", flag.ContinueOnError)
	scenario.CommonFlags(common)
	for _, s := range scenario.All() {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		s.Flags(fs)
		var lacks []string
		common.VisitAll(func(f *flag.Flag) {
			if fs.Lookup(f.Name) == nil {
				lacks = append(lacks, f.Name)
			}
		})
		slices.Sort(lacks)
		want := slices.Sorted(slices.Values(unused[s.Name]))
		if !slices.Equal(lacks, want) {
			t.Errorf("%s lacks the common flags %q, want %q", s.Name, lacks, want)
		}
	}
}
