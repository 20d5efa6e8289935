package palette

import (
	"image"
	"image/color"
	"testing"
)

// A picture of few colours stays as it is, wherever its bounds begin.
func TestPaletteKeepsFewColours(t *testing.T) {
	t.Parallel()
	img := image.NewRGBA(image.Rect(3, 5, 40, 30))
	for y := 5; y < 30; y++ {
		for x := 3; x < 40; x++ {
			img.SetRGBA(x, y, color.RGBA{uint8(x / 4 * 20), uint8(y / 3 * 20), 7, 255})
		}
	}
	got := Reduce(img)
	for y := 5; y < 30; y++ {
		for x := 3; x < 40; x++ {
			if want := img.RGBAAt(x, y); color.RGBAModel.Convert(got.At(x, y)) != want {
				t.Fatalf("pixel %d, %d = %v, want %v", x, y, got.At(x, y), want)
			}
		}
	}
}

// A rare colour that no other is like stays, among many shades of others.
func TestPaletteKeepsARareColour(t *testing.T) {
	t.Parallel()
	img := image.NewRGBA(image.Rect(0, 0, 600, 8))
	for x := range 600 {
		for y := range 8 {
			img.SetRGBA(x, y, color.RGBA{uint8(x / 3), uint8(x / 3), uint8(x % 3), 255})
		}
	}
	green := color.RGBA{20, 130, 90, 255}
	img.SetRGBA(599, 7, green)
	if got := color.RGBAModel.Convert(Reduce(img).At(599, 7)); got != green {
		t.Errorf("the rare colour = %v, want %v", got, green)
	}
}

// Of more colours than a palette holds each is near to what it was.
func TestPaletteTakesTheNearest(t *testing.T) {
	t.Parallel()
	img := image.NewRGBA(image.Rect(0, 0, 600, 4))
	for x := range 600 {
		for y := range 4 {
			img.SetRGBA(x, y, color.RGBA{uint8(x / 3), uint8(x % 3), 0, 255})
		}
	}
	got := Reduce(img)
	if n := len(got.Palette); n != Most {
		t.Errorf("colours = %d, want %d", n, Most)
	}
	for x := range 600 {
		want, is := img.RGBAAt(x, 2), color.RGBAModel.Convert(got.At(x, 2)).(color.RGBA)
		if d := int(want.G) - int(is.G); d < -2 || d > 2 {
			t.Fatalf("pixel %d = %v, want it near %v", x, is, want)
		}
	}
}
