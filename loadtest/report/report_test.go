package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample is a report of three strategies, of which ours misses an expectation and
// another was stopped.
func sample() *Report {
	r := New("saturate", "One page with more to send than its limit", 1, Parameter{"latency", "none"})
	r.Source, r.Command = "README, guarantee of flow", "go run ./cmd/loadtest compare saturate"
	r.Expectations = []Expectation{{Text: "quota used at least 99.00 %", Of: Own, Met: new(false), Got: "98.01 %"}, {Text: "lost at most 0", Of: Own, Met: new(true), Got: "0"}}
	for i, name := range []string{Own, "article", "static"} {
		run := Run{Strategy: name, Replicas: 4, Figures: Figures{
			Quota: .9801 - .1*float64(i), Refused: .3 * float64(i%2), Lost: 0, HotP99: 4.6 + float64(i), ColdP99: .012, Operations: 6.4, CPU: 198, Sent: 5880,
		}}
		s := Series{Name: "page 1", StepMS: 1000}
		for k := range 20 {
			s.Sent, s.Refused, s.Limit = append(s.Sent, int64(290-20*i+k)), append(s.Refused, int64(400*(i%2))), append(s.Limit, 300)
		}
		run.Series = []Series{s}
		r.Runs = append(r.Runs, run)
	}
	r.Beside = []Beside{{"calls of the naive way", "30,000", "29,999"}}
	r.Charts = []Chart{{Title: "goodput", X: "load", Y: "share", Lines: []Line{{"ours", []float64{0, 1, 10}, []float64{0, 1, .9}}}}}
	r.Runs[2].Status, r.Runs[2].Reason = Interrupted, "stopped after 20s of 40s"
	return r
}

// turns are those of a strategy with the quota uses given, all sound.
func turns(use ...float64) (list []Run) {
	for _, v := range use {
		list = append(list, Run{Strategy: "a", Figures: Figures{Quota: v, HotP99: v, Lost: 0}})
	}
	return list
}

// A folded run has the medians of the sound turns. A disturbed one is left out, but what
// it lost is not excused, and what is missing is said.
func TestFold(t *testing.T) {
	t.Parallel()
	all := turns(.91, .97, .93, .99, .95)
	r := Fold(all, 5)
	if r.Figures[Quota] != .95 || r.Figures[HotP99] != .95 || len(r.Rounds) != 5 || r.Status != Complete || Quota.kind().rangeOf(&r) != "91.00 to 99.00 %" {
		t.Errorf("Fold = %v, %d rounds from %s, %q; want .95, 5 from 91 to 99 %%, complete", r.Figures, len(r.Rounds), Quota.kind().rangeOf(&r), r.Status)
	}
	disturbed := turns(.2)[0]
	disturbed.Status, disturbed.Reason, disturbed.Figures[Lost] = Inconclusive, "busy", 7
	r = Fold(append([]Run{disturbed}, all[:3]...), 3)
	if r.Figures[Quota] != .93 || r.Figures[Lost] != 7 || r.Status != Complete || !slices.Contains(r.Notes, "left out: busy") {
		t.Errorf("Fold beside a disturbed turn = %v, %q, %q; want .93, 7 lost, complete, and the reason", r.Figures, r.Status, r.Notes)
	}
	for _, c := range []struct {
		all    []Run
		status Status
		reason string
	}{
		{[]Run{all[0], disturbed}, Inconclusive, "1 of 2 runs are sound; the last: busy"},
		{[]Run{all[0]}, Interrupted, "1 of 2 runs are sound"},
		{[]Run{disturbed, all[0]}, Inconclusive, "1 of 2 runs are sound"},
	} {
		if r := Fold(c.all, 2); r.Status != c.status || r.Reason != c.reason {
			t.Errorf("Fold of %d turns = %q, %q; want %q, %q", len(c.all), r.Status, r.Reason, c.status, c.reason)
		}
	}
}

// A bound holds at its value, on both sides; of an unknown figure, and of a run that
// proves nothing, it is neither met nor missed, but for a loss.
func TestBounds(t *testing.T) {
	t.Parallel()
	run := Run{Figures: Figures{Quota: .8, Refused: .1, ColdP99: 10, Lost: 3}}
	quiet := Run{Figures: Figures{ColdP99: 4}}
	busy, unknown := run, quiet
	busy.Status, unknown.Status = Inconclusive, Inconclusive
	for _, c := range []struct {
		bound    Bound
		run      Run
		baseline *Run
		want     string
	}{
		{AtLeast(Quota, .8), run, nil, "met"},
		{AtLeast(Quota, .81), run, nil, "NOT MET"},
		{AtMost(Refused, .1), run, nil, "met"},
		{AtMost(Refused, .09), run, nil, "NOT MET"},
		{AtMost(HotP99, 9), run, nil, "unknown"},
		{AtMostTimes(ColdP99, 2, 2), run, &quiet, "met"},
		{AtMostTimes(ColdP99, 2, 1), run, &quiet, "NOT MET"},
		{AtMostTimes(ColdP99, 2, 1), run, &unknown, "unknown"},
		{AtMostTimes(ColdP99, 2, 2), run, nil, "unknown"},
		{AtLeast(Quota, .1), busy, nil, "unknown"},
		{AtLeast(Quota, .9), busy, nil, "unknown"},
		{AtMost(Lost, 0), busy, nil, "NOT MET"},
		{AtMost(Lost, 3), busy, nil, "unknown"},
	} {
		if e := c.run.Expect(c.bound, c.baseline); e.Outcome() != c.want {
			t.Errorf("%+v of a run %q: %s, want %s", c.bound, c.run.Status, e, c.want)
		}
	}
	got := Worst(Figures{Quota: .9, Refused: .1}, Figures{Quota: .8, Refused: .05, Wait: 3})
	if diff := cmp.Diff(Figures{Quota: .8, Refused: .1, Wait: 3}, got); diff != "" {
		t.Errorf("Worst (-want +got):\n%s", diff)
	}
}

// A miss is a failure whatever else is doubtful; otherwise the runs must be there, whole
// and judged.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Report)
		want   string
	}{
		"missed":       {func(*Report) {}, "FAIL: chatclub: quota used at least 99.00 % (98.01 %)"},
		"met":          {func(r *Report) { r.Expectations = r.Expectations[1:] }, "PASS: 1 of 1 expectations met"},
		"unfinished":   {func(r *Report) { r.Expectations, r.Unfinished = r.Expectations[1:], "stopped" }, "NO VERDICT: stopped"},
		"not told":     {func(r *Report) { r.Expectations[0].Met = nil }, "NO VERDICT: chatclub: quota"},
		"nothing":      {func(r *Report) { r.Expectations = nil }, "NO VERDICT: nothing was expected"},
		"did not run":  {func(r *Report) { r.Expectations, r.Runs[1].Status = r.Expectations[1:], Failed }, "NO VERDICT: article"},
		"ours is lost": {func(r *Report) { r.Expectations, r.Runs[0].Figures[Lost] = nil, 2 }, "FAIL: chatclub lost 2 messages"},
	} {
		r := sample()
		if c.change(r); !strings.HasPrefix(r.Verdict().String(), c.want) {
			t.Errorf("%s: %s, want %s…", name, r.Verdict(), c.want)
		}
	}
}

// report.json is read as it was written, and texts are harmless on a terminal.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := sample()
	r.Title = "<img src=x onerror=alert(1)> | \x1b[2J *bold*"
	if err := Save(dir, r); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if diff := cmp.Diff(r, got); err != nil || diff != "" {
		t.Errorf("Read, %v (-want +got):\n%s", err, diff)
	}
	var b bytes.Buffer
	if err := WriteHTML(&b, r); err != nil || !strings.Contains(b.String(), `<tr class="open"><th scope="row">static (interrupted)<`) {
		t.Errorf("WriteHTML, %v; want the row of a run that proves nothing to be grey", err)
	}
	b.Reset()
	if err := WriteTable(&b, r); err != nil || strings.Contains(b.String(), "\x1b") || !strings.HasPrefix(b.String(), "FAIL: ") || !strings.Contains(b.String(), "98.01 %") || !strings.Contains(b.String(), "30,000 | 29,999") {
		t.Errorf("WriteTable, %v: %s; want the verdict first, and no escape", err, b.String())
	}
}

const desktop, handheld = 1280, 375

// The charts are drawn out of the report, and the figures are there as text, on a small
// screen too. With the name of the chart behind its address the page is a picture of it.
func TestPage(t *testing.T) {
	t.Parallel()
	r := sample()
	for _, width := range []int{desktop, handheld} {
		s := show(t, r, width, "")
		if len(s.Colours) != 4 { // the sends of each run, and the chart
			t.Errorf("charts = %d, want 4", len(s.Colours))
		}
		for _, want := range []string{"29,999", r.Command, r.Source, "NOT MET", "98.01 %", "CPUs", "stopped after 20s of 40s"} {
			if !strings.Contains(s.Text, want) {
				t.Errorf("the page does not say %q", want)
			}
		}
	}
	if s := show(t, r, handheld, "#sends"); strings.Contains(s.Text, "Comparison") || len(s.Colours) != 3 {
		t.Errorf("the picture has %d charts and the text %q, want 3 and no table", len(s.Colours), s.Text)
	}
}

// Texts are no markup and no code.
func TestPageOfHostileTexts(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Title, r.Runs[0].Label, r.Runs[0].Series[0].Name = `<img src=x onerror=alert(1)>`, `</script><script>alert(2)</script>`, `<b>`
	if s := show(t, r, handheld, ""); !strings.Contains(s.Text, r.Title) || !strings.Contains(s.Text, r.Runs[0].Label) {
		t.Errorf("the page says %q, want the texts as they are", s.Text)
	}
}
