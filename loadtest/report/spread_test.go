package report

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// turns are those of a strategy with the quota uses given, all sound.
func turns(strategy string, use ...float64) (list []Turn) {
	for i, v := range use {
		run := sampleRun{strategy, 4, v, 0, 40, 150, 1000 * v, 3, 100, 0, 0}.run(uint64(i + 1))
		list = append(list, Turn{run, uint64(i + 1)})
	}
	return list
}

// disturbed is a turn that the machine disturbed.
func disturbed(t Turn) Turn {
	t.Run.Status, t.Run.Reason = Inconclusive, "other programs had 80 % of the processors"
	return t
}

func TestFoldIsTheMedian(t *testing.T) {
	t.Parallel()
	all := turns("a", .91, .97, .93, .99, .95)
	all[3].Run.Notes = []string{"odd"}
	r := Fold(all, 5)
	if *r.QuotaUse != .95 || *r.HotP99MS != 950 || len(r.Rounds) != 5 || r.Status != Complete {
		t.Errorf("Fold = quota %g, hot p99 %g, %d rounds, %q; want .95, 950, 5, complete", *r.QuotaUse, *r.HotP99MS, len(r.Rounds), r.Status)
	}
	if diff := cmp.Diff(all[4].Run.Series, r.Series); diff != "" {
		t.Errorf("the series is not that of the round with the median (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"odd"}, r.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if r.Rounds[2].Seed != 3 || *r.Rounds[2].QuotaUse != .93 {
		t.Errorf("third round = seed %d, quota %g, want 3, .93", r.Rounds[2].Seed, *r.Rounds[2].QuotaUse)
	}
	if even := Fold(all[:4], 4); *even.QuotaUse != .95 { // between .93 and .97
		t.Errorf("median of four = %g, want .95", *even.QuotaUse)
	}
	one := Fold(all[:1], 1)
	if diff := cmp.Diff(all[0].Run, one); diff != "" {
		t.Errorf("the only turn is changed (-want +got):\n%s", diff)
	}
	// The turns are not changed.
	if all[4].Run.Rounds != nil || *all[0].Run.Lost != 0 {
		t.Error("Fold has changed a turn")
	}
}

// What the machine disturbed is not shown, but what it lost is not
// excused.
func TestFoldLeavesTheDisturbedOut(t *testing.T) {
	t.Parallel()
	all := turns("a", .98, .2, .96, .97)
	all[1] = disturbed(all[1])
	r := Fold(all, 3)
	if *r.QuotaUse != .97 || len(r.Rounds) != 3 || r.Status != Complete {
		t.Errorf("Fold = quota %g, %d rounds, %q; want .97, 3, complete", *r.QuotaUse, len(r.Rounds), r.Status)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "left out: other programs had 80 %") {
		t.Errorf("notes = %q, want the reason for which it was left out", r.Notes)
	}
	all[1].Run.Lost = new(int64(7))
	if r := Fold(all, 3); *r.Lost != 7 || *r.Duplicated != 0 {
		t.Errorf("lost %d, duplicated %d, want the 7 of the disturbed run and 0", *r.Lost, *r.Duplicated)
	}
	all[2].Run.Lost = nil
	if r := Fold(all[2:], 2); r.Lost != nil {
		t.Errorf("lost = %d, want unknown, as one round does not know it", *r.Lost)
	}
}

// With fewer sound turns than were wanted the run says so, whatever ended it.
func TestFoldSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	stopped, broken := turns("a", .5), turns("a", .5)
	stopped[0].Run.Status, stopped[0].Run.Reason = Interrupted, "stopped after 1s of 20s"
	broken[0].Run.Status, broken[0].Run.Reason = Failed, "no broker"
	for _, c := range []struct {
		name   string
		all    []Turn
		status Status
		reason string
		quota  float64
	}{
		{"all disturbed", []Turn{disturbed(turns("a", .3)[0]), disturbed(turns("a", .4)[0])}, Inconclusive, "0 of 2 runs are sound; the last: other programs had", .4},
		{"the last disturbed", append(turns("a", .9), disturbed(turns("a", .4)[0])), Inconclusive, "1 of 2 runs are sound; the last: other programs had", .9},
		{"the first disturbed", append([]Turn{disturbed(turns("a", .4)[0])}, turns("a", .9)...), Inconclusive, "1 of 2 runs are sound", .9},
		{"stopped", append(turns("a", .9), stopped...), Interrupted, "1 of 2 runs are sound; the last: stopped after 1s", .9},
		{"not over", turns("a", .9), Interrupted, "1 of 2 runs are sound", .9},
		{"failed", append(turns("a", .9), broken...), Failed, "1 of 2 runs are sound; the last: no broker", .9},
	} {
		r := Fold(c.all, 2)
		if r.Status != c.status || !strings.HasPrefix(r.Reason, c.reason) || *r.QuotaUse != c.quota {
			t.Errorf("%s: %q, %q, quota %g; want %q, %q, %g", c.name, r.Status, r.Reason, *r.QuotaUse, c.status, c.reason, c.quota)
		}
	}
}

// A figure that is added to a run has its median, too.
func TestFoldKnowsEveryFigure(t *testing.T) {
	t.Parallel()
	var f Figures
	var e Extras
	n := 0
	for _, v := range []reflect.Value{reflect.ValueOf(f), reflect.ValueOf(e)} {
		for field := range v.Type().Fields() {
			switch field.Type {
			case reflect.TypeFor[*float64](), reflect.TypeFor[*int64]():
				n++
			}
		}
	}
	if got := len(floats64(&f, &e)) + len(ints64(&f, &e)); got != n {
		t.Errorf("medians of %d figures, want all %d", got, n)
	}
}

// A figure that not every round knows is not known: else what one round did not
// reach, such as a backlog that was drained, would not be told.
func TestFoldGuessesNothing(t *testing.T) {
	t.Parallel()
	all := turns("a", .91, .92, .93)
	all[0].Run.DrainS, all[1].Run.DrainS = new(20.), new(21.)
	for i, v := range []float64{5, 9, 7} {
		all[i].Run.Measures = []Measure{{Name: "worst second", Better: Lower, Value: &v}}
		all[i].Run.CPU = &CPUSplit{Dispatchers: new(v * 10)}
	}
	r := Fold(all, 3)
	if r.DrainS != nil {
		t.Errorf("drained in %g s, want unknown", *r.DrainS)
	}
	if *r.measure("worst second") != 7 || *r.CPU.Dispatchers != 70 || r.CPU.Broker != nil {
		t.Errorf("measure %g, CPU %+v, want 7, and 70 of the dispatchers alone", *r.measure("worst second"), r.CPU)
	}
	all[2].Run.DrainS = new(40.)
	if r := Fold(all, 3); *r.DrainS != 21 {
		t.Errorf("drained in %g s, want 21", *r.DrainS)
	}
}

// Ranges that overlap are a tie, those that do not are none; of few rounds that
// proves nothing.
func TestRangesDecideTies(t *testing.T) {
	t.Parallel()
	fold := func(strategy string, use ...float64) Run { return Fold(turns(strategy, use...), len(use)) }
	for _, c := range []struct {
		name string
		runs []Run
		want string
	}{
		{"apart", []Run{fold("a", .980, .981, .982, .983, .984), fold("b", .975, .976, .977, .978, .979)}, "best "},
		{"overlapping", []Run{fold("a", .980, .981, .982, .983, .984), fold("b", .90, .91, .92, .93, .981), fold("c", .1, .1, .1, .1, .1)}, "ties ties "},
		{"apart, of three each", []Run{fold("a", .980, .981, .982), fold("b", .976, .977, .978), fold("c", .1, .1, .1)}, "ties ties "},
		{"far apart, of three each", []Run{fold("a", .980, .981, .982), fold("b", .9, .9, .9)}, "best "},
		{"one ran once", []Run{fold("a", .980, .981, .982, .983), turns("b", .976)[0].Run, fold("c", .1, .1, .1, .1)}, "ties ties "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			column := compare(&Report{Runs: c.runs}).Columns[0]
			var marked []string
			for _, m := range marks(column, c.runs) {
				marked = append(marked, strings.Fields(string(m)+" ")...)
				if m == unmarked {
					marked = append(marked, "-")
				}
			}
			got := strings.ReplaceAll(strings.ReplaceAll(strings.Join(marked, " "), "ties for best", "ties"), "-", "")
			if strings.Join(strings.Fields(got), " ") != strings.TrimSpace(c.want) {
				t.Errorf("marks = %q, want %q", got, c.want)
			}
		})
	}
}

// What people read has the median with its range, and how often it ran.
func TestRangeIsShown(t *testing.T) {
	t.Parallel()
	all := turns("a", .98, .2, .96, .97, .985, .99)
	all[1] = disturbed(all[1])
	r := &Report{Schema: Schema, Scenario: "x", Runs: []Run{Fold(all, 5), Fold(turns("b", .5, .5, .5, .5, .5), 5)}}
	text := string(written(t, WriteMarkdown, r))
	for _, want := range []string{"| a | **98.00 %** (96.00 to 99.00 %) |", "| b | 50.00 % |", "median of 5 runs", "a: left out: other programs had 80 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("report.md lacks %q:\n%s", want, text)
		}
	}
	if page := string(written(t, func(w io.Writer, r *Report) error { return WriteHTML(w, r) }, r)); !strings.Contains(page, "98.00 % <span class=\"range\">(96.00 to 99.00 %)</span>") {
		t.Error("report.html lacks the range")
	}
	terminal := string(written(t, WriteTable, r))
	if !strings.Contains(terminal, "98.00 %*") || !strings.Contains(terminal, "note: Each figure is the median of 5 runs") {
		t.Errorf("the terminal has no median, or does not say that it is one:\n%s", terminal)
	}
	back, err := Read(strings.NewReader(string(written(t, Write, r))))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("report.json does not keep the rounds (-want +got):\n%s", diff)
	}
}

// A round of another strategy, or with a figure that cannot be, is named.
func TestRoundsAreChecked(t *testing.T) {
	t.Parallel()
	r := &Report{Schema: Schema, Scenario: "x", Runs: []Run{Fold(turns("a", .5, .6), 2)}}
	r.Runs[0].Rounds[0].Strategy = "b"
	r.Runs[0].Rounds[1].QuotaUse = new(-1.)
	r.Runs[0].Rounds[1].Rooms = new(int64(-2))
	err := r.validate()
	for _, want := range []string{"runs[0].rounds[0].strategy is \"b\"", "runs[0].rounds[1].quota_use is -1", "runs[0].rounds[1].rooms is -2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("validate = %v, want %q in it", err, want)
		}
	}
}
