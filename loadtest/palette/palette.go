// Package palette draws pictures in few of their own colours. Charts and pages have a few dozen colours and their shades at the edges, so
// that nothing is seen of it, and a file is a third as large.
package palette

import (
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"maps"
	"slices"
)

// Most is how many colours a palette of one byte a pixel holds.
const Most = 256

// Colours counts the pixels of pictures by their colours. Make one with make.
type Colours map[color.RGBA]int

// Add counts one more picture's.
func (c Colours) Add(img image.Image) {
	eachRun(whole(img), func(x color.RGBA, _, n int) { c[x] += n })
}

// Palette returns at most so many of the colours: a quarter of them the most frequent
// ones, then those that are least like any before, so that a small dot keeps its
// colour beside much text with its shades.
func (c Colours) Palette(most int) color.Palette {
	order := slices.SortedFunc(maps.Keys(c), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B), cmp.Compare(a.A, b.A))
	})
	p := make(color.Palette, 0, min(len(order), most))
	away := make([]int, len(order)) // how much each differs from the nearest in p; -1: it is there
	for i := range away {
		away[i] = farthest
	}
	for unlike := farthest; len(p) < cap(p); unlike /= 2 {
		for i, x := range order {
			if away[i] < 0 || len(p) == cap(p) || len(p) >= most/4 && away[i] < unlike {
				continue
			}
			p = append(p, x)
			for j, y := range order {
				away[j] = min(away[j], difference(x, y))
			}
			away[i] = -1
		}
	}
	return p
}

// farthest is how much a colour differs from all others to be taken first.
const farthest = 64

// difference is the sum of the differences of the parts.
func difference(a, b color.RGBA) int {
	part := func(a, b uint8) int { return max(int(a), int(b)) - min(int(a), int(b)) }
	return part(a.R, b.R) + part(a.G, b.G) + part(a.B, b.B) + part(a.A, b.A)
}

// Reduce returns a picture in a palette of its own colours, each other pixel in the
// nearest of them.
func Reduce(img image.Image) *image.Paletted {
	c := make(Colours)
	c.Add(img)
	return Draw(img, c.Palette(Most))
}

// Draw returns a picture in the colours of a palette of at most Most, each pixel in
// the nearest.
func Draw(img image.Image, p color.Palette) *image.Paletted {
	from := whole(img)
	index := make(map[color.RGBA]uint8)
	out := image.NewPaletted(from.Rect, p)
	eachRun(from, func(c color.RGBA, at, n int) {
		i, ok := index[c]
		if !ok {
			i = uint8(p.Index(c)) //nolint:gosec // a palette has at most Most
			index[c] = i
		}
		for k := range n {
			out.Pix[at+k] = i
		}
	})
	return out
}

// whole returns a picture as RGBA.
func whole(img image.Image) *image.RGBA {
	if w, ok := img.(*image.RGBA); ok {
		return w
	}
	w := image.NewRGBA(img.Bounds())
	draw.Draw(w, w.Rect, img, img.Bounds().Min, draw.Src)
	return w
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
