package browsertest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var (
	desktop  = view{width: 1360, height: 1040, scale: 1}
	handheld = view{width: 375, height: 812, scale: 2, dark: true}
)

// watchShifts adds up how far things on the page jump without being touched, as
// the browser itself measures it.
const watchShifts = `new PerformanceObserver(l => { for (const e of l.getEntries()) if (!e.hadRecentInput) { window.shifted = (window.shifted ?? 0) + e.value; (window.shifts ??= []).push(e.value.toFixed(4) + " " + e.sources.map(s => (s.node?.className || s.node?.id || s.node?.nodeName) + JSON.stringify(s.previousRect) + JSON.stringify(s.currentRect)).join(" ")) } }).observe({ type: "layout-shift", buffered: true })`

// TestChat: a message of one phone arrives on the others, through the webhook,
// the system and the Send API. A phone that leaves gets nothing more.
func TestChat(t *testing.T) {
	t.Parallel()
	s := start(t, "USERS=4", "ROOMS=2", "PAGES=1", "WAVES=false", "EVENTS_PER_SECOND=2")
	b := open(t, s.platform, desktop)
	b.run("watch for jumps", chromedp.Evaluate[chromedp.Void](watchShifts))
	for _, phone := range []string{"1", "2", "3"} {
		b.joins(phone)
	}
	const text = `<img src=x onerror=alert(1)> "quotes" & Grüße 🎉`
	b.says("1", text)
	b.until("the text is on phone 2", got("2", text))
	b.until("the text is on phone 3", got("3", text))
	b.until("phone 1 shows it as sent", `document.querySelector("#phone-1 .talk li.mine:not(.tap)").dataset.state === "sent"`)
	for _, phone := range []string{"2", "3"} {
		name := eval[string](b, `[...document.querySelectorAll("#phone-`+phone+` .bubble")].at(-1).querySelector("b").textContent`)
		if !strings.HasPrefix(name, "Guest ") {
			t.Errorf("name beside the text on phone %s = %q, want the writer's", phone, name)
		}
	}
	if n := eval[int](b, `document.querySelectorAll(".talk img").length`); n != 0 {
		t.Errorf("pictures in the conversations = %d, want 0: a text is no markup", n)
	}

	b.click("#phone-2 .more")
	b.click("#phone-2 [data-picture=cat]")
	for _, phone := range []string{"1", "2", "3"} {
		b.until("the picture is on phone "+phone, `document.querySelector("#phone-`+phone+` .talk img[src='pictures/cat.svg']")?.naturalWidth > 0`)
	}

	user := eval[string](b, `document.querySelector("#phone-2 .where").title.split(" ").at(-1)`)
	page := eval[string](b, `document.querySelector("#add-page").value`)
	if err := s.send(t.Context(), page, `{"recipient":{"id":"`+user+`"},"sender_action":"typing_on"}`); err != nil {
		t.Fatal(err)
	}
	b.until("phone 2 shows that somebody types", `document.querySelector("#phone-2 .typing").textContent === "typing …"`)
	checkLeave(t, s, b)

	b.click("#add [type=submit]")
	b.until("there is a fourth phone", `document.querySelector("#phone-4") !== null`)
	b.until("the others show their last messages still", `[...document.querySelectorAll(".talk")].every(t => t.scrollHeight - t.scrollTop - t.clientHeight < 2)`)
	b.click("#phone-4 .remove")
	b.until("it is gone", `document.querySelector("#phone-4") === null`)
	if moved := eval[float64](b, `window.shifted ?? 0`); moved > 0.02 {
		t.Errorf("layout shift = %g, want next to none:\n%s", moved, strings.Join(eval[[]string](b, `window.shifts`), "\n"))
	}
	if l := s.ledger().Totals; l.Unexpected != 0 || l.Duplicated != 0 {
		t.Errorf("ledger = %+v, want nothing unexpected or duplicated by the phones", l)
	}
}

// checkLeave: after phone 3 has left, a copy for it is refused once, and core
// takes it out of the room. After joining again it gets copies again.
func checkLeave(t *testing.T, s *system, b *tab) {
	t.Helper()
	const bubbles = `document.querySelectorAll("#phone-3 .talk li").length`
	b.click("#phone-3 .block")
	b.until("phone 3 has left", `document.querySelector("#phone-3").dataset.state === "left"`)
	before := eval[int](b, bubbles)
	b.says("1", "is anybody still here?")
	b.until("the text is on phone 2", got("2", "is anybody still here?"))
	eventually(t, "the copy for phone 3 is answered 551", func() bool { return s.ledger().Answers["551"] == 1 })
	eventually(t, "core was told", func() bool {
		return strings.Contains(s.get(s.metrics), `chatclub_core_events_total{kind="feedback",program="core"} 1`)
	})
	b.says("1", "and now?")
	b.until("the text is on phone 2", got("2", "and now?"))
	if after := eval[int](b, bubbles); after != before {
		t.Errorf("messages on the phone that left = %d, want still %d", after, before)
	}
	b.joins("3")
	b.until("phone 3 is welcomed again", `[...document.querySelectorAll("#phone-3 .bubble")].at(-1).textContent.startsWith("Welcome to room")`)
	b.says("2", "welcome back")
	b.until("the text is on phone 3", got("3", "welcome back"))
	if n := s.ledger().Answers["551"]; n != 1 {
		t.Errorf("answers 551 = %d, want still 1: the room has forgotten the phone that left", n)
	}
}

// TestChartStopsAtTheLimit: of 1,000 sends/s for one page the chart shows 300
// accepted, and as many as the limit says when that is changed.
func TestChartStopsAtTheLimit(t *testing.T) {
	t.Parallel()
	s := start(t, "USERS=2", "ROOMS=1", "PAGES=1", "WAVES=false", "EVENTS_PER_SECOND=1")
	b := open(t, s.platform, desktop)
	const page = "777"
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	flood.Go(func() { pour(ctx, s, page, 1000) })
	defer flood.Wait()
	defer stop()

	b.until("the page is listed", `[...document.querySelectorAll("#pages button")].some(r => r.dataset.page === "777")`)
	b.run("choose the page", chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("#pages button")].find(r => r.dataset.page === "777").click()`))
	// Two whole seconds at the limit, each with its refused sends, as many as the
	// machine can make.
	const series = `(name => document.querySelector("#chart").dataset[name].split(",").map(Number))`
	b.until("the chart shows two seconds at the limit", `document.querySelector("#chart").dataset.page === "777" &&
		`+series+`("accepted").filter((n, i) => n === 300 && `+series+`("refused")[i] > 0).length >= 2`)
	accepted := eval[[]int](b, series+`("accepted")`)
	if most := slices.Max(accepted); most != 300 {
		t.Errorf("most accepted in a second on the chart = %d, want 300 of 1000", most)
	}
	if got := eval[string](b, `document.querySelector("#rate-limit").textContent`); got != "300" {
		t.Errorf("limit beside the chart = %s, want 300", got)
	}

	const field = chromedp.CSS(`#switches [data-path="text.per_second"]`)
	b.run("set the limit", chromedp.Evaluate[chromedp.Void](`document.querySelector("[data-path='text.per_second']").select()`), chromedp.SendKeys(field, "120"+kb.Enter))
	b.until("the chart follows", `document.querySelector("#chart").dataset.limit === "120" && `+series+`("accepted").slice(-4, -1).filter(n => n === 120).length >= 2`)
}

// pour sends at a pace, in open loop.
func pour(ctx context.Context, s *system, page string, perSecond int) {
	var calls sync.WaitGroup
	defer calls.Wait()
	const every = 10 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	begin, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// All that are due by now, not a number per tick: ticks are lost on a busy machine.
		due := min(int(time.Since(begin).Seconds()*float64(perSecond)), sent+perSecond)
		for ; sent < due; sent++ {
			id := broadcastID(page, strconv.Itoa(sent), "42")
			calls.Go(func() {
				_ = s.send(ctx, page, `{"recipient":{"id":"42"},"message":{"text":"x","metadata":"`+id+`"}}`) // the ledger shows its result
			})
		}
	}
}

// TestKeyboardOnASmallScreen: at 375 pixels and in the dark nothing sticks out,
// and a user who has only a keyboard joins and writes.
func TestKeyboardOnASmallScreen(t *testing.T) {
	t.Parallel()
	s := start(t, "USERS=4", "ROOMS=2", "PAGES=1", "WAVES=false", "EVENTS_PER_SECOND=2")
	b := open(t, s.platform, handheld)
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > int(handheld.width) {
		t.Errorf("width of the page = %d, want at most %d", wide, handheld.width)
	}
	if wide := eval[int](b, `document.querySelector("#phone-1").offsetWidth`); wide > int(handheld.width) {
		t.Errorf("width of a phone = %d, want at most %d", wide, handheld.width)
	}
	if c := eval[string](b, `getComputedStyle(document.body).backgroundColor`); c != "rgb(12, 15, 19)" {
		t.Errorf("background in the dark = %s, want a dark one", c)
	}
	focused := func() string {
		return eval[string](b, `(e => e.getAttribute("aria-label") || e.labels?.[0]?.textContent.trim() || e.textContent.trim())(document.activeElement)`)
	}
	// The order of the focus is the order in which things are read.
	var order []string
	for joined := 0; joined < 2; {
		if len(order) == 40 {
			t.Fatalf("focus went to %q, want two phones' buttons among them", order)
		}
		b.run("press Tab", chromedp.KeyEvent(kb.Tab))
		order = append(order, focused())
		if order[len(order)-1] != "Get started" {
			continue
		}
		joined++
		phone := strconv.Itoa(joined)
		b.run("press Enter", chromedp.KeyEvent(kb.Enter))
		b.until("phone "+phone+" may write and has the focus", `document.activeElement === document.querySelector("#phone-`+phone+` .compose input")`)
		b.run("type", chromedp.KeyEvent("by keyboard from "+phone), chromedp.KeyEvent(kb.Enter))
		b.until("it is sent", `document.querySelector("#phone-`+phone+` .talk li.mine:not(.tap)")?.dataset.state === "sent"`)
	}
	b.until("the text is on phone 1", got("1", "by keyboard from 2"))
	want := []string{"Page of the next phone", "Add phone", "Remove phone 1", "Conversation of phone 1", "Get started"}
	if i := slices.Index(order, want[0]); i < 0 || order[0] != "Texts per second" || !slices.Equal(order[i:i+len(want)], want) {
		t.Errorf("focus goes to %q, want the switches first and then %q", order, want)
	}
	unnamed := eval[[]string](b, `[...document.querySelectorAll("button, input, select, [tabindex]")].filter(e => e.checkVisibility() &&
		!(e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim())).map(e => e.outerHTML)`)
	if len(unnamed) > 0 {
		t.Errorf("controls without a name: %q", unnamed)
	}
}
