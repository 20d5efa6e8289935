package report

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// unknown stands where a run cannot know a figure.
const unknown = "–"

// percent shows a ratio. Two digits tell 99.95 % from 100 %; what is there but
// would round to 0 is not shown as 0, nor what is below 1 as 100.
func percent(v float64) string {
	switch {
	case v > 0 && v < 0.00005:
		return "<0.01 %"
	case v < 1 && v >= 0.99995:
		return ">99.99 %"
	case v < 1:
		return strconv.FormatFloat(v*100, 'f', 2, 64) + " %"
	}
	return grouped(math.Round(v*100)) + " %"
}

func whole(v float64) string { return grouped(math.Round(v)) }

// number shows three significant digits, or all before the point.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case v == 0:
		return "0"
	case a < 0.001:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case a < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return grouped(math.Round(v))
}

// unit chooses how to show the figures of a column: all in one unit.
type unit func(all []float64) func(float64) string

// fixed is the unit of figures that have but one.
func fixed(format func(float64) string) unit {
	return func([]float64) func(float64) string { return format }
}

// latencies shows milliseconds, as seconds where there is a whole one and none is
// below a hundredth.
func latencies(all []float64) func(float64) string {
	if len(all) == 0 || slices.Max(all) < 999.5 || slices.Min(all) < 10 {
		return milliseconds
	}
	digits := 1
	if slices.Min(all) < 1000 {
		digits = 2
	}
	return func(v float64) string { return strconv.FormatFloat(v/1000, 'f', digits, 64) + " s" }
}

// latency shows one alone.
func latency(v float64) string { return latencies([]float64{v})(v) }

func milliseconds(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64) + " ms"
	}
	return grouped(math.Round(v)) + " ms"
}

func microseconds(v float64) string { return number(v) + " µs" }

func seconds(v float64) string {
	if v < 999.95 {
		return strconv.FormatFloat(v, 'f', 1, 64) + " s"
	}
	return grouped(math.Round(v)) + " s"
}

// sizes shows bytes in the unit of the largest.
func sizes(all []float64) func(float64) string {
	top := 0.0
	if len(all) > 0 {
		top = slices.Max(all)
	}
	unit, name := 1.0, "B"
	for _, next := range []string{"KiB", "MiB", "GiB"} {
		if top/unit < 1023.5 {
			break
		}
		unit, name = unit*1024, next
	}
	return func(v float64) string { return number(v/unit) + " " + name }
}

func bytesize(v float64) string { return sizes([]float64{v})(v) }

// grouped shows a whole number with a comma between thousands.
func grouped(v float64) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v < 0 && strings.Trim(s, "0") != "" {
		return "-" + s
	}
	return s
}
