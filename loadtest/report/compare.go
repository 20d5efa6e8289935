package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// winners explains the marks in a table.
const winners = "The best of a column is marked, and so is what ties with it: several runs whose ranges overlap, or one that differs from it by no more than two equal runs do. A run wins nothing if it lost messages, sent some that nobody was to get, had more than half a refused call for each message or did not complete. Nor does a baseline."

// table compares runs: a row for each, with as many cells as there are columns.
type table struct {
	Columns []kind
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
	Mark  string // "best", "ties" or empty
}

// Title is the column's head.
func (k kind) Title() string { return string(k.figure) }

// compare returns the comparison of r's runs by all figures that at least one
// of them knows.
func compare(r *Report) table {
	var all []Figures
	for i := range r.Runs {
		all = append(all, r.Runs[i].Figures)
	}
	var t table
	for _, name := range Names(all...) {
		t.Columns = append(t.Columns, name.kind())
	}
	for i, name := range names(r.Runs) {
		t.Rows = append(t.Rows, row{Name: name, Run: &r.Runs[i]})
	}
	for _, k := range t.Columns {
		for i, m := range k.marks(r.Runs) {
			run := &r.Runs[i]
			c := cell{Text: unknown, Range: k.rangeOf(run), Mark: m}
			if v, known := run.Figures[k.figure]; known {
				c.Text = k.unit(v)
			}
			t.Rows[i].Cells = append(t.Rows[i].Cells, c)
		}
	}
	return t
}

// short returns the columns that say most of these runs, in that order: a count of
// what is wrong only where there is any, others where the runs differ. The first
// ones always do.
func (t table) short(most int) table {
	var picked []int
	for j, k := range t.Columns {
		says := k.rank <= 2 || len(t.Rows) == 1 || slices.ContainsFunc(t.Rows, func(r row) bool { return r.Cells[j].Text != t.Rows[0].Cells[j].Text })
		if k.fault {
			says = slices.ContainsFunc(t.Rows, func(r row) bool { return r.Run.Figures[k.figure] != 0 })
		}
		if k.rank > 0 && says {
			picked = append(picked, j)
		}
	}
	slices.SortStableFunc(picked, func(a, b int) int { return cmp.Compare(t.Columns[a].rank, t.Columns[b].rank) })
	var p table
	for _, r := range t.Rows {
		p.Rows = append(p.Rows, row{Name: r.Name, Run: r.Run})
	}
	for _, j := range picked[:min(len(picked), most)] {
		p.Columns = append(p.Columns, t.Columns[j])
		for i, r := range t.Rows {
			p.Rows[i].Cells = append(p.Rows[i].Cells, r.Cells[j])
		}
	}
	return p
}

// reading says how to read the comparison.
func (t table) reading(r *Report) string {
	var text []string
	least, most := 0, 0
	for i := range r.Runs {
		if n := len(r.Runs[i].Rounds); n > 1 {
			least, most = min(cmp.Or(least, n), n), max(most, n)
		}
	}
	if most > 0 {
		times := fmt.Sprint(most)
		if least < most {
			times = fmt.Sprintf("%d to %d", least, most)
		}
		text = append(text, "Each figure is the median of "+times+" runs, in which the strategies alternated, with the range in brackets where they differ. Of lost, duplicated, unexpected and dead it is the most of any run.")
	}
	if slices.ContainsFunc(t.Rows, func(r row) bool {
		return slices.ContainsFunc(r.Cells, func(c cell) bool { return c.Mark != "" })
	}) {
		text = append(text, winners)
	}
	return strings.Join(text, " ")
}

// marks returns how the runs stand in a column. Where all that may win are
// alike, or of one strategy, none is the best.
func (k kind) marks(runs []Run) []string {
	out := make([]string, len(runs))
	var rivals, leaders []int
	top := -1
	for i := range runs {
		v, known := runs[i].Figures[k.figure]
		if !known || !mayWin(&runs[i]) || k.better == Neither {
			continue
		}
		rivals = append(rivals, i)
		if top < 0 || k.better == Higher && v > runs[top].Figures[k.figure] || k.better == Lower && v < runs[top].Figures[k.figure] {
			top = i
		}
	}
	for _, i := range rivals {
		if k.isTie(&runs[i], &runs[top]) {
			leaders = append(leaders, i)
		}
	}
	other := func(i int) bool { return runs[i].Strategy != runs[rivals[0]].Strategy }
	if len(leaders) == len(rivals) || !slices.ContainsFunc(rivals, other) {
		return out
	}
	for _, i := range leaders {
		out[i] = "ties"
		if len(leaders) == 1 {
			out[i] = "best"
		}
	}
	return out
}

// mostRefused is the refusals per message with which a run may be the best. The
// cases expect 0.03 at most; a run with more buys its figures with calls that the
// platform does not want.
const mostRefused = .5

// mayWin reports whether a run's figures may be called the best. Losing messages makes
// everything else cheap, and so does having less to do: a baseline.
func mayWin(r *Run) bool {
	return r.Status == Complete && !r.Baseline && r.Figures[Lost] == 0 && r.Figures[Unexpected] == 0 && r.Figures[Refused] <= mostRefused
}

// enough is how many rounds of each side a comparison of their ranges takes.
// Those of two sides that are equal stay apart by chance in 2 of 252 comparisons
// of five rounds each, in 2 of 70 of four, and in 2 of 20 of three.
const enough = 4

// isTie reports whether two runs are equal in a column. Runs of one round differ
// by less than two equal ones were seen to. Of several rounds the ranges overlap;
// where these are few, that or the other.
func (k kind) isTie(a, b *Run) bool {
	v, w := a.Figures[k.figure], b.Figures[k.figure]
	if k.unit(v) == k.unit(w) {
		return true
	}
	low, high, ok := a.extent(k.figure)
	under, over, also := b.extent(k.figure)
	if !ok || !also {
		return k.tie.holds(v, w)
	}
	return low <= over && under <= high || min(len(a.Rounds), len(b.Rounds)) < enough && k.tie.holds(v, w)
}

// rangeOf is the run's range as people read it; empty where its ends read the same.
func (k kind) rangeOf(r *Run) string {
	low, high, ok := r.extent(k.figure)
	if !ok || k.unit(low) == k.unit(high) {
		return ""
	}
	from, to := k.unit(low), k.unit(high)
	if i := strings.LastIndexByte(from, ' '); i >= 0 && strings.HasSuffix(to, from[i:]) {
		from = from[:i] // the unit once
	}
	return from + " to " + to
}

// names returns what people call each run, so that no two are called the same and
// none that did not complete is taken for one that did.
func names(runs []Run) []string {
	out := make([]string, len(runs))
	taken := make(map[string]bool)
	for i := range runs {
		name := runs[i].Name()
		out[i] = name
		for n := 2; taken[out[i]]; n++ {
			out[i] = fmt.Sprintf("%s #%d", name, n)
		}
		taken[out[i]] = true
	}
	for i := range runs {
		if runs[i].Status != Complete {
			out[i] += " (" + string(runs[i].Status) + ")"
		}
	}
	return out
}
