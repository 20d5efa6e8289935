package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var (
	desktop  = view{width: 1280, height: 1000, scale: 1}
	handheld = view{width: 375, height: 812, scale: 2, dark: true}
)

// pageOf writes the reports' page into a folder and returns its path.
func pageOf(t *testing.T, reports ...*Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteHTML(&b, reports...); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// inked returns how many pixels of a colour each panel's canvas has, panel by
// panel, for the colours given panel by panel.
const inked = `(wanted => [...document.querySelectorAll(".panel")].map((panel, i) => {
	const c = panel.querySelector("canvas"), copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
	copy.drawImage(c, 0, 0);
	const d = copy.getImageData(0, 0, c.width, c.height).data;
	return wanted[i].map(hex => {
		const [r, g, b] = [1, 3, 5].map(k => parseInt(hex.slice(k, k + 2), 16));
		let n = 0;
		for (let p = 0; p < d.length; p += 4) n += d[p + 3] > 127 && Math.abs(d[p] - r) + Math.abs(d[p + 1] - g) + Math.abs(d[p + 2] - b) < 60;
		return n;
	});
}))(%s)`

// checkInk fails unless every line of every panel is on its canvas.
func checkInk(t *testing.T, b *tab, dark bool, reports ...*Report) {
	t.Helper()
	var colours [][]string
	var about [][]string
	for _, r := range reports {
		for _, c := range charts(r) {
			for _, p := range c.Panels {
				var cs, as []string
				for _, l := range p.Lines {
					colour := l.Style.Light
					if dark {
						colour = l.Style.Dark
					}
					cs, as = append(cs, colour), append(as, fmt.Sprintf("%s, %s, %s: %s (%s)", r.Scenario, c.ID, p.Title, l.Name, colour))
				}
				colours, about = append(colours, cs), append(about, as)
			}
		}
	}
	raw, err := json.Marshal(colours)
	if err != nil {
		t.Fatal(err)
	}
	got := eval[[][]int](b, fmt.Sprintf(inked, raw))
	if len(got) != len(colours) {
		t.Fatalf("panels on the page = %d, want %d", len(got), len(colours))
	}
	for i := range got {
		for j, n := range got[i] {
			if n < 8 { // of a dashed line under others little is seen
				t.Errorf("%s has %d pixels of its colour, want 8", about[i][j], n)
			}
		}
	}
}

// unfold opens all that is folded away.
func unfold(b *tab) {
	b.t.Helper()
	b.run("open all", chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach(d => d.open = true)`))
	b.run("see it", frame())
}

// frame waits until what has changed is drawn.
func frame() chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))`, chromedp.EvalAwaitPromise)
}

func checkWidth(t *testing.T, b *tab, v view) {
	t.Helper()
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > int(v.width) {
		t.Errorf("width of the page = %d, want at most %d", wide, v.width)
	}
}

// One report, large and light: every line is drawn, and the dark takes over
// when the system turns dark.
func TestPage(t *testing.T) {
	t.Parallel()
	r := sampleSaturate()
	b := openTab(t, pageOf(t, r), desktop)
	checkWidth(t, b, desktop)
	unfold(b)
	checkInk(t, b, false, r)
	const background = `getComputedStyle(document.body).backgroundColor`
	if got := eval[string](b, background); got != "rgb(244, 245, 247)" {
		t.Errorf("background in the light = %s", got)
	}
	b.run("turn dark", scheme(true))
	b.run("see it", frame())
	if got := eval[string](b, background); got != "rgb(14, 17, 21)" {
		t.Errorf("background in the dark = %s", got)
	}
	checkInk(t, b, true, r)

	if got := eval[int](b, `document.querySelectorAll("h1").length`); got != 1 {
		t.Errorf("main headings = %d, want 1", got)
	}
	text := eval[string](b, `document.body.innerText`)
	for _, want := range []string{r.Command, r.Source, "NOT MET", "98.01 %", "linux/amd64, 2 CPUs", "0123456789ab", "stopped after 20s of 40s"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	unnamed := eval[[]string](b, `[...document.querySelectorAll("button, [tabindex], [role=img], [role=region]")].filter(e =>
		!(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") && document.getElementById(e.getAttribute("aria-labelledby")) || e.textContent.trim())).map(e => e.outerHTML)`)
	if len(unnamed) > 0 {
		t.Errorf("elements without a name: %q", unnamed)
	}
}

// The first screen has the verdict, what the figures say and the picture of it;
// then come the sends, the table, what was expected, and the notes. No table is
// cut off, also where all is unfolded.
func TestPageTellsTheConclusionFirst(t *testing.T) {
	t.Parallel()
	screen := view{width: 1440, height: 900, scale: 1}
	b := openTab(t, pageOf(t, sampleSaturate()), screen)
	b.run("see it", frame())
	const bottoms = `[".verdict", ".headline", ".bars", ".panels", ".scroll", ".expected", ".notes"].map(s => Math.round(document.querySelector(s).getBoundingClientRect().bottom))`
	got := eval[[]int](b, bottoms)
	if !slices.IsSorted(got) || got[2] > int(screen.height) {
		t.Errorf("verdict, headline, bars, sends, table, expectations and notes end at %v, want one below the other, the bars on the first screen", got)
	}
	unfold(b)
	if cut := eval[[]string](b, `[...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.getAttribute("aria-labelledby"))`); len(cut) > 0 {
		t.Errorf("tables that are cut off at %d pixels: %q", screen.width, cut)
	}
}

// The keyboard hides and shows a line.
func TestPageByKeyboard(t *testing.T) {
	t.Parallel()
	r := sampleOverload()
	b := openTab(t, pageOf(t, r), desktop)
	ink := func() int { // of the first line, which is naive's goodput
		return eval[[][]int](b, fmt.Sprintf(inked, `[["#882255"],[]]`))[0][0]
	}
	const button = `document.querySelector(".legend button")`
	before := ink()
	b.run("go to the first line's button", chromedp.Evaluate[chromedp.Void](button+`.focus()`))
	b.run("press Enter", chromedp.KeyEvent(kb.Enter))
	if got := eval[string](b, button+`.getAttribute("aria-pressed")`); got != "false" {
		t.Errorf("button = %s, want not pressed", got)
	}
	b.run("see it", frame())
	// The rings of the same run, a line of their own, stay.
	if after := ink(); after > before/2 {
		t.Errorf("pixels of the hidden line = %d of %d", after, before)
	}
	b.run("press Enter again", chromedp.KeyEvent(kb.Enter))
	b.run("see it", frame())
	if again := ink(); again != before {
		t.Errorf("pixels of the line shown again = %d, want %d", again, before)
	}
}

// Several reports on a phone in the dark, one of them full of markup.
func TestPageOnASmallScreen(t *testing.T) {
	t.Parallel()
	all := []*Report{sampleSaturate(), sampleOverload(), sampleHostile()}
	b := openTab(t, pageOf(t, all...), handheld)
	checkWidth(t, b, handheld)
	b.run("see it", frame())
	if tall := eval[int](b, `document.querySelector("#report-1").offsetHeight`); tall > 4000 {
		t.Errorf("height of a report of nine runs = %d, want at most 4000", tall)
	}
	unfold(b)
	checkInk(t, b, true, all...)
	checkWidth(t, b, handheld)
	if n := eval[int](b, `document.querySelectorAll("img, section script, nav script").length`); n != 0 {
		t.Errorf("pictures and scripts from texts = %d, want 0", n)
	}
	if n := eval[int](b, `document.scripts.length`); n != 3 {
		t.Errorf("scripts = %d, want the data, the library and ours", n)
	}
	if got := eval[[]string](b, `[...document.querySelectorAll("nav a")].map(a => document.querySelector(a.hash)?.querySelector("h2").textContent.split(":")[0])`); !slices.Equal(got, []string{"saturate", "aws-overload", "hostile"}) {
		t.Errorf("the index leads to %q", got)
	}
	// Foreign code cannot run, even if it got in.
	got := eval[bool](b, `(() => { const s = document.createElement("script"); s.textContent = "window.ran = true"; document.addEventListener("securitypolicyviolation", () => {}); document.body.append(s); return window.ran === true })()`)
	if got {
		t.Error("a foreign script ran, want the policy to forbid it")
	}
	b.mu.Lock()
	b.faults = slices.DeleteFunc(b.faults, func(f string) bool { return strings.Contains(f, "Content Security Policy") })
	b.mu.Unlock()
}

// The same report makes the same page, and every page carries the library's
// licence.
func TestPageIsTheSame(t *testing.T) {
	t.Parallel()
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := WriteHTML(b, sampleSaturate()); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two pages of one report differ")
	}
	if !strings.Contains(first.String(), "Copyright (c) 2022 Leon Sorokin") {
		t.Error("the page lacks the licence of uPlot")
	}
	if err := WriteHTML(&first); err == nil {
		t.Error("a page of no report = nil, want an error")
	}
}

// The library is what npm has as uplot@1.6.32, whose tarball's sha512 is
// KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==.
func TestLibrary(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	} {
		raw, err := pageFiles.ReadFile("page/uplot/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not what npm has: sha256 %x, want %s", name, sum, want)
		}
	}
}
