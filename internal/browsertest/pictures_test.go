package browsertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"chatclub/internal/console"
)

// docs is the folder of the pictures.
var docs = filepath.Join("..", "..", "docs")

// quiet fails the test when other programs have the machine, because the figures in a
// picture would be theirs. busy is the page's word about that.
func quiet(t *testing.T, busy string) {
	t.Helper()
	if busy != "" && os.Getenv("BUSY_PICTURES") == "" {
		t.Fatalf("no picture is written. %s Try again on a quiet machine, or set BUSY_PICTURES=1.", busy)
	}
}

// TestPictures shows the page at work, large and small, light and dark. With
// UPDATE_SCREENSHOTS set it keeps the first picture in docs/.
func TestPictures(t *testing.T) {
	update := os.Getenv("UPDATE_SCREENSHOTS") != ""
	if testing.Short() && !update {
		t.Skip("long: make test-long; a system for twenty seconds. The other tests have every part of the page, this one shows it at work")
	}
	picturesOfChatclub(t, update)
}

// picturesOfChatclub shows one moment in every picture: a page is in excess, its
// owner was killed, and the others are calm.
func picturesOfChatclub(t *testing.T, update bool) {
	past := 3 // seconds
	if update {
		past = 80 // and the third of the waves that come every 45 s
	}
	s := start(t)
	b := open(t, s.page, laptop)
	page := s.await("the first page is in excess", func(x console.State) bool {
		p := x.Pages[0]
		return len(p.History.Sent) >= past && p.Owner != "" && p.Waiting > p.Limit && p.InFlight > 0
	}).Pages[0]
	b.until("the page shows it", wire(page.ID)+`?.matches(".excess:not(.away)")`)
	b.click("#actions [data-action=kill]")
	const after = 4 * time.Second // while the card of the killed one is still there
	x := s.await("the receipt is final", func(x console.State) bool {
		return len(x.Receipts) > 0 && x.Receipts[0].Done && x.Now.Sub(x.Receipts[0].At) > after
	})
	if r := x.Receipts[0].Text; !strings.Contains(r, "taken over by") || !strings.Contains(r, ": 0 lost, ") {
		t.Errorf("receipt = %q, want one of a kill that lost nothing", r)
	}
	if update {
		quiet(t, x.Machine)
	}
	moment := newStage(t)
	moment.send("phones", twoPhones(x))
	moment.send("state", x)
	still := open(t, moment.URL, laptop)
	for i, v := range []view{laptop, {width: 390, height: 844, scale: 2, dark: true}} {
		still.look(v)
		for lost := true; lost; lost = eval[bool](still, `document.body.matches(".lost")`) { // it was slow
			moment.shows(still, x)
			keep(still, "chatclub.png", update && i == 0)
		}
	}
}

// keep takes a picture of the page.
func keep(b *tab, name string, update bool) {
	b.t.Helper()
	b.run("drop the focus", chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`), frame(),
		chromedp.Evaluate[chromedp.Void](`Promise.all(document.getAnimations().map(a => a.finished))`, chromedp.EvalAwaitPromise))
	raw, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatalf("take a picture: %v", err)
	}
	if len(raw) < 20_000 {
		b.t.Errorf("picture %s has %d bytes, want more than an empty page has", name, len(raw))
	}
	if !update {
		return
	}
	if err := os.WriteFile(filepath.Join(docs, name), raw, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
