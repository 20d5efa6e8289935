package browsertest

import (
	"bytes"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"chatclub/internal/palette"
)

// film is what was seen of the tour. The zero value is empty.
type film struct {
	shots []shot
	next  time.Time
}

// shot is the page at a moment, as PNG: as pixels all of them would take 400 MB.
type shot struct {
	at  time.Time
	png []byte
}

const (
	// shotEvery makes 2.5 shots a second.
	shotEvery = 400 * time.Millisecond
	// maxFilm is what a reader may be asked to load.
	maxFilm = 2_000_000
)

// take takes the next shot when it is time for it, while the tour is on the page.
func (f *film) take(b *tab) {
	b.run("wait for the next shot", chromedp.Sleep(time.Until(f.next)))
	s := shot{at: time.Now()}
	f.next = s.at.Add(shotEvery)
	var err error
	if s.png, err = chromedp.Run(b.ctx, chromedp.CaptureScreenshot()); err != nil {
		b.t.Fatalf("take a shot: %v", err)
	}
	if eval[bool](b, `document.body.matches(".touring:not(.lost)")`) {
		f.shots = append(f.shots, s)
	}
}

// write writes the film as a GIF that is played for ever.
func (f *film) write(t *testing.T, path string) {
	t.Helper()
	if len(f.shots) < 2 {
		t.Fatalf("shots = %d, want a film of them", len(f.shots))
	}
	seen := make(palette.Colours)
	for _, s := range f.shots {
		seen.Add(decoded(t, s.png))
	}
	colours := append(seen.Palette(palette.Most-1), color.Transparent)
	var g gif.GIF
	var before *image.Paletted
	for i, s := range f.shots {
		whole := palette.Draw(decoded(t, s.png), colours)
		length := shotEvery
		if i+1 < len(f.shots) {
			length = f.shots[i+1].at.Sub(s.at)
		}
		const unit = 10 * time.Millisecond
		if change := changed(before, whole); change != nil {
			g.Image, g.Delay = append(g.Image, change), append(g.Delay, int(length/unit))
		} else {
			g.Delay[len(g.Delay)-1] += int(length / unit)
		}
		before = whole
	}
	var out bytes.Buffer
	if err := gif.EncodeAll(&out, &g); err != nil {
		t.Fatalf("write the film: %v", err)
	}
	t.Logf("film of %d shots, %d frames, %d bytes", len(f.shots), len(g.Image), out.Len())
	if out.Len() > maxFilm {
		t.Fatalf("the film has %d bytes, want %d at most", out.Len(), maxFilm)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func decoded(t *testing.T, raw []byte) image.Image {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("read a shot: %v", err)
	}
	return img
}

// changed is the rectangle of a picture that is not as before, in which the pixels
// that are have the last colour, which is transparent; nil: nothing changed.
func changed(before, now *image.Paletted) *image.Paletted {
	if before == nil {
		return now
	}
	var r image.Rectangle
	for y := now.Rect.Min.Y; y < now.Rect.Max.Y; y++ {
		for x := now.Rect.Min.X; x < now.Rect.Max.X; x++ {
			if now.ColorIndexAt(x, y) != before.ColorIndexAt(x, y) {
				r = r.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	if r.Empty() {
		return nil
	}
	part := image.NewPaletted(r, now.Palette)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			c := now.ColorIndexAt(x, y)
			if c == before.ColorIndexAt(x, y) {
				c = uint8(len(now.Palette) - 1)
			}
			part.SetColorIndex(x, y, c)
		}
	}
	return part
}

// TestChanged: frames drawn one over the other are the pictures again.
func TestChanged(t *testing.T) {
	t.Parallel()
	colours := color.Palette{color.Black, color.White, color.Gray{128}, color.Transparent}
	picture := func(at int) *image.Paletted {
		p := image.NewPaletted(image.Rect(0, 0, 20, 10), colours)
		p.SetColorIndex(at, 4, 1)
		p.SetColorIndex(at+3, 6, 2)
		return p
	}
	shown := picture(2)
	if got := changed(shown, picture(2)); got != nil {
		t.Errorf("change of a picture into itself = %v, want none", got.Rect)
	}
	part := changed(shown, picture(5))
	if want := image.Rect(2, 4, 9, 7); part.Rect != want {
		t.Errorf("changed rectangle = %v, want %v", part.Rect, want)
	}
	for y := part.Rect.Min.Y; y < part.Rect.Max.Y; y++ {
		for x := part.Rect.Min.X; x < part.Rect.Max.X; x++ {
			if c := part.ColorIndexAt(x, y); c != 3 {
				shown.SetColorIndex(x, y, c)
			}
		}
	}
	if !bytes.Equal(shown.Pix, picture(5).Pix) {
		t.Errorf("picture after the change = %v, want %v", shown.Pix, picture(5).Pix)
	}
}
