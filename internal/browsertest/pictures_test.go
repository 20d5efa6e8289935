package browsertest

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"chatclub/internal/console"
	"chatclub/internal/palette"
)

// docs is where pictures are kept.
var docs = filepath.Join("..", "..", "docs")

// quiet fails the test when other programs have the machine, because the figures in a
// picture would be theirs. busy is what the page says of that.
func quiet(t *testing.T, busy string) {
	t.Helper()
	if busy != "" && os.Getenv("BUSY_PICTURES") == "" {
		t.Fatalf("no picture is written. %s Try again on a quiet machine, or set BUSY_PICTURES=1.", busy)
	}
}

// TestPictures shows both pages at work, large and small, light and dark. With
// UPDATE_SCREENSHOTS set it keeps the pictures in docs/.
func TestPictures(t *testing.T) {
	update := os.Getenv("UPDATE_SCREENSHOTS") != ""
	if testing.Short() && !update {
		t.Skip("long: make test-long; two systems for twenty seconds. The other tests have every part of the pages, this one shows them at work")
	}
	t.Run("chatclub", func(t *testing.T) {
		t.Parallel()
		picturesOfChatclub(t, update)
	})
	t.Run("platform", func(t *testing.T) {
		if !update { // one after the other, for the figures' sake
			t.Parallel()
		}
		pictureOfPlatform(t, update)
	})
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
	for _, p := range []struct {
		name string
		view
	}{
		{"chatclub.png", laptop},
		{"chatclub-dark.png", view{width: 1440, height: 900, scale: 1, dark: true}},
		{"chatclub-wide.png", view{width: 2560, height: 1440, scale: 1}},
		{"chatclub-phone.png", view{width: 390, height: 844, scale: 2}},
		{"chatclub-phone-dark.png", view{width: 390, height: 844, scale: 2, dark: true}},
	} {
		still.look(p.view)
		for lost := true; lost; lost = eval[bool](still, `document.body.matches(".lost")`) { // it was slow
			moment.shows(still, x)
			keep(still, p.name, update)
		}
	}
}

// pictureOfPlatform shows phones that chat on fakeapi's page.
func pictureOfPlatform(t *testing.T, update bool) {
	busy := 5
	if update {
		busy = 100 // a chart that is nearly full
	}
	s := start(t, "USERS=20", "ROOMS=2", "PAGES=3", "EVENTS_PER_SECOND=37", "WAVES=false")
	b := open(t, s.platform, desktop)
	b.patience += patience * 2
	talk(b)
	b.tap("3", "Who is here?")
	b.reads("3", "3 people in room")
	b.until("the chart is full enough", fmt.Sprintf(`document.querySelector("#chart").dataset.accepted.split(",").filter(n => n > 0).length >= %d`, busy))
	if update {
		quiet(t, s.state().Machine)
	}
	keep(b, "page.png", update)
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
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		b.t.Fatalf("read a picture: %v", err)
	}
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&small, palette.Reduce(img)); err != nil {
		b.t.Fatalf("write a picture: %v", err)
	}
	if err := os.WriteFile(filepath.Join(docs, name), small.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
}
