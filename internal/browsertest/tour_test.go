package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"chatclub/internal/console"
)

// TestTour: the tour plays to its end by itself, with every caption on the page, and
// the program ends well.
func TestTour(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long; the tour takes 40 s. TestActions does what it is made of")
	}
	t.Parallel()
	// The tour does not wait for a browser, which may take long. So the page is there before
	// the program, and is then given the program's states.
	page := newStage(t)
	stop := page.repeat(scene(0, 1, 1))
	b := open(t, page.URL, view{width: 1200, height: 760, scale: 1})
	stop()
	b.run("note the captions", chromedp.Evaluate[chromedp.Void](noteCaptions))
	s := startWith(t, []string{"-tour"})
	var last *console.Tour
	captions := make(map[int]string)
	err := s.states(func(x console.State) bool {
		page.send("state", x)
		if x.Tour != nil {
			last, captions[x.Tour.Step] = x.Tour, x.Tour.Text
		}
		return x.Tour != nil || last == nil
	})
	if err != nil && (last == nil || last.Step < last.Of) {
		t.Fatal(err)
	}
	if len(captions) < 6 || len(captions) != last.Of {
		t.Errorf("steps of the tour = %d, want all %d of them", len(captions), last.Of)
	}
	b.until("the page has shown the last step", fmt.Sprintf(`captions["%d of %d"] !== undefined`, last.Step, last.Of))
	shown := eval[map[string]string](b, `captions`)
	for step, text := range captions {
		if got := shown[fmt.Sprintf("%d of %d", step, last.Of)]; got != text {
			t.Errorf("step %d on the page = %q, want %q", step, got, text)
		}
	}
	if err := s.end(); err != nil {
		t.Errorf("chatclub -tour ended with %v, want a balance without loss", err)
	}
}

// noteCaptions keeps every step of the tour that the page shows.
const noteCaptions = `(() => {
	window.captions = {};
	const text = id => document.querySelector(id).textContent, box = document.querySelector("#caption");
	const note = () => { if (box.checkVisibility()) captions[text("#caption-step")] = text("#caption-text") };
	new MutationObserver(note).observe(box, { subtree: true, childList: true, attributes: true });
	note();
})()`
