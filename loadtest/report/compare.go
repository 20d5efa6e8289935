package report

import (
	"slices"
	"strings"
)

// table compares runs: a row for each, with as many cells as there are columns.
type table struct {
	Columns []Figure
	Rows    []row
}

// row is one run in the comparison.
type row struct {
	Run   *Run
	Cells []cell
}

// cell is one figure in the comparison.
type cell struct {
	Text  string
	Range string // of several runs; empty: they do not differ, or it ran once
}

// compare returns the comparison of runs by those figures that at least one of them knows.
// No figures are all of them. A count of something wrong is there where there is any, or
// where one of the runs did not count it, and only there.
func compare(runs []Run, figures []Figure) (t table) {
	for i := range runs {
		t.Rows = append(t.Rows, row{Run: &runs[i]})
	}
	var all []Figures
	for i := range runs {
		all = append(all, runs[i].Figures)
	}
	for _, name := range Names(all...) {
		k := name.kind()
		if k.fault {
			if !slices.ContainsFunc(all, func(f Figures) bool { v, known := f[name]; return v != 0 || !known }) {
				continue
			}
		} else if figures != nil && !slices.Contains(figures, name) {
			continue
		}
		t.Columns = append(t.Columns, name)
		for i := range runs {
			c := cell{Text: unknown, Range: k.rangeOf(&runs[i])}
			if v, known := runs[i].Figures[name]; known {
				c.Text = k.unit(v)
			}
			t.Rows[i].Cells = append(t.Rows[i].Cells, c)
		}
	}
	return t
}

// reading says how to read the comparison.
func reading(runs []Run) string {
	text := "Messages that were lost, doubled, unexpected or dead have a column where there were any, or where they were not counted."
	if slices.ContainsFunc(runs, func(r Run) bool { return len(r.Rounds) > 1 }) {
		text += " Each figure is the median of several runs, in which the strategies alternated, with the range in brackets where they differ: ranges that overlap are no difference. Of what is wrong it is the most of any run."
	}
	return text
}

// rangeOf is the run's range as people read it; empty where its ends read the same.
func (k kind) rangeOf(r *Run) string {
	list := valuesOf(r.Rounds, k.figure)
	if len(list) < 2 || k.unit(list[0]) == k.unit(list[len(list)-1]) {
		return ""
	}
	from, to := k.unit(list[0]), k.unit(list[len(list)-1])
	if i := strings.LastIndexByte(from, ' '); i >= 0 && strings.HasSuffix(to, from[i:]) {
		from = from[:i] // the unit once
	}
	return from + " to " + to
}
