package main

import (
	"fmt"
	"io"

	"chatclub/fakeapi/limit"
)

// The measures of the picture, in pixels.
const (
	left    = 190 // of the charts; the names stand before
	top     = 82  // of the first chart; the title stands above
	bar     = 6   // a bin's width
	high    = 80  // of a bin in which every call is admitted
	row     = 116
	right   = left + bins*bar
	width   = right + 50
	perBin  = 100              // calls made
	fair    = perSecond / 10   // a bin's even part of the limit
	perCall = high / 100.      // height
	second  = 10 * bar         // width
	bottom  = top + 5*row - 22 // of the axis of time
	height  = bottom + 34
)

const style = `<style>
text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#1f2937}
.t{font-size:17px;font-weight:600}.n{font-size:14px;font-weight:600}.s{fill:#667085;font-size:12px}
.e{text-anchor:end}.m{text-anchor:middle}
</style>`

func draw(w io.Writer) error {
	p := &printer{w: w}
	p.f(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="Calls admitted per 100 ms under five rate-limiting algorithms">`+"\n", width, height)
	p.f("%s\n"+`<rect width="100%%" height="100%%" fill="#fff"/>`+"\n", style)
	p.f(`<text x="24" y="32" class="t">One load, five limits of %d calls a second</text>`+"\n", perSecond)
	p.f(`<text x="24" y="53" class="s">Admitted per 100 ms (green) of 1,000 calls a second (grey), 10,000 in all; dashed: the limit's even part, %d per 100 ms.</text>`+"\n", fair)
	for i, a := range limit.Algorithms() {
		o, err := try(a)
		if err != nil {
			return err
		}
		p.chart(top+i*row+high, a, o)
	}
	for s := 0; s <= bins/10; s++ {
		p.f(`<text x="%d" y="%d" class="s m">%d s</text>`+"\n", left+s*second, bottom+16, s)
	}
	p.f("</svg>\n")
	return p.err
}

// chart draws one algorithm's strip, standing on the line at base.
func (p *printer) chart(base int, a limit.Algorithm, o outcome) {
	p.f(`<text x="24" y="%d" class="n">%s</text>`+"\n", base-44, a)
	p.f(`<text x="24" y="%d" class="s">%s admitted</text>`+"\n", base-24, thousands(o.total))
	p.f(`<text x="24" y="%d" class="s">busiest second: %d</text>`+"\n", base-7, o.busiest)
	calling := false
	for i, n := range made() {
		if n > 0 {
			p.bar(i, base, n, "#e9ecf1")
		} else if calling { // a pause begins
			p.f(`<text x="%d" y="%d" class="s m">pause</text>`+"\n", left+i*bar+second/2, base-high/2+4)
		}
		calling = n > 0
	}
	for i, n := range o.counts {
		if n > 0 {
			p.bar(i, base, n, "#1a7f4b")
		}
	}
	y := float64(base) - perCall*fair
	p.f(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#b35c00" stroke-width="1.5" stroke-dasharray="6 4"/>`+"\n", left, right, y, y)
	p.f(`<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#98a2b3"/>`+"\n", left, right, base, base)
	for _, tick := range []int{0, fair, perBin} {
		p.f(`<text x="%d" y="%.1f" class="s">%d</text>`+"\n", right+8, float64(base)-perCall*float64(tick)+4, tick)
	}
}

func (p *printer) bar(i, base, n int, colour string) {
	h := perCall * float64(n)
	p.f(`<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"/>`+"\n", left+i*bar, float64(base)-h, bar-1, h, colour)
}

// made counts the calls made in each bin.
func made() []int {
	counts := make([]int, bins)
	for i := range calls {
		counts[at(i)/bin]++
	}
	return counts
}

// thousands writes n, below a million, with a comma.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
