package report

import (
	"cmp"
	"image"
	"image/color"
	"maps"
	"slices"
)

// maxColours is what a palette of one byte a pixel holds.
const maxColours = 256

// paletted returns the picture with its most frequent colours alone, each other
// pixel in the nearest of them. A chart has a dozen colours and their shades at
// the edges, so nothing is seen of it, and the file is a third as large.
func paletted(img image.Image) *image.Paletted {
	bounds := img.Bounds()
	seen := make(map[color.RGBA]int)
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			seen[at(x, y)]++
		}
	}
	order := slices.SortedFunc(maps.Keys(seen), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	palette := make(color.Palette, min(len(order), maxColours))
	for i := range palette {
		palette[i] = order[i]
	}
	index := make(map[color.RGBA]uint8, len(seen))
	for c := range seen {
		index[c] = uint8(palette.Index(c)) //nolint:gosec // a palette has at most maxColours
	}
	out := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			out.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	return out
}
