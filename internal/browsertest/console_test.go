package browsertest

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"chatclub/internal/console"
)

var laptop = view{width: 1440, height: 900, scale: 1}

// TestActions: on chatclub's page a visitor floods a page, kills its owner, adds
// dispatchers, and does it the article's way for a while. Nothing is lost by it, and
// the page says so. The phones are in the room of the crowd.
func TestActions(t *testing.T) {
	t.Parallel()
	s := start(t, "DISPATCHERS=4", "PAGES=4", "USERS=40", "LIMIT_TEXT=100", "EVENTS_PER_SECOND=2", "WAVES=false")
	b := open(t, s.page, laptop)
	flooded := s.state().Pages[0]

	b.click("#open-phones")
	b.joins("1")
	b.until("phone 1 gets what the crowd writes", `document.querySelector("#phone-1 .talk li:not(.mine) .bubble > b") !== null`)
	b.click("#close-phones")

	b.click("#actions [data-action=flood]")
	b.until("the flooded page is in excess, and owned", wire(flooded.ID)+`?.matches(".excess:not(.away)") && `+wire(flooded.ID)+`.dataset.owner !== ""`)
	b.until("phone 1 is told what waits", `(q => !q.hidden && /^[\d,]+ wait on `+flooded.Name+` before you\. A message written now arrives in about \d/.test(q.textContent))(document.querySelector("#phone-1 .queue"))`)
	killOwner(t, s, b, flooded.ID)
	addThree(b)
	if !testing.Short() { // it takes 20 s and some; TestArticle of package demo has its part
		articlesWay(t, s, b, flooded.ID)
	}
	if got := eval[string](b, `document.querySelector("#lost-count").textContent`); got != "0 lost" {
		t.Errorf("verdict = %s, want 0 lost", got)
	}
	if v := s.state().Verdict; v.Lost != 0 || v.Unexpected != 0 || v.Duplicated > v.Explained {
		t.Errorf("verdict = %+v, want nothing lost, unexpected, or doubled without a reason", v)
	}
}

// wire is the line from a page to its owner.
func wire(page string) string {
	return fmt.Sprintf(`document.querySelector("#wires g[data-page='%s']")`, page)
}

// killOwner kills the dispatcher that sends for a page in excess.
func killOwner(t *testing.T, s *system, b *tab, page string) {
	t.Helper()
	owner := eval[string](b, wire(page)+`.dataset.owner`)
	busyUntil := s.watchMachine()
	began := time.Now()
	b.click("#actions [data-action=kill]")
	b.until("the line goes to another dispatcher", fmt.Sprintf(
		`(g => g.dataset.owner !== %q && !g.matches(".away"))(%s)`, owner, wire(page)))
	moved := time.Now()
	const receipt = `[...document.querySelectorAll("#receipts li p")].map(p => p.textContent).find(s => s.includes(" killed with ")) ?? ""`
	b.until("the receipt is final", `/doubled\./.test(`+receipt+`)`)
	got := eval[string](b, receipt)
	if want := regexp.MustCompile(`^` + owner + ` killed with \d+ calls? in flight, \S+ taken over by D\d+ after [\d.]+ s: 0 lost, \d+ doubled\.`); !want.MatchString(got) {
		t.Errorf("receipt = %q, want it to match %s", got, want)
	}
	const most = 3 * time.Second
	if took := moved.Sub(began); took > most {
		if busy := busyUntil(moved); busy == "" {
			t.Errorf("the line moved after %v, want %v at most on a machine that has nothing else to do", took, most)
		} else {
			t.Logf("the line moved after %v. That it takes %v at most was not asserted: %s", took, most, busy)
		}
	}
}

// addThree adds three dispatchers to the three that are left.
func addThree(b *tab) {
	b.t.Helper()
	b.click(`#actions [data-action=add][data-count="3"]`)
	b.until("there are six dispatchers", `document.querySelectorAll("#dispatchers .card.running").length === 6`)
}

// articlesWay does it the article's way, and looks at the refusals while it does and
// after that.
func articlesWay(t *testing.T, s *system, b *tab, page string) {
	t.Helper()
	b.click("#actions [data-action=article]")
	const now = `Number(document.querySelector("#now-%s").textContent.replaceAll(",", ""))`
	b.until("more calls are refused than accepted", fmt.Sprintf(`document.querySelector("#chart").dataset.page === %q && `+now+" > "+now, page, "refused", "sent"))
	var back int64
	s.await("it is done our way again", func(x console.State) bool {
		for _, m := range x.Markers {
			if m.Text == "ours again" {
				back = m.At.Unix()
			}
		}
		return back > 0
	})
	busyUntil := s.watchMachine()
	const within = 10 // seconds
	var first int64
	last := s.await("calls are hardly refused any more", func(x console.State) bool {
		first = hardlyRefused(x, back)
		return first > 0
	})
	if after := first - back; after > within {
		if busy := busyUntil(last.Now); busy == "" {
			t.Errorf("refusals are below 1 %% again after %d s, want %d at most", after, within)
		} else {
			t.Logf("refusals are below 1 %% again after %d s. That it takes %d at most was not asserted: %s", after, within, busy)
		}
	}
	b.until("the receipt compares them", `[...document.querySelectorAll("#receipts li p")].some(p => /^The article's way .* refused for .* Then ours again: \d+ of [\d,]+\.$/.test(p.textContent))`)
}

// hardlyRefused is the first of three seconds after a moment, each with calls, of
// which less than 1 % were refused; 0 if there are none.
func hardlyRefused(x console.State, after int64) int64 {
	const run = 3
	sent, refused := make(map[int64]int), make(map[int64]int)
	var end int64
	for _, p := range x.Pages {
		end = p.History.End
		for i := range p.History.Sent {
			second := end - int64(len(p.History.Sent)-1-i)
			sent[second] += p.History.Sent[i]
			refused[second] += p.History.Refused[i]
		}
	}
	for first := after + 1; first+run-1 <= end; first++ {
		no, calls, silent := 0, 0, false
		for second := first; second < first+run; second++ {
			no += refused[second]
			calls += refused[second] + sent[second]
			silent = silent || sent[second] == 0
		}
		if !silent && 100*no < calls {
			return first
		}
	}
	return 0
}
