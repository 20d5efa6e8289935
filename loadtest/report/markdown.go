package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// picture is a file beside report.md.
type picture struct {
	File  string
	Title string
}

// WriteMarkdown writes r as report.md: the verdict and what the figures say, the
// one of the pictures that Save writes beside it that tells most, the scenario's
// own columns, what was expected, then all figures, how to run it again, and the
// notes.
func WriteMarkdown(w io.Writer, r *Report) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# %s\n\n", escaped(heading(r)))
	if r.Source != "" {
		fmt.Fprintf(b, "From: %s\n\n", escaped(r.Source))
	}
	v := r.Verdict()
	fmt.Fprintf(b, "**%s**: %s\n\n", v.Outcome, escaped(v.Reason))
	if h := headline(r); h != "" {
		fmt.Fprintf(b, "%s.\n\n", escaped(h))
	}
	if p, ok := telling(r); ok {
		fmt.Fprintf(b, "![%s](%s)\n\n", escaped(p.Title), p.File)
		fmt.Fprint(b, "The other pictures are beside it; report.html is there to look closer.\n\n")
	}
	all := compare(r)
	markdownComparison(b, all.short())
	if text := explained(r, all); text != "" {
		fmt.Fprintf(b, "%s\n\n", text)
	}
	markdownExpected(b, r)
	fmt.Fprint(b, "## All figures\n\n")
	markdownComparison(b, all)
	for _, d := range details(r) {
		fmt.Fprintf(b, "## %s\n\n", d.Title)
		for _, row := range d.Rows {
			for j := range row {
				row[j] = escaped(row[j])
			}
		}
		markdownTable(b, d.Head, d.Rows, d.Texts)
	}
	markdownRecipe(b, r)
	markdownNotes(b, r)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write Markdown: %w", err)
	}
	return nil
}

// explained says how to read the comparison.
func explained(r *Report, t table) string {
	var text []string
	if note := spreadNote(r); note != "" {
		text = append(text, note)
	}
	if t.isMarked() {
		text = append(text, winners)
	}
	return strings.Join(text, " ")
}

// markdownComparison writes runs side by side: the best of a column bold, and
// what ties with it.
func markdownComparison(b io.Writer, t table) {
	head := []string{"run"}
	for _, c := range t.Columns {
		head = append(head, escaped(c.title))
	}
	var lines [][]string
	for _, row := range t.Rows {
		line := []string{escaped(row.Name)}
		for _, c := range row.Cells {
			line = append(line, markdownCell(c))
		}
		lines = append(lines, line)
	}
	markdownTable(b, head, lines, 1)
}

func markdownCell(c cell) string {
	text := escaped(c.Text)
	if c.Mark != unmarked {
		text = "**" + text + "**"
	}
	if c.Range != "" {
		text += " (" + escaped(c.Range) + ")"
	}
	return text
}

func markdownExpected(b io.Writer, r *Report) {
	if len(r.Expectations) == 0 {
		return
	}
	fmt.Fprintf(b, "## Expected: %s\n\n", met(r.Expectations))
	for _, e := range r.Expectations {
		fmt.Fprintf(b, "- **%s**: %s\n", outcome(e.Met), escaped(expectation(e)))
	}
	fmt.Fprintln(b)
}

func markdownNotes(b io.Writer, r *Report) {
	list := slices.Concat(reasons(r), notes(r))
	if len(list) == 0 {
		return
	}
	fmt.Fprint(b, "\n## Notes\n\n")
	for _, n := range list {
		fmt.Fprintf(b, "- %s\n", escaped(n))
	}
}

// markdownRecipe writes how the report was made.
func markdownRecipe(b io.Writer, r *Report) {
	fmt.Fprint(b, "## How it was made\n\n")
	if r.Command != "" {
		fence := "```"
		for strings.Contains(r.Command, fence) {
			fence += "`"
		}
		fmt.Fprintf(b, "%ssh\n%s\n%s\n\n", fence, plain(r.Command), fence)
	}
	for _, f := range facts(r) {
		fmt.Fprintf(b, "- %s: %s\n", escaped(f.Name), escaped(f.Value))
	}
}

// markdownTable writes a table whose first so many columns are texts.
func markdownTable(w io.Writer, head []string, rows [][]string, texts int) {
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---:"
		if i < texts {
			rule[i] = "---"
		}
	}
	for _, line := range append([][]string{head, rule}, rows...) {
		fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
	}
	fmt.Fprintln(w)
}

// escaped is a text that Markdown shows as it is, in one line.
func escaped(s string) string {
	var b strings.Builder
	for _, c := range plain(s) {
		switch {
		case strings.ContainsRune("\\`*_[]|#~!", c):
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '<':
			b.WriteString("&lt;")
		case c == '>':
			b.WriteString("&gt;")
		case c == '&':
			b.WriteString("&amp;")
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
