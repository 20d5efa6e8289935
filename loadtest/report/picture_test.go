package report

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"testing"
)

// inks counts a picture's pixels by colour.
type inks map[color.NRGBA]int

func inksOf(img image.Image, in image.Rectangle) inks {
	p := make(inks)
	pixel := func(x, y int) color.NRGBA { return color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA) }
	if small, ok := img.(*image.Paletted); ok { // what we write; much faster
		var count [256]int
		for y := in.Min.Y; y < in.Max.Y; y++ {
			for x := in.Min.X; x < in.Max.X; x++ {
				count[small.ColorIndexAt(x, y)]++
			}
		}
		for i, c := range small.Palette {
			p[color.NRGBAModel.Convert(c).(color.NRGBA)] += count[i]
		}
		return p
	}
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for x := in.Min.X; x < in.Max.X; x++ {
			p[pixel(x, y)]++
		}
	}
	return p
}

// near counts those that nearly have a colour.
func (p inks) near(want color.NRGBA) int {
	n := 0
	alike := func(a, b uint8) bool { return math.Abs(float64(a)-float64(b)) <= 6 }
	for c, count := range p {
		if alike(c.R, want.R) && alike(c.G, want.G) && alike(c.B, want.B) {
			n += count
		}
	}
	return n
}

// decoded is a picture as it was written.
func decoded(t *testing.T, draw func(*bytes.Buffer) error) image.Image {
	t.Helper()
	var b bytes.Buffer
	if err := draw(&b); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if w := img.Bounds().Dx(); w != 1800 {
		t.Errorf("width = %d, want 1800", w)
	}
	return img
}

// Every line of a chart is in its picture, in its run's colour, and the edges
// are free: nothing is cut off.
func TestPicturesShowEveryLine(t *testing.T) {
	t.Parallel()
	for _, r := range []*Report{sampleSaturate(), sampleOverload(), sampleHostile()} {
		for _, c := range charts(r) {
			img := decoded(t, func(b *bytes.Buffer) error { return drawChart(b, &c) })
			colours := inksOf(img, img.Bounds())
			for _, p := range c.Panels {
				for _, l := range p.Lines {
					if n := colours.near(rgb(l.Style.Light)); n < 60 {
						t.Errorf("%s, %s, %s: %q has %d pixels of its colour %s, want 60", r.Scenario, c.ID, p.Title, l.Name, n, l.Style.Light)
					}
				}
			}
			b := img.Bounds()
			for _, edge := range []image.Rectangle{
				{b.Min, image.Pt(b.Max.X, 4)}, {image.Pt(0, b.Max.Y-4), b.Max}, {b.Min, image.Pt(4, b.Max.Y)}, {image.Pt(b.Max.X-4, 0), b.Max},
			} {
				if n, all := inksOf(img, edge).near(color.NRGBA{255, 255, 255, 255}), edge.Dx()*edge.Dy(); n != all {
					t.Errorf("%s, %s: %d of %d pixels at the edge %v are used: something is cut off", r.Scenario, c.ID, all-n, all, edge)
				}
			}
		}
	}
}

// The bars are as long as the figures say.
func TestPictureOfTheComparison(t *testing.T) {
	t.Parallel()
	bars := comparison(sampleSaturate())
	img := decoded(t, func(b *bytes.Buffer) error { return drawBars(b, bars) })
	left := inksOf(img, image.Rect(0, 0, 900, img.Bounds().Dy()))
	area := func(i int) float64 { return float64(left.near(rgb(bars.Rows[i].Style.Light))) }
	ours := bars.Rows[8].Bars[0].Share
	for i, row := range bars.Rows {
		if got, want := area(i)/area(8), row.Bars[0].Share/ours; math.Abs(got-want) > .02 {
			t.Errorf("%s's bar = %.3f of chatclub's, want %.3f", row.Name, got, want)
		}
	}
}
