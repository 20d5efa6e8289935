package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The places in a document that Fill writes. A table's begin says which report,
// which runs and which figures, separated by bars; what is listed is separated by commas.
const (
	tableBegin = "<!-- begin table "
	rowsBegin  = "<!-- begin rows "
	markEnd    = " -->\n"
	regionEnd  = "<!-- end -->\n"
)

// Fill returns a document with its tables written anew from reports. The paths in
// it are relative to its folder, dir. There are two kinds:
//
//	<!-- begin table saturate | chatclub, article | quota_use, hot_p99_ms -->
//	<!-- begin rows docs/evidence/readme.rows -->
//
// Both end with "<!-- end -->". The first is a table of the runs, by their
// strategies or labels, of the report in a folder; without any, of all but the
// baselines. Figures are named as in report.json, or as the measure is. The second
// has a row for each line of a file, "text | folder | figure", and a column for each
// run in the file's first line, "name = head, name = head".
//
// The best of a column, and what ties with it, is bold among the runs that are
// shown. In place of the table of a report that is not there it says so. A run or
// a figure that a report does not have is an error.
func Fill(dir string, document []byte) ([]byte, error) {
	var out bytes.Buffer
	rest := string(document)
	for {
		at, kind := next(rest)
		if at < 0 {
			out.WriteString(rest)
			return out.Bytes(), nil
		}
		spec, after, ok := strings.Cut(rest[at+len(kind):], markEnd)
		_, tail, closed := strings.Cut(after, regionEnd)
		if !ok || !closed || strings.Contains(spec, "\n") {
			return nil, fmt.Errorf("fill: %.60q has no end", rest[at:])
		}
		out.WriteString(rest[:at] + kind + spec + markEnd)
		write := writeTableRegion
		if kind == rowsBegin {
			write = writeRowsRegion
		}
		if err := write(&out, dir, strings.TrimSpace(spec)); err != nil {
			return nil, fmt.Errorf("fill %q: %w", spec, err)
		}
		out.WriteString(regionEnd)
		rest = tail
	}
}

// next returns where the next region begins, and of which kind it is; at is below 0
// where there is none.
func next(text string) (at int, kind string) {
	at = -1
	for _, k := range []string{tableBegin, rowsBegin} {
		if i := strings.Index(text, k); i >= 0 && (at < 0 || i < at) {
			at, kind = i, k
		}
	}
	return at, kind
}

// FillFile is Fill on a file.
func FillFile(name string) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	filled, err := Fill(filepath.Dir(name), raw)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if bytes.Equal(raw, filled) {
		return nil
	}
	return os.WriteFile(name, filled, 0o644) //nolint:gosec // a document that anybody may read
}

// writeTableRegion writes the table of a report, and where it is from.
func writeTableRegion(w io.Writer, dir, spec string) error {
	parts := strings.Split(spec, "|")
	if len(parts) != 3 {
		return fmt.Errorf("want folder | runs | figures")
	}
	folder := strings.TrimSpace(parts[0])
	r, err := open(filepath.Join(dir, folder, "report.json"))
	if errors.Is(err, fs.ErrNotExist) {
		_, err := fmt.Fprintf(w, "%s is not measured yet: `make evidence EVIDENCE=%s`\n", escaped(folder), folder)
		return err
	}
	if err != nil {
		return err
	}
	some := *r
	if some.Runs, err = picked(r.Runs, listed(parts[1])); err != nil {
		return err
	}
	var t table
	for i, name := range names(some.Runs) {
		t.Rows = append(t.Rows, row{Name: name, Run: &some.Runs[i]})
	}
	for _, name := range listed(parts[2]) {
		c, err := figureColumn(name, some.Runs)
		if err != nil {
			return err
		}
		t.Columns = append(t.Columns, c)
		for i, m := range standing(c, some.Runs) {
			t.Rows[i].Cells = append(t.Rows[i].Cells, cell{c.text(&some.Runs[i]), c.rangeText(&some.Runs[i]), m})
		}
	}
	markdownComparison(w, t)
	_, err = fmt.Fprintln(w, source(folder, &some))
	return err
}

// listed parts a list at its commas.
func listed(text string) (list []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// picked returns the runs of these names or strategies, in the order of the
// names; without any, all but the baselines.
func picked(runs []Run, wanted []string) (list []Run, err error) {
	for _, name := range wanted {
		found := len(list)
		for i := range runs {
			if !runs[i].Baseline && (runs[i].Name() == name || runs[i].Strategy == name) {
				list = append(list, runs[i])
			}
		}
		if len(list) == found {
			return nil, fmt.Errorf("the report has no run %q", name)
		}
	}
	if wanted == nil {
		list = slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.Baseline })
	}
	return list, nil
}

// standing marks what leads a column of a document, also where all that may win it
// tie: what may not is beside them. A column in which all are alike, or of which all
// runs are of one strategy, has no mark.
func standing(c column, runs []Run) []mark {
	out := make([]mark, len(runs))
	leaders, _ := lead(c, runs)
	other := func(r Run) bool { return r.Strategy != runs[0].Strategy }
	if len(leaders) == len(runs) || !slices.ContainsFunc(runs, other) {
		return out
	}
	for _, i := range leaders {
		out[i] = ties
	}
	return out
}

// perSent is a figure that is not in report.json but follows from two that are.
const perSent = "inversions_per_sent"

// figureColumn is the column of a figure's name in JSON, or of a measure's.
func figureColumn(name string, runs []Run) (column, error) {
	all := append(slices.Concat(columns, measures(runs)), column{
		field: perSent, title: "inversions per sent", better: Lower, tie: upTo(2), unit: fixed(percent), value: inversionsPerSent,
	})
	i := slices.IndexFunc(all, func(c column) bool { return c.field == name || c.field == "" && c.title == name })
	if i < 0 {
		return column{}, fmt.Errorf("there is no figure %q", name)
	}
	c := all[i]
	c.format = c.unit(c.figures(runs))
	return c, nil
}

func inversionsPerSent(r *Run) *float64 {
	if r.Inversions == nil || r.Sent == nil || *r.Sent == 0 {
		return nil
	}
	return new(float64(*r.Inversions) / float64(*r.Sent))
}

// source says what a table is of.
func source(folder string, r *Report) string {
	least, most := 0, 0
	for i := range r.Runs {
		n := max(1, len(r.Runs[i].Rounds))
		if most = max(most, n); least == 0 || n < least {
			least = n
		}
	}
	times := fmt.Sprintf("medians of %d runs", least)
	switch {
	case most == 1:
		times = "one run each"
	case least < most:
		times = fmt.Sprintf("medians of %d to %d runs", least, most)
	}
	revision := r.Versions.Chatclub
	if revision == "" {
		revision = "unknown"
	}
	return fmt.Sprintf("[%s](%s/report.md): %s, revision %s, %s", escaped(folder), folder, times, escaped(revision), r.Started.UTC().Format("2006-01-02"))
}

// writeRowsRegion writes figures of several reports, a line each.
func writeRowsRegion(w io.Writer, dir, spec string) error {
	raw, err := os.ReadFile(filepath.Join(dir, spec)) //nolint:gosec // the document names its own file
	if err != nil {
		return err
	}
	first, lines, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	head, ways := []string{""}, []string(nil)
	for _, item := range listed(first) {
		way, title, ok := strings.Cut(item, "=")
		if !ok {
			return fmt.Errorf("%s: %q is not name = head", spec, item)
		}
		ways, head = append(ways, strings.TrimSpace(way)), append(head, strings.TrimSpace(title))
	}
	var rows [][]string
	for line := range strings.Lines(lines) {
		cells, err := figuresRow(filepath.Join(dir, filepath.Dir(spec)), strings.TrimSpace(line), ways)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", spec, strings.TrimSpace(line), err)
		}
		rows = append(rows, cells)
	}
	var b bytes.Buffer
	markdownTable(&b, head, rows, 1)
	_, err = w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return err
}

// figuresRow is one figure of each way, beside its text.
func figuresRow(dir, line string, ways []string) ([]string, error) {
	parts := strings.Split(line, " | ")
	if len(parts) != 3 {
		return nil, fmt.Errorf("want text | folder | figure")
	}
	r, err := open(filepath.Join(dir, parts[1], "report.json"))
	if err != nil {
		return nil, err
	}
	runs, err := picked(r.Runs, ways)
	if err != nil {
		return nil, err
	}
	if len(runs) != len(ways) {
		return nil, fmt.Errorf("%d runs of %d ways: a way has several parts", len(runs), len(ways))
	}
	c, err := figureColumn(parts[2], runs)
	if err != nil {
		return nil, err
	}
	cells := []string{parts[0]}
	for i, m := range standing(c, runs) {
		cells = append(cells, markdownCell(cell{Text: c.text(&runs[i]), Mark: m}))
	}
	return cells, nil
}

// callsStyle is how calls look that are more than the sends.
var callsStyle = style{Light: "#b42318", Dark: "#ff8a7a", Width: 1.25}

// SaveSends draws the sends of some runs against the limit, and the calls that they
// took, side by side, into a file. Of each way it is the run of the first report that
// has one with a series; a way that none has is left out.
func SaveSends(file string, ways []string, reports ...*Report) error {
	var all Report
	for _, way := range ways {
		for _, r := range reports {
			if runs, err := picked(r.Runs, []string{way}); err == nil && len(runs[0].Series) > 0 {
				all.Runs = append(all.Runs, runs[0])
				break
			}
		}
	}
	c := sendsChart(&all)
	if len(c.Panels) == 0 {
		return fmt.Errorf("draw %s: no run has a series", file)
	}
	c.Title = "Sends against the limit, and calls made for them"
	for i := range c.Panels {
		s := &all.Runs[i].Series[0]
		if len(s.Refused) == len(s.Sent) {
			calls := floats(s.Sent)
			for k, n := range s.Refused {
				calls[k] += float64(n)
			}
			c.Panels[i].Lines = append(c.Panels[i].Lines, line{Name: "calls made, refused ones included", Style: callsStyle, Role: reference, X: steps(s), Y: held(calls), Step: true})
		}
		c.Panels[i].Y.Label = "a second"
	}
	c.share(linear)
	for _, p := range c.Panels {
		for i := range p.Lines {
			p.Lines[i].Layer = p.Lines[i].layer()
		}
	}
	return saveFile(file, func(w io.Writer) error { return drawChart(w, &c) })
}
