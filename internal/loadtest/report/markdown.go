package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// picture is a file beside report.md.
type picture struct {
	File  string
	Title string
}

// WriteMarkdown writes r as report.md: the comparison, the best of a column in
// bold, what was expected, the figures behind the pictures, and how to run it
// again. Of the pictures that Save writes beside it, it shows the one that tells
// most.
func WriteMarkdown(w io.Writer, r *Report) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# %s\n\n", escaped(heading(r)))
	if r.Source != "" {
		fmt.Fprintf(b, "From: %s\n\n", escaped(r.Source))
	}
	cols, rows := compare(r)
	head := []string{"run", "replicas"}
	for _, c := range cols {
		head = append(head, escaped(c.title))
	}
	lines := make([][]string, 0, len(rows))
	for _, row := range rows {
		line := []string{escaped(row.Name), whole(float64(row.Run.Replicas))}
		for _, c := range row.Cells {
			text := escaped(c.Text)
			if c.Best {
				text = "**" + text + "**"
			}
			line = append(line, text)
		}
		lines = append(lines, line)
	}
	markdownTable(b, head, lines, 1)
	fmt.Fprintf(b, "%s\n\n", winners)
	if len(r.Expectations) > 0 {
		fmt.Fprint(b, "## Expected\n\n")
		for _, e := range r.Expectations {
			fmt.Fprintf(b, "- **%s**: %s\n", verdict(e.Met), escaped(expectation(e)))
		}
		fmt.Fprintln(b)
	}
	if n := notes(r, rows); len(n) > 0 {
		fmt.Fprint(b, "## Notes\n\n")
		for _, n := range n {
			fmt.Fprintf(b, "- %s\n", escaped(n))
		}
		fmt.Fprintln(b)
	}
	if p, ok := telling(r); ok {
		fmt.Fprintf(b, "![%s](%s)\n\n", escaped(p.Title), p.File)
		fmt.Fprint(b, "The other pictures, and report.html to look closer: `go run ./cmd/loadtest report -beside` with this folder.\n\n")
	}
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
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write Markdown: %w", err)
	}
	return nil
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
