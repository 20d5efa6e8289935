package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/loadtest/report"
	"chatclub/internal/loadtest/strategy"
)

// turnRun is a run that ended so.
func turnRun(name string, status report.Status) report.Run {
	run := report.Run{Figures: report.Figures{Strategy: name, QuotaUse: new(.9)}, Status: status}
	if status != report.Complete {
		run.Reason = "for a reason"
	}
	return run
}

// Strategies alternate, there and back. One whose turn was disturbed has another
// in the next round; there are as many of these as runs at most.
func TestTurnsAlternate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		wanted int
		ends   map[string]report.Status // of the n-th turn of a strategy, as in "b2"; the others are complete
		want   string
	}{
		{1, nil, "a b c"},
		{3, nil, "a b c c b a a b c"},
		{2, map[string]report.Status{"b1": report.Inconclusive}, "a b c c b a b"},
		{2, map[string]report.Status{"b1": report.Inconclusive, "b2": report.Inconclusive, "b3": report.Inconclusive}, "a b c c b a b b"},
		{1, map[string]report.Status{"b1": report.Inconclusive}, "a b c"},
		{3, map[string]report.Status{"a1": report.Failed}, "a b c c b b c"},
	} {
		list := []strategy.Info{{Name: "a"}, {Name: "b"}, {Name: "c"}}
		turns := newTurns(list, tc.wanted)
		var got []string
		for i := range turns.all() {
			name := list[i].Name
			got = append(got, name)
			status := tc.ends[fmt.Sprint(name, len(turns.of[i])+1)]
			turns.add(i, 1, []report.Run{turnRun(name, status)})
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%d runs, %v: turns = %q, want %q", tc.wanted, tc.ends, got, tc.want)
		}
	}
}

// A part is disturbed with its turn: the load beside it is what it is measured
// against.
func TestTurnIsDisturbedAsAWhole(t *testing.T) {
	t.Parallel()
	turns := newTurns([]strategy.Info{{Name: "a"}}, 2)
	for _, loud := range []report.Status{report.Complete, report.Inconclusive, report.Complete} {
		turns.add(0, 1, []report.Run{turnRun("a", report.Complete), turnRun("a", loud)})
	}
	for i, run := range turns.fold(0) {
		if len(run.Rounds) != 2 || run.Repeated != 1 || run.Status != report.Complete {
			t.Errorf("part %d: %d rounds, %d repeated, %q; want 2, 1, complete", i, len(run.Rounds), run.Repeated, run.Status)
		}
	}
}

// Several runs of a strategy become one of medians, each with the next seed, and
// the user sees how many there are to be.
func TestRunsBecomeMedians(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := virtual(t, time.Hour, "compare", "saturate", "-replicas", "1", "-limit", "50", "-duration", "3s", "-runs", "3", "-strategies", "chatclub,static", "-seed", "7", "-out", dir)
	if r.code != 0 || !strings.Contains(r.err, "6 runs, about 0:42") || !strings.Contains(r.out, "median of 3 runs") {
		t.Fatalf("compare = %d, %s%s; want 0, six runs and their medians", r.code, r.out, r.err)
	}
	found, err := report.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"chatclub", "static"} {
		run := found[0].Runs[i]
		var seeds []uint64
		var sent []int64
		for _, o := range run.Rounds {
			seeds, sent = append(seeds, o.Seed), append(sent, *o.Sent)
		}
		slices.Sort(sent)
		if run.Strategy != name || !slices.Equal(seeds, []uint64{7, 8, 9}) || *run.Sent != sent[1] {
			t.Errorf("run %d = %s with seeds %d, sent %d of %d; want %s with 7, 8 and 9, and the median", i, run.Strategy, seeds, *run.Sent, sent, name)
		}
	}
	if found[0].Seed != 7 {
		t.Errorf("seed = %d, want the first, 7", found[0].Seed)
	}
}

// A user who stops it has the rounds that ran.
func TestInterruptKeepsTheRounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := virtual(t, 10*time.Second, "run", "saturate", "-replicas", "1", "-limit", "50", "-duration", "3s", "-runs", "50", "-out", dir)
	found, err := report.Find(dir)
	if err != nil {
		t.Fatalf("no report: %v; the program said %s", err, r.err)
	}
	run := found[0].Runs[0]
	if r.code != 3 || len(run.Rounds) != 1 || run.Status != report.Interrupted || !strings.Contains(found[0].Unfinished, "stopped after 1 of 50 runs") {
		t.Errorf("run = %d, %d rounds, %q, %q; want 3, one round, interrupted, stopped after 1 of 50", r.code, len(run.Rounds), run.Status, found[0].Unfinished)
	}
}

// Where runs cannot be repeated, or mean nothing, the flag is named.
func TestRunsAreChecked(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"saturate -runs 0", "saturate -runs 101", "ceiling -runs 2", "saturate -runs 2 -target http://127.0.0.1:1/w -ledger http://127.0.0.1:1 -pages-file none"} {
		if r := loadtest(t.Context(), append([]string{"run"}, strings.Fields(args)...)...); r.code != 2 || !strings.Contains(r.err, "-runs") {
			t.Errorf("run %s = %d, %s; want 2 and -runs named", args, r.code, r.err)
		}
	}
}
