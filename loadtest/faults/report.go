package faults

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chatclub/fakeapi/ledger"
)

// Report is what a run has seen. Its JSON form is faults.json.
type Report struct {
	Outcome Outcome  `json:"outcome"`
	Reasons []string `json:"reasons"`

	Command  string    `json:"command"`
	Revision string    `json:"revision,omitempty"`
	Broker   string    `json:"broker"`
	Machine  string    `json:"machine"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Seed     uint64    `json:"seed"`
	Load     Load      `json:"load"`
	LeftOut  []string  `json:"left_out,omitempty"` // what could not be made here, and why

	Rows     []Row          `json:"rows"`
	Totals   ledger.Counts  `json:"totals"`
	Whole    bool           `json:"whole"` // it came to its end: what is pending in Totals is lost
	Dead     map[string]int `json:"dead"`  // letters by reason
	Failures []string       `json:"failures,omitempty"`
	Samples  []Sample       `json:"samples"`
	Growth   []string       `json:"growth,omitempty"`
}

// line is the row in one line, for a terminal.
func (r *Row) line() string {
	verdict := "kept"
	switch all := slices.Concat(r.Broken, r.Failures); {
	case len(all) > 0:
		verdict = "NOT KEPT: " + strings.Join(all, "; ")
	case len(r.Doubtful) > 0:
		verdict = "doubtful, " + r.Busy + ": " + strings.Join(r.Doubtful, "; ")
	}
	return fmt.Sprintf("  %s: lost %d, doubled %d of %d (at most %d), unexpected %d, silent %.1f s (%.1f), back %.1f s: %s",
		r.Fault, r.Lost, r.Doubled, r.Due, r.MaxDoubled, r.Unexpected, r.Silence, r.MaxSilence, r.Back, verdict)
}

// WriteTable writes the table of faults and bounds in Markdown.
func WriteTable(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString("| fault | what is done | lasts | nodes | doubled at most | a page is silent at most | back after |\n| --- | --- | --: | --: | --- | --- | --: |\n")
	for _, f := range Table() {
		fmt.Fprintf(&b, "| %s | %s | %v | %d | %s | %s | %v |\n", f.Name, f.Title, f.Length, f.Nodes, f.Bound, f.Bound.silenceText(), f.Bound.Back)
	}
	_, err := b.WriteTo(w)
	return err
}

// kept is one kind of fault in a report: the worst of its rows.
type kept struct {
	Row
	times  int
	lowest int64 // the least bound of doubled copies
}

// worst returns the worst of each fault, in the table's order.
func worst(rows []Row) (all []*kept) {
	byName := make(map[string]*kept)
	for _, r := range rows {
		k := byName[r.Fault]
		if k == nil {
			k = &kept{Row: Row{Fault: r.Fault}, lowest: r.MaxDoubled}
			byName[r.Fault] = k
			all = append(all, k)
		}
		k.times++
		k.Lost += r.Lost
		k.Unexpected += r.Unexpected
		k.Doubled, k.Silence, k.Back = max(k.Doubled, r.Doubled), max(k.Silence, r.Silence), max(k.Back, r.Back)
		k.Settled, k.MaxSilence, k.MaxBack = max(k.Settled, r.Settled), max(k.MaxSilence, r.MaxSilence), r.MaxBack
		k.lowest = min(k.lowest, r.MaxDoubled)
		k.Broken, k.Doubtful = append(k.Broken, r.Broken...), append(k.Doubtful, r.Doubtful...)
		k.Failures = append(k.Failures, r.Failures...)
	}
	place := func(name string) int {
		return slices.IndexFunc(Table(), func(f Fault) bool { return f.Name == name })
	}
	slices.SortFunc(all, func(a, b *kept) int { return cmp.Compare(place(a.Fault), place(b.Fault)) })
	return all
}

func (k *kept) verdict() string {
	switch {
	case len(k.Broken)+len(k.Failures) > 0:
		return "**not kept**"
	case len(k.Doubtful) > 0:
		return "doubtful"
	}
	return "kept"
}

// WriteMarkdown writes the report for people.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Faults: %s\n\n", r.Outcome)
	for _, reason := range r.Reasons {
		fmt.Fprintf(&b, "- %s\n", cell(reason))
	}
	fmt.Fprintf(&b, "\n`%s`: %d faults in %v from %s, on %s and %s.", r.Command, len(r.Rows), round(r.Seconds), r.Started.Format(time.RFC3339), r.Broker, r.Machine)
	if r.Revision != "" {
		fmt.Fprintf(&b, " Revision %s.", r.Revision)
	}
	fmt.Fprintf(&b, " %d pages with a room of %d each, %.3g events a second: %.0f copies a second are due.\n\n", r.Load.Pages, r.Load.Members, r.Load.Events, r.Load.Flow())
	fmt.Fprintf(&b, "At the end: %s; %s.\n\n", r.Totals.Line(map[bool]string{true: "lost", false: "awaited"}[r.Whole]), r.dead())
	b.WriteString("## What each fault cost\n\nThe worst of each; bounds in parentheses. Seconds but for counts. *Silent* is the longest time in which a page that awaited copies got none. *Back* is from the fault's end until every page got copies, *settled* until all that was due at its end had come.\n\n")
	b.WriteString("| fault | times | lost | doubled | unexpected | silent | back | settled | bounds |\n| --- | --: | --: | --: | --: | --: | --: | --: | --- |\n")
	for _, k := range worst(r.Rows) {
		fmt.Fprintf(&b, "| %s | %d | %d | %d (%d) | %d | %.1f (%.0f) | %.1f (%.0f) | %.1f | %s |\n",
			k.Fault, k.times, k.Lost, k.Doubled, k.lowest, k.Unexpected, k.Silence, k.MaxSilence, k.Back, k.MaxBack, k.Settled, k.verdict())
	}
	r.writeUsage(&b)
	if len(r.LeftOut) > 0 {
		b.WriteString("\n## Left out\n\n")
		for _, l := range r.LeftOut {
			fmt.Fprintf(&b, "- %s\n", cell(l))
		}
	}
	b.WriteString("\n## The script\n\n| at | fault | lost | doubled | silent | back | machine |\n| --: | --- | --: | --: | --: | --: | --- |\n")
	for i := range r.Rows {
		row := &r.Rows[i]
		fmt.Fprintf(&b, "| %v | %s | %d | %d | %.1f | %.1f | %s |\n", row.Began.Sub(r.Started).Round(time.Second), row.Step, row.Lost, row.Doubled, row.Silence, row.Back, cmp.Or(cell(row.Busy), "quiet"))
	}
	_, err := b.WriteTo(w)
	return err
}

// dead tells the dead letters. One that is ambiguous was answered with an error that
// comes with delivery: the ledger knows whether it arrived.
func (r *Report) dead() string {
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(r.Dead)) {
		list = append(list, fmt.Sprintf("%d %s", r.Dead[reason], cmp.Or(reason, "without a reason")))
	}
	return "dead letters: " + cmp.Or(strings.Join(list, ", "), "none")
}

// writeUsage writes memory, goroutines and files of each process at six moments.
func (r *Report) writeUsage(b *bytes.Buffer) {
	if len(r.Samples) == 0 {
		return
	}
	b.WriteString("\n## Memory, goroutines and files\n\nMiB / goroutines / open files. A * marks a process that is another one than before. core-1 and dispatcher-1 end only in kill-all.\n\n")
	if len(r.Growth) == 0 {
		b.WriteString("No growth was seen.")
	}
	for _, g := range r.Growth {
		fmt.Fprintf(b, "**Growth:** %s. ", cell(g))
	}
	shown := moments(r.Samples, 6)
	b.WriteString("\n\n| process |")
	for _, s := range shown {
		fmt.Fprintf(b, " %v |", s.At.Sub(r.Started).Round(time.Second))
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(shown)) + "\n")
	for _, name := range processes(shown) {
		fmt.Fprintf(b, "| %s |", name)
		last := 0
		for _, s := range shown {
			i := slices.IndexFunc(s.Usage, func(u Usage) bool { return u.Process == name })
			if i < 0 {
				b.WriteString(" – |")
				continue
			}
			u := s.Usage[i]
			mark := ""
			if last != 0 && last != u.PID {
				mark = "*"
			}
			last = u.PID
			goroutines := "–"
			if u.Goroutines > 0 {
				goroutines = fmt.Sprintf("%.0f", u.Goroutines)
			}
			fmt.Fprintf(b, " %d/%s/%d%s |", u.Memory>>20, goroutines, u.Files, mark)
		}
		b.WriteByte('\n')
	}
}

// moments returns so many samples, evenly, with the first and the last.
func moments(all []Sample, n int) (some []Sample) {
	if len(all) <= n {
		return all
	}
	for i := range n {
		some = append(some, all[i*(len(all)-1)/(n-1)])
	}
	return some
}

// processes returns all names, in order.
func processes(samples []Sample) (names []string) {
	for _, s := range samples {
		for _, u := range s.Usage {
			if !slices.Contains(names, u.Process) {
				names = append(names, u.Process)
			}
		}
	}
	slices.Sort(names)
	return names
}

// cell makes a text fit for a table.
func cell(s string) string { return strings.NewReplacer("|", "/", "\n", " ").Replace(s) }

func round(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second)
}

// Save writes report.md and faults.json into a folder.
func (r *Report) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a report is for all to read
		return fmt.Errorf("write the report: %w", err)
	}
	var text bytes.Buffer
	if err := r.WriteMarkdown(&text); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	for name, b := range map[string][]byte{"report.md": text.Bytes(), "faults.json": append(data, '\n')} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil { //nolint:gosec // as before
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}
