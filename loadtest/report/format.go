package report

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// unknown stands where a run cannot know a figure.
const unknown = "–"

// unit shows a value.
type unit func(v float64) string

// percent shows a share. Two digits tell 99.95 % from 100 %; what is there but
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
	return count(v*100) + " %"
}

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
	return count(v)
}

// seconds shows a time, one below a second in milliseconds.
func seconds(v float64) string {
	switch {
	case v < 0.00995:
		return strconv.FormatFloat(v*1000, 'f', 1, 64) + " ms"
	case v < 0.9995:
		return count(v*1000) + " ms"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " s"
}

func micros(v float64) string { return number(v) + " µs" }

// count shows a whole number with a comma between thousands.
func count(v float64) string {
	s := strconv.FormatFloat(math.Abs(math.Round(v)), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v <= -0.5 {
		return "-" + s
	}
	return s
}

// plain makes a text harmless for a terminal and for one line: what is not
// printable becomes a space.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, s)
}
