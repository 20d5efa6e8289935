package report

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// WriteTable writes r for a terminal: the verdict, the columns that say most, then
// all that was not seen as expected. Where nothing ran, the verdict
// says it all.
func WriteTable(w io.Writer, r *Report) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, plain(r.Verdict().String()))
	if slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Status != Failed }) {
		fmt.Fprintf(b, "\n%s\n\n", r.heading())
		const most = 6 // of a terminal's width
		compare(r).short(most).write(b, plain)
		fmt.Fprintln(b)
		for _, e := range r.Expectations {
			if e.Met != nil && !*e.Met || e.Met == nil && r.doubtful() == nil {
				fmt.Fprintln(b, plain(e.Outcome()+": "+e.String()))
			}
		}
		for _, n := range r.notes() {
			fmt.Fprintln(b, plain("note: "+n))
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// Line is a run as one line of text, for while others are still to run: what it
// is called and the figures that say most.
func (r *Run) Line() string {
	if r.Status == Failed {
		return plain(doubt(r))
	}
	const most = 4
	t := compare(&Report{Runs: []Run{*r}}).short(most)
	var list []string
	for j, k := range t.Columns {
		list = append(list, k.Title()+" "+t.Rows[0].Cells[j].Text)
	}
	return plain(t.Rows[0].Name + ": " + strings.Join(list, ", "))
}

// WriteMarkdown writes r as report.md, for documents: the verdict, all figures,
// what was not met, the notes, and how it was made.
func WriteMarkdown(w io.Writer, r *Report) error {
	var b bytes.Buffer
	all := compare(r)
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", markdown(r.heading()), markdown(r.Verdict().String()))
	all.write(&b, markdown)
	fmt.Fprintf(&b, "\n%s\n\n", all.reading(r))
	for _, e := range r.Expectations {
		if e.Met == nil || !*e.Met {
			fmt.Fprintf(&b, "- %s\n", markdown(e.Outcome()+": "+e.String()))
		}
	}
	for _, n := range r.notes() {
		fmt.Fprintf(&b, "- %s\n", markdown(n))
	}
	for _, f := range r.facts() {
		fmt.Fprintf(&b, "- %s: %s\n", markdown(f.Name), markdown(f.Value))
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write Markdown: %w", err)
	}
	return nil
}

// Markdown returns the comparison of runs by all their figures, as a table.
func Markdown(runs []Run) string {
	var b strings.Builder
	compare(&Report{Runs: runs}).write(&b, markdown)
	return b.String()
}

// write writes the table in Markdown, with columns of equal width, so that it can be
// read on a terminal too. The best of a column is bold.
func (t table) write(w io.Writer, escape func(string) string) {
	lines := [][]string{{"run"}, {"---"}}
	for _, k := range t.Columns {
		lines[0], lines[1] = append(lines[0], escape(k.Title())), append(lines[1], "---:")
	}
	for _, row := range t.Rows {
		line := []string{escape(row.Name)}
		for _, c := range row.Cells {
			text := escape(c.Text)
			if c.Mark != "" {
				text = "**" + text + "**"
			}
			if c.Range != "" {
				text += " (" + escape(c.Range) + ")"
			}
			line = append(line, text)
		}
		lines = append(lines, line)
	}
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

// markdown returns a text that Markdown shows as it is, in one line.
func markdown(s string) string {
	var b strings.Builder
	for _, c := range plain(s) {
		if strings.ContainsRune("\\`*_[]|#~!<>&", c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
