package browsertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"chatclub/tools/program"
)

// TestLook: chatclub's page fits every screen and every reader.
func TestLook(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	x := scene(600, 6, 4)
	s.send("phones", twoPhones(x))
	s.send("state", x)
	b := open(t, s.URL, laptop)
	s.shows(b, x)
	byKeyboard(t, s, b)
	onEveryScreen(t, s, b)
	withLessMotion(t, s, b)
}

// byKeyboard: everything can be reached by Tab, has a name, and works.
func byKeyboard(t *testing.T, s *stage, b *tab) {
	t.Helper()
	focused := func() string {
		return eval[string](b, `(e => e.getAttribute("aria-label") || e.labels?.[0]?.textContent.trim() || e.textContent.trim())(document.activeElement)`)
	}
	var order []string
	for range 60 {
		b.run("press Tab", chromedp.KeyEvent(kb.Tab))
		now := focused()
		if len(order) > 0 && now == order[0] {
			break
		}
		order = append(order, now)
		var want string
		switch now {
		case "Kill D16":
			want = `kill {"dispatcher":"D16"}`
		case "Flood Jazz":
			want = `flood {"page":"10000"}`
		case "Add 3 dispatchers":
			want = `add {"count":3}`
		default:
			continue
		}
		b.run("press Enter", chromedp.KeyEvent(kb.Enter))
		eventually(t, now+" asks", func() bool { return len(s.acts) > 0 })
		if got := <-s.acts; got != want {
			t.Errorf("%s asks for %s, want %s", now, got, want)
		}
	}
	rest := order
	for _, want := range []string{
		"Phones", "Show me the tour, 40 s", "Jazz", "Films", "Add", "Kill D16", "Hang D16", "Remove D19",
		"Flood Jazz", "Kill the owner", "Hang the owner", "Add a dispatcher", "Add 3 dispatchers", "Halve the limit", "API down, 10 s",
		"One recipient always fails", "Do it the article’s way, 20 s", "Jazz: sends per second, choose a second with the arrow keys",
	} {
		i := slices.IndexFunc(rest, func(name string) bool { return strings.HasPrefix(name, want) })
		if i < 0 {
			t.Fatalf("focus goes to %q, want %q in it, in this order", order, want)
		}
		rest = rest[i+1:]
	}
	b.run("choose a second", chromedp.Focus(chromedp.CSS("#chart")), chromedp.KeyEvent(kb.ArrowLeft))
	if got := eval[string](b, `document.querySelector("#chart").getAttribute("aria-valuetext")`); !strings.Contains(got, "294 accepted of 300") {
		t.Errorf("values at the second = %q, want what was accepted of the limit", got)
	}
	b.run("open the phones", chromedp.Focus(chromedp.CSS("#open-phones")), chromedp.KeyEvent(kb.Enter))
	b.until("the phones are there", `document.querySelector("#drawer").checkVisibility()`)
	unnamed := eval[[]string](b, `[...document.querySelectorAll("button, input, select, canvas[tabindex], [tabindex='0']")].filter(e => e.checkVisibility() &&
		!(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.labels?.length || e.textContent.trim())).map(e => e.outerHTML)`)
	if len(unnamed) > 0 {
		t.Errorf("controls without a name: %q", unnamed)
	}
	b.run("press Escape", chromedp.KeyEvent(kb.Escape))
	b.until("the phones are away and the focus is back", `!document.querySelector("#drawer").checkVisibility() && document.activeElement.id === "open-phones"`)
}

// onEveryScreen: nothing sticks out, with as much as there can be on the page.
func onEveryScreen(t *testing.T, s *stage, b *tab) {
	t.Helper()
	n := 600
	widths := []int64{320, 390, 768, 799, 800, 1024, 1199, 1200, 1399, 1440, 1799, 1800, 2560}
	if testing.Short() {
		widths = []int64{320, 800, 1440}
	}
	for _, width := range widths {
		for _, dark := range []bool{false, true} {
			b.look(view{width: width, height: 900, scale: 1, dark: dark})
			n++
			x := scene(n, 12, 8)
			x.Machine = "Other programs have 97 % of this machine's 2 processors: what you see is slower than it is."
			x.AllPages = 10000
			s.shows(b, x)
			for _, phones := range []bool{false, true} {
				b.run("open or close the phones", chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
					`if (document.querySelector("#drawer").hidden === %v) document.querySelector("#open-phones").click()`, phones)), frame())
				if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > width {
					t.Errorf("width of the page on a screen of %d, phones %v = %d, want no more", width, phones, wide)
				}
			}
			want := "rgb(244, 245, 248)"
			if dark {
				want = "rgb(12, 15, 19)"
			}
			if got := eval[string](b, `getComputedStyle(document.body).backgroundColor`); got != want {
				t.Errorf("background, dark %v = %s, want %s", dark, got, want)
			}
			if !eval[bool](b, `document.querySelector("#machine").checkVisibility()`) {
				t.Errorf("width %d: the page does not say that the machine is busy", width)
			}
		}
	}
	b.run("close the phones", chromedp.Evaluate[chromedp.Void](`document.querySelector("#close-phones").click()`))
}

// withLessMotion: a line to another dispatcher is there at once.
func withLessMotion(t *testing.T, s *stage, b *tab) {
	t.Helper()
	still := laptop
	still.still = true
	b.look(still)
	s.shows(b, scene(799, 6, 4))
	b.run("note the ways of the line", frame(), chromedp.Evaluate[chromedp.Void](`(() => {
		const dot = `+wire("10000")+`.querySelector("circle"), at = () => dot.getAttribute("cx") + " " + dot.getAttribute("cy");
		window.ways = [at()];
		new MutationObserver(() => { if (ways.at(-1) !== at()) ways.push(at()) }).observe(dot, { attributes: true });
	})()`))
	before := eval[string](b, wire("10000")+`.dataset.owner`)
	for n := 800; n < 804; n++ { // the owner changes with the first
		s.shows(b, scene(n, 6, 4))
		b.run("draw", frame())
	}
	if after := eval[string](b, wire("10000")+`.dataset.owner`); after == before {
		t.Fatalf("the line goes to %s as before, want another dispatcher", after)
	}
	if got := eval[[]string](b, `ways`); len(got) != 2 {
		t.Errorf("places of the line's end = %q, want two and none between", got)
	}
	if got := eval[string](b, `getComputedStyle(document.querySelector(".card")).transitionDuration`); got != "0s" {
		t.Errorf("duration of a card's transition = %s, want none", got)
	}
}

// TestHours: five minutes of states, in the short form more than one, leave the page as
// small as it was. It says so when the states stop, since when, and that the system was
// restarted.
func TestHours(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	early, late := 600, 1800 // five minutes lie between them
	if testing.Short() {
		late = 900
	}
	s.send("phones", twoPhones(scene(0, 12, 8)))
	s.send("state", scene(0, 12, 8))
	b := open(t, s.URL, laptop)
	play := func(from, to int) {
		t.Helper()
		for n := from; n <= to; n++ {
			if n%50 != 0 {
				s.send("state", scene(n, 12, 8))
				continue
			}
			s.shows(b, scene(n, 12, 8))
			b.run("draw", frame()) // what was drawn, and what was removed, is kept until then
		}
	}
	play(1, early)
	heapBefore, nodesBefore := b.size()
	play(early+1, late)
	var heapAfter float64
	program.Eventually(t, "the page is as small as before", func() error { // what was removed goes with a frame, which may be late
		var nodes int64
		if heapAfter, nodes = b.size(); nodes > nodesBefore+nodesBefore/10 {
			return fmt.Errorf("nodes = %d after five minutes, %d before, want no more", nodes, nodesBefore)
		}
		return nil
	})
	if heapAfter > 20e6 || heapAfter > heapBefore+1e6 {
		t.Errorf("heap = %.1f MB after five minutes, %.1f MB before, want no more, and 20 MB at most", heapAfter/1e6, heapBefore/1e6)
	}

	b.until("the page says since when there is no data", `/^No data since \d\d:\d\d:\d\d$/.test(document.querySelector("#lost-since").textContent) && document.querySelector("#lost-since").checkVisibility()`)
	if got := eval[string](b, `document.querySelector("#live").textContent + " " + getComputedStyle(document.querySelector("#main")).opacity`); got != "Connection lost 0.4" {
		t.Errorf("without data = %s, want it said, and the figures dim", got)
	}
	if got := eval[string](b, `document.title + " " + getComputedStyle(document.querySelector("#open-phones")).pointerEvents`); got != "(!) chatclub none" {
		t.Errorf("title, and whether buttons do nothing, without data = %s, want (!) chatclub none", got)
	}
	s.put("") // the stream ends, and is opened again
	again := scene(4, 6, 4)
	again.Started = begun.Add(1000)
	defer s.repeat(again)()
	b.until("the page is live again, and says that the system was restarted", `!document.querySelector("#lost-since").checkVisibility() &&
		document.querySelector("#live").textContent === "Live" && /^The system was restarted at/.test(document.querySelector("#notice").textContent)`)
}

// size returns the size of the page's heap, and its number of nodes.
func (b *tab) size() (heap float64, nodes int64) {
	b.t.Helper()
	b.run("measure the page", frame(), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return err
		}
		h, err := cdp.Call(ctx, t, runtime.GetHeapUsage, cdp.Empty{})
		if err != nil {
			return err
		}
		d, err := cdp.Call(ctx, t, memory.GetDOMCounters, cdp.Empty{})
		if err != nil {
			return err
		}
		heap, nodes = h.UsedSize, d.Nodes
		return nil
	}))
	return heap, nodes
}
