// Command picture draws what the five algorithms make of the same calls, as an
// SVG on its standard output:
//
//	go run ./fakeapi/limit/picture > fakeapi/limit/algorithms.svg
//
// 10,000 calls are made at 1,000/s against a limit of 300/s, with pauses of a
// second after the fourth and the sixth second of calling (the load of a
// published comparison). Each bar is what was admitted in 100 ms.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"chatclub/fakeapi/limit"
)

const (
	perSecond = 300
	calls     = 10_000
	gap       = time.Millisecond // 1,000/s
	pause     = time.Second
	bin       = 100 * time.Millisecond
	bins      = 120 // ten seconds of calls, two of pauses
)

// begin lies a quarter into a window, so that a window's end can be told from
// a pause's.
var begin = time.Unix(1_700_000_000, 0).Add(250 * time.Millisecond)

func main() { os.Exit(run(os.Stdout, os.Stderr)) }

func run(stdout, stderr io.Writer) int {
	if err := draw(stdout); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// at is when the i-th call is made, counted from the first.
func at(i int) time.Duration {
	t := time.Duration(i) * gap
	if t >= 4*time.Second {
		t += pause
	}
	if t >= 6*time.Second+pause {
		t += pause
	}
	return t
}

// admitted counts what an algorithm admits in each bin.
func admitted(a limit.Algorithm) ([]int, error) {
	counts := make([]int, bins)
	l, err := limit.New(limit.Config{Algorithm: a, Limit: perSecond})
	if err != nil {
		return nil, err
	}
	for i := range calls {
		t := at(i)
		if l.Allow(begin.Add(t)) {
			counts[t/bin]++
		}
	}
	return counts, nil
}

const (
	width, row  = 900, 120 // of the picture and of one algorithm's strip
	left, barW  = 120, 6
	scale       = 0.9 // pixels a call: 100 calls fill a bin at 1,000/s
	fair        = perSecond / 10
	labelOffset = 24
)

func draw(w io.Writer) error {
	p := &printer{w: w}
	p.f(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13">`+"\n", width, row*len(limit.Algorithms())+40)
	p.f(`<rect width="100%%" height="100%%" fill="#fff"/>` + "\n")
	for n, a := range limit.Algorithms() {
		counts, err := admitted(a)
		if err != nil {
			return fmt.Errorf("draw %s: %w", a, err)
		}
		base := row*n + row - 10
		total := 0
		for i, c := range counts {
			total += c
			h := scale * float64(c)
			p.f(`<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="#1a7f4b"/>`+"\n", left+i*barW, float64(base)-h, barW-1, h)
		}
		y := float64(base) - scale*fair
		p.f(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#b35c00" stroke-dasharray="6 4"/>`+"\n", left, left+bins*barW, y, y)
		p.f(`<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#98a2b3"/>`+"\n", left, left+bins*barW, base, base)
		p.f(`<text x="8" y="%d">%s</text><text x="8" y="%d" fill="#667085">%d passed</text>`+"\n", base-labelOffset, a, base-labelOffset+18, total)
	}
	for s := 0; s <= bins/10; s += 2 {
		p.f(`<text x="%d" y="%d" fill="#667085">%d s</text>`+"\n", left+s*10*barW, row*len(limit.Algorithms())+15, s)
	}
	p.f(`<text x="%d" y="%d" fill="#667085">admitted per 100 ms of 100 asked; dashed: %d, the limit's fair part</text>`+"\n", left, row*len(limit.Algorithms())+34, fair)
	p.f("</svg>\n")
	return p.err
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
