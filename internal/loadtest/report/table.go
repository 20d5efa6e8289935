package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// WriteTable writes r for a terminal: the comparison as aligned text, the best
// of a column with a star, then what was expected and what came of it.
func WriteTable(w io.Writer, r *Report) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s\n", heading(r))
	if r.Source != "" {
		fmt.Fprintf(b, "from: %s\n", plain(r.Source))
	}
	fmt.Fprintln(b)
	cols, rows := compare(r)
	lines := [][]string{{"strategy", "R"}}
	for _, c := range cols {
		lines[0] = append(lines[0], plain(c.short)+" ")
	}
	for _, row := range rows {
		line := []string{plain(row.Name), whole(float64(row.Run.Replicas))}
		for _, c := range row.Cells {
			mark := " "
			if c.Best {
				mark = "*"
			}
			line = append(line, plain(c.Text)+mark)
		}
		lines = append(lines, line)
	}
	align(b, lines)
	fmt.Fprintf(b, "\n* %s\n", lowerFirst(winners))
	for _, e := range r.Expectations {
		fmt.Fprintf(b, "%-8s %s\n", verdict(e.Met)+":", plain(expectation(e)))
	}
	for _, n := range notes(r, rows) {
		fmt.Fprintf(b, "note:    %s\n", plain(n))
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// align writes lines as columns two spaces apart: the first to the left, all
// others to the right.
func align(w io.Writer, lines [][]string) {
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for j, text := range line {
			width[j] = max(width[j], utf8.RuneCountInString(text))
		}
	}
	for _, line := range lines {
		var b strings.Builder
		for j, text := range line {
			pad := strings.Repeat(" ", width[j]-utf8.RuneCountInString(text))
			if j == 0 {
				b.WriteString(text + pad)
			} else {
				b.WriteString("  " + pad + text)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// heading is the report's first line.
func heading(r *Report) string {
	if r.Title == "" {
		return plain(r.Scenario)
	}
	return plain(r.Scenario + ": " + r.Title)
}

func verdict(met *bool) string {
	switch {
	case met == nil:
		return "unknown"
	case *met:
		return "met"
	}
	return "NOT MET"
}

// expectation is the text of one, with whom it is about and what came of it.
func expectation(e Expectation) string {
	text := e.Text
	if e.Of != "" {
		text = e.Of + ": " + text
	}
	if e.Got != "" {
		text += " (" + e.Got + ")"
	}
	return text
}

// notes are those of the report, and those of each run with its name.
func notes(r *Report, rows []row) []string {
	out := append([]string(nil), r.Notes...)
	for _, row := range rows {
		for _, n := range row.Run.Notes {
			out = append(out, row.Name+": "+n)
		}
	}
	return out
}

// plain makes a text harmless for a terminal and for one line: what is not
// printable becomes a space.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, s)
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
