package report

import (
	"cmp"
	"fmt"
	"slices"
)

// winners explains the marks in a table.
const winners = "The best of a column is marked, and so is what ties with it: several runs whose ranges overlap, or one that differs from it by no more than two equal runs do. A run wins nothing if it lost messages, sent some that nobody was to get, had more than half a refused call for each message or did not complete. Nor does a baseline."

// table compares runs: a row for each, with as many cells as there are columns.
type table struct {
	Columns []column
	Rows    []row
}

// row is one run in the comparison.
type row struct {
	Name  string
	Run   *Run
	Cells []cell
}

// cell is one figure in the comparison.
type cell struct {
	Text  string
	Range string // of several runs; empty: they do not differ, or it ran once
	Mark  mark
}

// mark says how a figure stands in its column.
type mark string

const (
	unmarked mark = ""
	best     mark = "best"
	ties     mark = "ties for best"
)

// compare returns the comparison of r's runs by all figures that at least one
// of them knows.
func compare(r *Report) table {
	var t table
	for _, c := range slices.Concat(columns, measures(r.Runs)) {
		if known := c.figures(r.Runs); len(known) > 0 {
			c.format = c.unit(known)
			t.Columns = append(t.Columns, c)
		}
	}
	for i, name := range names(r.Runs) {
		t.Rows = append(t.Rows, row{Name: name, Run: &r.Runs[i], Cells: make([]cell, len(t.Columns))})
	}
	for j, c := range t.Columns {
		for i, m := range marks(c, r.Runs) {
			t.Rows[i].Cells[j] = cell{c.text(&r.Runs[i]), c.rangeText(&r.Runs[i]), m}
		}
	}
	return t
}

// mostShort bounds the columns of the short table.
const mostShort = 8

// short returns the scenario's own columns: of those in which something is
// better, the ones that say most, in that order.
func (t table) short() table {
	var picked []int
	for j, c := range t.Columns {
		if c.rank > 0 && t.says(j) {
			picked = append(picked, j)
		}
	}
	slices.SortStableFunc(picked, func(a, b int) int { return cmp.Compare(t.Columns[a].rank, t.Columns[b].rank) })
	return t.pick(picked[:min(len(picked), mostShort)])
}

// says reports whether a column says something of these runs: a count of what is
// wrong that there is any, others that the runs differ. The first ones always do.
func (t table) says(j int) bool {
	c := t.Columns[j]
	if c.spare {
		return slices.ContainsFunc(t.Rows, func(r row) bool { v := c.value(r.Run); return v != nil && *v != 0 })
	}
	differs := slices.ContainsFunc(t.Rows, func(r row) bool { return r.Cells[j].Text != t.Rows[0].Cells[j].Text })
	return differs || c.rank <= 2 || len(t.Rows) == 1
}

// pick returns the table with some of its columns.
func (t table) pick(list []int) table {
	var p table
	for _, j := range list {
		p.Columns = append(p.Columns, t.Columns[j])
	}
	for _, r := range t.Rows {
		cells := make([]cell, len(list))
		for i, j := range list {
			cells[i] = r.Cells[j]
		}
		p.Rows = append(p.Rows, row{r.Name, r.Run, cells})
	}
	return p
}

// narrower returns the table without its last column.
func (t table) narrower() table {
	t.Columns = t.Columns[:len(t.Columns)-1]
	t.Rows = slices.Clone(t.Rows)
	for i := range t.Rows {
		t.Rows[i].Cells = t.Rows[i].Cells[:len(t.Columns)]
	}
	return t
}

// isMarked reports whether a figure is the best of its column, or ties for it.
func (t table) isMarked() bool {
	return slices.ContainsFunc(t.Rows, func(r row) bool {
		return slices.ContainsFunc(r.Cells, func(c cell) bool { return c.Mark != unmarked })
	})
}

// marks returns how the runs stand in a column. Where all that may win are
// alike, or of one strategy, none is the best.
func marks(c column, runs []Run) []mark {
	out := make([]mark, len(runs))
	leaders, rivals := lead(c, runs)
	other := func(i int) bool { return runs[i].Strategy != runs[rivals[0]].Strategy }
	if len(leaders) == len(rivals) || !slices.ContainsFunc(rivals, other) {
		return out
	}
	for _, i := range leaders {
		out[i] = ties
		if len(leaders) == 1 {
			out[i] = best
		}
	}
	return out
}

// lead returns the places of the best run of a column and of what ties with it,
// and of all that may win it.
func lead(c column, runs []Run) (leaders, rivals []int) {
	if c.better == Neither {
		return nil, nil
	}
	var top *Run
	for i := range runs {
		v := c.value(&runs[i])
		if v == nil || !mayWin(&runs[i]) {
			continue
		}
		if top == nil || c.better == Higher && *v > *c.value(top) || c.better == Lower && *v < *c.value(top) {
			top = &runs[i]
		}
		rivals = append(rivals, i)
	}
	for _, i := range rivals {
		if c.isTie(&runs[i], top) {
			leaders = append(leaders, i)
		}
	}
	return leaders, rivals
}

// mostRefused is the refusals per message with which a run may be the best. The
// scenarios expect 0.03 at most; a run with more buys its figures with calls
// that the platform does not want.
const mostRefused = .5

// mayWin reports whether a run's figures may be called the best. Losing
// messages makes everything else cheap, and so does having less to do: a
// baseline.
func mayWin(r *Run) bool {
	none := func(v *int64) bool { return v == nil || *v == 0 }
	return r.Status == Complete && !r.Baseline && none(r.Lost) && none(r.Unexpected) && (r.RefusedPerSent == nil || *r.RefusedPerSent <= mostRefused)
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
			c := column{title: m.Name, short: m.Name, better: m.Better, tie: upTo(1.05), unit: fixed(number), value: func(r *Run) *float64 { return r.measure(m.Name) }}
			if m.Unit != "" {
				c.unit = fixed(func(v float64) string { return number(v) + " " + m.Unit })
			}
			if m.Better != Neither {
				c.rank = 1 // it is what the scenario is about
			}
			cols = append(cols, c)
		}
	}
	return cols
}

func (r *Run) measure(name string) *float64 {
	for _, m := range r.Measures {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
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
