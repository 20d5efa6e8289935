package report

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
)

// sample is a report of three strategies, of which ours misses an expectation and
// another was stopped.
func sample() *Report {
	r := &Report{
		Case: "saturate", Title: "One page with more to send than its limit", Source: "README, guarantee of flow", Command: "go run ./cmd/loadtest compare saturate",
		Started: time.Unix(1e9, 0), Versions: Versions{Go: "go1.26", Chatclub: "0123456789ab"}, Machine: Machine{OS: "linux", Arch: "amd64", CPUs: 2},
		Expectations: []Expectation{{Text: "quota used at least 99.00 %", Of: Own, Met: new(false), Got: "98.01 %"}, {Text: "lost at most 0", Of: Own, Met: new(true), Got: "0"}},
	}
	for i, name := range []string{Own, "article", "static"} {
		run := Run{Strategy: name, Replicas: 4, Figures: Figures{
			Quota: .9801 - .1*float64(i), Refused: .3 * float64(i%2), Lost: 0, Duplicated: 0, Unexpected: 0, HotP99: 4.6 + float64(i), ColdP99: .012, Operations: 6.4, CPU: 198, Sent: 5880, Dead: 0,
		}}
		s := Series{Name: "page 1", StepMS: 1000}
		l := Latency{Class: "hot", Count: 5000}
		for k := range 20 {
			s.Sent, s.Refused, s.Limit = append(s.Sent, int64(290-20*i+k)), append(s.Refused, int64(400*(i%2))), append(s.Limit, 300)
			l.Percentiles = append(l.Percentiles, Percentile{float64(5 * k), float64(100 * (k + 1))})
		}
		run.Series, run.Latency = []Series{s}, []Latency{l}
		r.Runs = append(r.Runs, run)
	}
	r.Runs[2].Status, r.Runs[2].Reason = Interrupted, "stopped after 20s of 40s"
	return r
}

// turns are those of a strategy with the quota uses given, all sound.
func turns(use ...float64) (list []Turn) {
	for i, v := range use {
		run := Run{Strategy: "a", Figures: Figures{Quota: v, HotP99: v, Lost: 0}, Series: []Series{{StepMS: int64(i)}}}
		list = append(list, Turn{run, uint64(i + 1)})
	}
	return list
}

// A folded run has the medians of the sound turns. A disturbed one is left out, but what
// it lost is not excused, and what is missing is said.
func TestFold(t *testing.T) {
	t.Parallel()
	all := turns(.91, .97, .93, .99, .95)
	r := Fold(all, 5)
	if r.Figures[Quota] != .95 || r.Figures[HotP99] != .95 || len(r.Rounds) != 5 || r.Status != Complete || r.Series[0].StepMS != 4 {
		t.Errorf("Fold = %v, %d rounds, %q, series of turn %d; want .95, 5, complete, that of the median", r.Figures, len(r.Rounds), r.Status, r.Series[0].StepMS)
	}
	if diff := cmp.Diff(all[0].Run, Fold(all[:1], 1)); diff != "" {
		t.Errorf("the only turn is changed (-want +got):\n%s", diff)
	}
	disturbed := turns(.2)[0]
	disturbed.Run.Status, disturbed.Run.Reason, disturbed.Run.Figures[Lost] = Inconclusive, "busy", 7
	r = Fold(append([]Turn{disturbed}, all[:3]...), 3)
	if r.Figures[Quota] != .93 || r.Figures[Lost] != 7 || r.Status != Complete || !slices.Contains(r.Notes, "left out: busy") {
		t.Errorf("Fold beside a disturbed turn = %v, %q, %q; want .93, 7 lost, complete, and the reason", r.Figures, r.Status, r.Notes)
	}
	for _, c := range []struct {
		all    []Turn
		status Status
		reason string
	}{
		{[]Turn{all[0], disturbed}, Inconclusive, "1 of 2 runs are sound; the last: busy"},
		{[]Turn{all[0]}, Interrupted, "1 of 2 runs are sound"},
		{[]Turn{disturbed, all[0]}, Inconclusive, "1 of 2 runs are sound"},
	} {
		if r := Fold(c.all, 2); r.Status != c.status || r.Reason != c.reason {
			t.Errorf("Fold of %d turns = %q, %q; want %q, %q", len(c.all), r.Status, r.Reason, c.status, c.reason)
		}
	}
	delete(all[2].Run.Figures, HotP99)
	if v, known := Fold(all, 5).Figures[HotP99]; known {
		t.Errorf("a figure that one round does not know = %g, want unknown", v)
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

// The best of a column is marked with its ties; a run wins nothing that lost messages, was
// mostly refused or is not whole.
func TestMarks(t *testing.T) {
	t.Parallel()
	runs := []Run{
		{Strategy: "a", Figures: Figures{Quota: .97}},
		{Strategy: "b", Figures: Figures{Quota: .975}},
		{Strategy: "c", Figures: Figures{Quota: .9}},
		{Strategy: "d", Figures: Figures{Quota: .99, Lost: 1}},
		{Strategy: "e", Figures: Figures{Quota: .99, Refused: .6}},
		{Strategy: "f", Figures: Figures{Quota: .99}, Status: Inconclusive},
	}
	if got, want := Quota.kind().marks(runs), []string{"ties", "ties", "", "", "", ""}; !slices.Equal(got, want) {
		t.Errorf("marks = %q, want %q", got, want)
	}
	runs[0].Figures[Quota] = .9
	if got := Quota.kind().marks(runs); got[1] != "best" {
		t.Errorf("marks = %q, want the second best", got)
	}
}

// The row of a run that proves nothing is grey.
func TestDoubtfulRow(t *testing.T) {
	t.Parallel()
	r := &Report{Title: "t", Runs: []Run{
		{Strategy: Own, Figures: Figures{Quota: .9}},
		{Strategy: "static", Figures: Figures{Quota: .4}, Status: Inconclusive, Reason: "busy"},
	}}
	var page bytes.Buffer
	if err := WriteHTML(&page, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<tr class="own"><th scope="row">chatclub<`, `<tr class="open"><th scope="row">static (inconclusive)<`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// report.json is read as it was written, and texts are harmless in Markdown and on a
// terminal.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := sample()
	r.Title = "<img src=x onerror=alert(1)> | \x1b[2J *bold*"
	if err := Save(dir, r); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	r.Schema, r.Started = Schema, got.Started
	if diff := cmp.Diff(r, got); err != nil || diff != "" {
		t.Errorf("Read, %v (-want +got):\n%s", err, diff)
	}
	md, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil || bytes.ContainsAny(md, "\x1b") || bytes.Contains(md, []byte(" <img")) || !bytes.Contains(md, []byte("**98.01 %**")) {
		t.Errorf("report.md, %v: %s; want no escape, no markup, and the best in bold", err, md)
	}
	var b bytes.Buffer
	if err := WriteTable(&b, r); err != nil || strings.Contains(b.String(), "\x1b") || !strings.HasPrefix(b.String(), "FAIL: ") || !strings.Contains(b.String(), "**98.01 %**") {
		t.Errorf("WriteTable, %v: %s; want the verdict first, and a mark", err, b.String())
	}
}

// shown writes the report's page, opens it, and checks that it is no wider than the
// screen and that so many panels have their lines. It counts the pixels that have a
// colour: axes are grey.
func shown(t *testing.T, r *Report, v view, fragment string, want int) *tab {
	t.Helper()
	var page bytes.Buffer
	if err := WriteHTML(&page, r); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, page.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	b := openTab(t, path+fragment, v)
	b.run("see it", chromedp.Evaluate[chromedp.Void](`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))`, chromedp.EvalAwaitPromise))
	got := eval[[]int](b, `[...document.querySelectorAll("figure")].filter(f => f.clientWidth > 0).map(figure => {
	const c = figure.querySelector("canvas"), copy = new OffscreenCanvas(c.width, c.height).getContext("2d");
	copy.drawImage(c, 0, 0);
	const d = copy.getImageData(0, 0, c.width, c.height).data;
	let n = 0;
	for (let p = 0; p < d.length; p += 4) n += d[p + 3] > 127 && Math.max(d[p], d[p + 1], d[p + 2]) - Math.min(d[p], d[p + 1], d[p + 2]) > 60;
	return n;
})`)
	if len(got) != want || slices.ContainsFunc(got, func(n int) bool { return n < 80 }) {
		t.Errorf("pixels of a colour in the panels = %d, want %d panels with their lines", got, want)
	}
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > int(v.width) {
		t.Errorf("width of the page = %d, want at most %d", wide, v.width)
	}
	return b
}

var (
	desktop  = view{width: 1280, height: 1000, scale: 1}
	handheld = view{width: 375, height: 812, scale: 2, dark: true}
)

// The charts are drawn out of the report, and the figures are there as text. With the name
// of a chart behind its address the page is a picture of it.
func TestPage(t *testing.T) {
	t.Parallel()
	r := sample()
	b := shown(t, r, desktop, "", 3+1) // the sends of each run, and a class of latency
	b.run("open all", chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach(d => d.open = true)`))
	text := eval[string](b, `document.body.innerText`)
	for _, want := range []string{r.Command, r.Source, "NOT MET", "98.01 %", "linux/amd64, 2 CPUs", "0123456789ab", "stopped after 20s of 40s"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	values := eval[string](b, `(() => {
	const c = document.querySelector("canvas"), r = c.getBoundingClientRect();
	c.dispatchEvent(new PointerEvent("pointermove", { clientX: r.left + r.width / 2, clientY: r.top + 9 }));
	return document.querySelectorAll(".legend")[1].textContent;
})()`)
	if !strings.Contains(values, "accepted: 2") || !strings.Contains(values, "limit: 300") {
		t.Errorf("values under the pointer, in the panel beside = %q, want those of the second", values)
	}
	picture := shown(t, r, handheld, "#sends", 3)
	if text := eval[string](picture, `document.body.innerText`); strings.Contains(text, "Comparison") {
		t.Errorf("the picture has the table in it: %q", text)
	}
}

// Texts are no markup, and no code but ours runs, on a small screen too.
func TestPageOfHostileTexts(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Title, r.Runs[0].Label, r.Runs[0].Series[0].Name = `<img src=x onerror=alert(1)>`, `</script><script>alert(2)</script>`, `<b>`
	b := shown(t, r, handheld, "", 3+1)
	if n := eval[int](b, `document.querySelectorAll("img, main script").length`); n != 0 {
		t.Errorf("pictures and scripts from texts = %d, want 0", n)
	}
	if eval[bool](b, `(() => { const s = document.createElement("script"); s.textContent = "window.ran = true"; document.body.append(s); return window.ran === true })()`) {
		t.Error("a foreign script ran, want the policy to forbid it")
	}
	b.mu.Lock()
	b.faults = slices.DeleteFunc(b.faults, func(f string) bool { return strings.Contains(f, "Content Security Policy") })
	b.mu.Unlock()
}
