package report

import (
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"maps"
	"slices"
)

// maxColours is what a palette of one byte a pixel holds.
const maxColours = 256

// paletted returns the picture with its most frequent colours alone, each other
// pixel in the nearest of them. A chart has a dozen colours and their shades at
// the edges, so nothing is seen of it, and the file is a third as large.
func paletted(img image.Image) *image.Paletted {
	whole, ok := img.(*image.RGBA)
	if !ok {
		whole = image.NewRGBA(img.Bounds())
		draw.Draw(whole, whole.Rect, img, img.Bounds().Min, draw.Src)
	}
	seen := make(map[color.RGBA]int)
	eachRun(whole, func(c color.RGBA, _, n int) { seen[c] += n })
	order := slices.SortedFunc(maps.Keys(seen), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B), cmp.Compare(a.A, b.A))
	})
	palette := make(color.Palette, min(len(order), maxColours))
	for i := range palette {
		palette[i] = order[i]
	}
	index := make(map[color.RGBA]uint8, len(seen))
	for c := range seen {
		index[c] = uint8(palette.Index(c)) //nolint:gosec // a palette has at most maxColours
	}
	out := image.NewPaletted(whole.Rect, palette)
	eachRun(whole, func(c color.RGBA, at, n int) {
		i := index[c]
		for k := range n {
			out.Pix[at+k] = i
		}
	})
	return out
}

// eachRun calls do for every run of n pixels of one colour, which begins at the
// pixel at, counted by rows.
func eachRun(img *image.RGBA, do func(c color.RGBA, at, n int)) {
	wide := img.Rect.Dx()
	for y := range img.Rect.Dy() {
		row := img.Pix[y*img.Stride : y*img.Stride+4*wide]
		for x := 0; x < wide; {
			c := color.RGBA{row[4*x], row[4*x+1], row[4*x+2], row[4*x+3]}
			n := 1
			for x+n < wide && row[4*(x+n)] == c.R && row[4*(x+n)+1] == c.G && row[4*(x+n)+2] == c.B && row[4*(x+n)+3] == c.A {
				n++
			}
			do(c, y*wide+x, n)
			x += n
		}
	}
}
