package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// WriteTable writes r for a terminal: the verdict, the figures, then all that was
// not seen as expected. Where nothing ran, the verdict
// says it all.
func WriteTable(w io.Writer, r *Report) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, plain(r.Verdict().String()))
	ran := slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Status != Failed })
	if ran || r.Beside != nil {
		fmt.Fprintf(b, "\n%s\n\n", r.heading())
		if r.Beside != nil {
			lines := [][]string{{"figure", "article", "here"}, {"---", "---:", "---:"}}
			for _, s := range r.Beside {
				lines = append(lines, []string{plain(s.What), plain(s.There), plain(s.Here)})
			}
			writeColumns(b, lines)
			fmt.Fprintln(b)
		}
		if ran {
			compare(r.Runs, nil).write(b)
			fmt.Fprintln(b)
		}
		for _, e := range r.Expectations {
			if e.Met != nil && !*e.Met || e.Met == nil && r.doubtful() == nil {
				fmt.Fprintln(b, plain(e.Outcome()+": "+e.String()))
			}
		}
		for _, n := range r.notes() {
			fmt.Fprintln(b, plain("note: "+n))
		}
	}
	return b.Flush()
}

// Markdown returns the comparison of runs by some figures, or by all if there are none, as
// a table.
func Markdown(runs []Run, figures ...Figure) string {
	var b strings.Builder
	compare(runs, figures).write(&b)
	return b.String()
}

// write writes the table in Markdown, with columns of equal width, so that it can be
// read on a terminal too.
func (t table) write(w io.Writer) {
	lines := [][]string{{"run"}, {"---"}}
	for _, k := range t.Columns {
		lines[0], lines[1] = append(lines[0], plain(string(k))), append(lines[1], "---:")
	}
	for _, row := range t.Rows {
		line := []string{plain(row.Run.Name())}
		for _, c := range row.Cells {
			text := plain(c.Text)
			if c.Range != "" {
				text += " (" + plain(c.Range) + ")"
			}
			line = append(line, text)
		}
		lines = append(lines, line)
	}
	writeColumns(w, lines)
}

// writeColumns writes the lines of a table with columns of equal width.
func writeColumns(w io.Writer, lines [][]string) {
	for _, line := range lines {
		for j, text := range line {
			width := 0
			for _, other := range lines {
				width = max(width, utf8.RuneCountInString(other[j]))
			}
			pad := strings.Repeat(" ", width-utf8.RuneCountInString(text))
			if j == 0 {
				text += pad
			} else {
				text = pad + text
			}
			fmt.Fprintf(w, "| %s ", text)
		}
		fmt.Fprintln(w, "|")
	}
}
