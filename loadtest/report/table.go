package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// terminal is how many columns a terminal has that nobody has made wider.
const terminal = 80

// WriteTable writes r for a terminal: the verdict, what the figures say, the
// scenario's own columns as aligned text in 80 characters, then what was not seen
// as expected. Where nothing ran, the verdict says it all.
func WriteTable(w io.Writer, r *Report) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, plain(r.Verdict().String()))
	if slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Status != Failed }) {
		fmt.Fprintf(b, "\n%s\n", wrap(heading(r), ""))
		if h := headline(r); h != "" {
			fmt.Fprintln(b, wrap(h+".", ""))
		}
		fmt.Fprintln(b)
		writeRows(b, r)
		writeDoubts(b, r)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// writeRows writes the table, narrowed until it fits.
func writeRows(w io.Writer, r *Report) {
	t := compare(r).short()
	for ; ; t = t.narrower() {
		text := align(t.lines())
		if len(t.Columns) > 1 && slices.ContainsFunc(text, func(line string) bool { return utf8.RuneCountInString(line) > terminal }) {
			continue
		}
		fmt.Fprintln(w, strings.Join(text, "\n"))
		if t.isMarked() {
			fmt.Fprintln(w, "\n* the best of the column; = ties with it")
		}
		return
	}
}

// lines are the table's cells as texts, with a sign behind those that are marked.
func (t table) lines() [][]string {
	lines := [][]string{{"run"}}
	for _, c := range t.Columns {
		lines[0] = append(lines[0], plain(c.short)+" ")
	}
	for _, row := range t.Rows {
		line := []string{plain(row.Name)}
		for _, c := range row.Cells {
			sign := " "
			switch c.Mark {
			case best:
				sign = "*"
			case ties:
				sign = "="
			case unmarked:
			}
			line = append(line, plain(c.Text)+sign)
		}
		lines = append(lines, line)
	}
	return lines
}

// writeDoubts writes the expectations that were not met or, where the runs are
// sound, not told, and the notes.
func writeDoubts(w io.Writer, r *Report) {
	fmt.Fprintln(w)
	for _, e := range r.Expectations {
		if e.Met != nil && !*e.Met || e.Met == nil && r.doubtful() == nil {
			fmt.Fprintln(w, wrap(outcome(e.Met)+": "+plain(expectation(e)), "  "))
		}
	}
	if n := spreadNote(r); n != "" {
		fmt.Fprintln(w, wrap("note: "+n+" The ranges are in the report.", "  "))
	}
	for _, n := range notes(r) {
		fmt.Fprintln(w, wrap("note: "+plain(n), "  "))
	}
}

// Line is a run as one line of text, for while others are still to run: what it
// is called and the figures that say most.
func (r *Run) Line() string {
	if r.Status == Failed {
		return plain(doubt(r))
	}
	t := compare(&Report{Runs: []Run{*r}}).short()
	text := plain(t.Rows[0].Name) + ": "
	for j, c := range t.Columns {
		next := plain(c.short + " " + t.Rows[0].Cells[j].Text)
		if utf8.RuneCountInString(text+next) > terminal-len("99 of 99  ") {
			break
		}
		if j > 0 {
			text += ", "
		}
		text += next
	}
	return text
}

// align returns lines as columns two spaces apart: the first to the left, all
// others to the right.
func align(lines [][]string) []string {
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for j, text := range line {
			width[j] = max(width[j], utf8.RuneCountInString(text))
		}
	}
	out := make([]string, len(lines))
	for i, line := range lines {
		var b strings.Builder
		for j, text := range line {
			pad := strings.Repeat(" ", width[j]-utf8.RuneCountInString(text))
			if j == 0 {
				b.WriteString(text + pad)
			} else {
				b.WriteString("  " + pad + text)
			}
		}
		out[i] = strings.TrimRight(b.String(), " ")
	}
	return out
}

// heading is the report's first line.
func heading(r *Report) string {
	if r.Title == "" {
		return plain(r.Scenario)
	}
	return plain(r.Scenario + ": " + r.Title)
}

func outcome(met *bool) string {
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

// met counts the expectations that were met, as in "6 of 6 met".
func met(list []Expectation) string {
	n := 0
	for _, e := range list {
		if e.Met != nil && *e.Met {
			n++
		}
	}
	return fmt.Sprintf("%d of %d met", n, len(list))
}

// notes are those of the report, and those of each run with its name.
func notes(r *Report) []string {
	out := slices.Clone(r.Notes)
	for i, name := range names(r.Runs) {
		for _, n := range r.Runs[i].Notes {
			out = append(out, name+": "+n)
		}
	}
	return out
}

// reasons are those for which runs are not complete.
func reasons(r *Report) (list []string) {
	for i, name := range names(r.Runs) {
		if reason := r.Runs[i].Reason; reason != "" {
			list = append(list, name+": "+reason)
		}
	}
	return list
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

// wrap breaks a text into lines of a terminal, those behind the first indented.
func wrap(text, indent string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && at+1+n > terminal:
			b.WriteString("\n" + indent)
			at = len(indent)
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
