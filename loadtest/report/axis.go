package report

import (
	"math"
	"strconv"
)

// least is the smallest value that is drawn on a logarithmic axis, which has
// no place for 0.
const least = 0.1

// place maps a value to where a linear axis would have it.
func (a *axis) place(v float64) float64 {
	switch a.Scale {
	case logarithmic:
		return math.Log10(v)
	case fromOne:
		return math.Log1p(v)
	case linear:
	}
	return v
}

// linearAxis reaches from 0 to a little above top, with ticks at round
// numbers.
func linearAxis(label string, top float64) axis {
	if !(top > 0) {
		top = 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(top/3)))
	step := unit
	for _, f := range []float64{1, 2, 5, 10} {
		if step = f * unit; top/step <= 5 {
			break
		}
	}
	a := axis{Label: label, Scale: linear, Max: top * 1.08}
	for i := 0; float64(i)*step <= a.Max; i++ {
		a.Ticks = append(a.Ticks, tick{At: float64(i) * step, Text: short(float64(i) * step)})
	}
	return a
}

// logAxis spans low to high, both at least least, with ticks at powers of ten, and
// where these are few at 2 and 5 times them as well.
func logAxis(label string, low, high float64, format func(float64) string) axis {
	a := axis{Label: label, Scale: logarithmic, Min: low / 1.3, Max: high * 1.3}
	if high/low < 3 { // a flat line belongs into the middle
		a.Min, a.Max = low/2, high*2
	}
	few := a.Max/a.Min < 1000
	for e := math.Floor(math.Log10(a.Min)); e <= math.Ceil(math.Log10(a.Max)); e++ {
		for _, f := range []float64{1, 2, 5} {
			v := f * math.Pow(10, e)
			if v < a.Min || v > a.Max {
				continue
			}
			t := tick{At: v}
			if f == 1 || few {
				t.Text = format(v)
			}
			a.Ticks = append(a.Ticks, t)
		}
	}
	return a
}

// fromOneAxis has a place for 0 and then for powers of ten.
func fromOneAxis(label string, top float64) axis {
	a := axis{Label: label, Scale: fromOne, Max: max(top, 9) * 1.3, Ticks: []tick{{0, "0"}}}
	for v := 1.0; v <= a.Max; v *= 10 {
		a.Ticks = append(a.Ticks, tick{v, short(v)})
	}
	return a
}

// percentileTicks are at 0 %, 50 %, 90 %, 99 % and so on, where an axis shows
// 100 / (100 − percent).
func percentileTicks(top float64) []tick {
	all := []tick{{1, "0 %"}, {2, "50 %"}, {10, "90 %"}, {100, "99 %"}, {1e3, "99.9 %"}, {1e4, "99.99 %"}, {1e5, "99.999 %"}}
	var out []tick
	for _, t := range all {
		if t.At <= top*1.0001 {
			out = append(out, t)
		}
	}
	return out
}

// axisMS shows a latency at a tick, which is at a round number.
func axisMS(v float64) string {
	if v >= 999.5 {
		return short(v/1000) + " s"
	}
	return short(v) + " ms"
}

// short shows an axis' number.
func short(v float64) string {
	if v >= 1 && math.Abs(v-math.Round(v)) < 1e-9 || v == 0 {
		return grouped(v)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
