package flow

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// column is one figure of a row.
type column string

// The columns, in the order in which they are printed.
const (
	quota        column = "quota used"
	quotaStart   column = "from the start"
	refused      column = "613/send"
	refusedStart column = "613/send from the start"
	quota20      column = "quota in 20 s"
	refused20    column = "613s in 20 s"
	quotaLater   column = "quota later"
	refusedLater column = "613/send later"
	back         column = "back at 90 %"
	coldP50      column = "cold p50"
	coldP99      column = "cold p99"
	ratioP50     column = "p50 ratio"
	ratioP99     column = "p99 ratio"
	stall        column = "stall"
	late         column = "p99 beyond ideal"
	waitP50      column = "wait p50"
	waitP99      column = "wait p99"
	delivered    column = "delivered"
	sickCalls    column = "calls to the sick an hour"
	mostCalls    column = "most calls for one"
	silence      column = "silent"
	callsPer     column = "calls/message"
	operations   column = "broker ops/message"
	inversions   column = "inversions"
	lost         column = "lost"
	doubled      column = "twice"
)

// unit says how a column is printed.
type unit int

const (
	percent unit = iota
	seconds
	number
	ratio
)

var columns = []struct {
	column column
	unit   unit
	least  bool // the worst of several seeds is the least
}{
	{quota, percent, true},
	{quotaStart, percent, true},
	{refused, percent, false},
	{refusedStart, percent, false},
	{quota20, percent, true},
	{refused20, number, false},
	{quotaLater, percent, true},
	{refusedLater, percent, false},
	{back, seconds, false},
	{coldP50, seconds, false},
	{coldP99, seconds, false},
	{ratioP50, ratio, false},
	{ratioP99, ratio, false},
	{stall, seconds, false},
	{late, seconds, false},
	{waitP50, seconds, false},
	{waitP99, seconds, false},
	{delivered, percent, true},
	{sickCalls, number, false},
	{mostCalls, number, false},
	{silence, seconds, false},
	{callsPer, ratio, false},
	{operations, ratio, false},
	{inversions, percent, false},
	{lost, number, false},
	{doubled, number, false},
}

// figures are what a run measured.
type figures map[column]float64

// worst joins the figures of two seeds.
func (f figures) worst(g figures) figures {
	if f == nil {
		return g
	}
	w := make(figures)
	for _, c := range columns {
		a, inF := f[c.column]
		b, inG := g[c.column]
		switch {
		case !inF && !inG:
		case !inG || inF && (a < b) == c.least:
			w[c.column] = a
		default:
			w[c.column] = b
		}
	}
	return w
}

func (u unit) format(v float64) string {
	switch u {
	case percent:
		if v >= 10 {
			return strconv.FormatFloat(100*v, 'f', 0, 64) + " %"
		}
		if math.Abs(v) < 0.1 {
			return strconv.FormatFloat(100*v, 'f', 2, 64) + " %"
		}
		return strconv.FormatFloat(100*v, 'f', 1, 64) + " %"
	case seconds:
		if v < 1 {
			return strconv.FormatFloat(1000*v, 'f', 0, 64) + " ms"
		}
		return strconv.FormatFloat(v, 'f', 1, 64) + " s"
	case number:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case ratio:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return fmt.Sprint(v)
}

// bound is what a figure must keep.
type bound struct {
	column column
	least  bool
	value  float64
}

func atLeast(c column, v float64) bound { return bound{c, true, v} }

func atMost(c column, v float64) bound { return bound{c, false, v} }

// broken says how f breaks the bound, nothing if it keeps it. A figure that was
// not measured breaks it.
func (b bound) broken(f figures) string {
	v, ok := f[b.column]
	want := "at most"
	if b.least {
		want = "at least"
	}
	u := unitOf(b.column)
	switch {
	case !ok:
		return fmt.Sprintf("%s was not measured, want %s %s", b.column, want, u.format(b.value))
	case b.least && v < b.value, !b.least && v > b.value:
		return fmt.Sprintf("%s = %s, want %s %s", b.column, u.format(v), want, u.format(b.value))
	}
	return ""
}

func unitOf(c column) unit {
	i := slices.IndexFunc(columns, func(x struct {
		column column
		unit   unit
		least  bool
	},
	) bool {
		return x.column == c
	})
	return columns[i].unit
}

// line is a row with its figures.
type line struct {
	row     row
	seeds   int
	figures figures
}

// markdown is the table of one group; columns that no row has are left out.
func markdown(lines []line) string {
	var used []column
	for _, c := range columns {
		if slices.ContainsFunc(lines, func(l line) bool { _, ok := l.figures[c.column]; return ok }) {
			used = append(used, c.column)
		}
	}
	var b strings.Builder
	b.WriteString("| scenario | latency | replicas |")
	for _, c := range used {
		b.WriteString(" " + string(c) + " |")
	}
	b.WriteString("\n| --- | --- | --: |" + strings.Repeat(" --: |", len(used)) + "\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "| %s | %s | %d |", l.row.name, strings.ReplaceAll(cmp.Or(l.row.latency, slow), ",", " … "), l.row.replicas)
		for _, c := range used {
			text := "–"
			if v, ok := l.figures[c]; ok {
				text = unitOf(c).format(v)
				if slices.ContainsFunc(l.row.bounds, func(b bound) bool { return b.column == c && b.broken(l.figures) != "" }) {
					text = "**" + text + "**"
				}
			}
			b.WriteString(" " + text + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}
