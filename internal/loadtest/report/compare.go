package report

import (
	"fmt"
	"slices"
)

// winners explains the marks in a table.
const winners = "The best of a column is marked, where runs differ. A run that lost messages, sent some that nobody was to get or did not complete wins nothing, nor does a baseline."

// row is one run in the comparison.
type row struct {
	Name  string
	Run   *Run
	Cells []cell // as many as there are columns
}

// cell is one figure in the comparison.
type cell struct {
	Text string
	Best bool
}

// compare returns the comparison of r's runs: the columns that at least one
// of them knows, beside those that every report has, and a row for each run.
func compare(r *Report) ([]column, []row) {
	var cols []column
	for _, c := range slices.Concat(columns, measures(r.Runs)) {
		if c.always || slices.ContainsFunc(r.Runs, func(r Run) bool { return c.value(&r) != nil }) {
			cols = append(cols, c)
		}
	}
	rows := make([]row, len(r.Runs))
	called := names(r.Runs)
	for i := range r.Runs {
		rows[i] = row{Name: called[i], Run: &r.Runs[i], Cells: make([]cell, len(cols))}
	}
	for j, c := range cols {
		for i, best := range best(c, r.Runs) {
			rows[i].Cells[j] = cell{Text: c.text(&r.Runs[i]), Best: best}
		}
	}
	return cols, rows
}

// best tells which runs have the best figure of a column. Figures that look
// equal are equal; where all are, none is best.
func best(c column, runs []Run) []bool {
	marks := make([]bool, len(runs))
	var top *float64
	rivals := make(map[string]bool)
	for i := range runs {
		v := c.value(&runs[i])
		if v == nil || c.better == Neither || !mayWin(&runs[i]) {
			continue
		}
		rivals[c.format(*v)] = true
		if top == nil || c.better == Higher && *v > *top || c.better == Lower && *v < *top {
			top = v
		}
	}
	if len(rivals) < 2 {
		return marks
	}
	for i := range runs {
		marks[i] = mayWin(&runs[i]) && c.text(&runs[i]) == c.format(*top)
	}
	return marks
}

// mayWin reports whether a run's figures may be called the best. Losing
// messages makes everything else cheap, and so does having less to do: a
// baseline.
func mayWin(r *Run) bool {
	none := func(v *int64) bool { return v == nil || *v == 0 }
	return r.Status == Complete && !r.Baseline && none(r.Lost) && none(r.Unexpected)
}

// measures returns a column for each measure that a run has.
func measures(runs []Run) []column {
	var cols []column
	seen := make(map[string]bool)
	for i := range runs {
		for _, m := range runs[i].Measures {
			if seen[m.Name] {
				continue
			}
			seen[m.Name] = true
			format := number
			if m.Unit != "" {
				format = func(v float64) string { return number(v) + " " + m.Unit }
			}
			cols = append(cols, column{title: m.Name, short: m.Name, better: m.Better, format: format, value: func(r *Run) *float64 {
				for _, o := range r.Measures {
					if o.Name == m.Name {
						return o.Value
					}
				}
				return nil
			}})
		}
	}
	return cols
}

// names returns what people call each run, so that no two are called the same
// and none that did not complete is taken for one that did.
func names(runs []Run) []string {
	out := distinct(runs)
	for i := range runs {
		if runs[i].Status != Complete {
			out[i] += " (" + string(runs[i].Status) + ")"
		}
	}
	return out
}

// distinct returns what to call each run, so that no two are called the same.
func distinct(runs []Run) []string {
	out := make([]string, len(runs))
	taken := make(map[string]bool)
	for i := range runs {
		name := runs[i].Name()
		if slices.ContainsFunc(runs, func(o Run) bool { return o.Name() == name && o.Replicas != runs[i].Replicas }) {
			name = fmt.Sprintf("%s, %d replicas", name, runs[i].Replicas)
		}
		out[i] = name
		for n := 2; taken[out[i]]; n++ {
			out[i] = fmt.Sprintf("%s #%d", name, n)
		}
		taken[out[i]] = true
	}
	return out
}
