// Package report keeps what a load test has found, and shows it: as report.json, as a
// table on a terminal, as report.md, and as one report.html that needs no network.
//
// Nothing here measures. The verdict is that of the expectations; beside it the best
// of a column is marked.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Schema is the version of report.json. It grows when a field changes its
// meaning or goes, not when an optional one comes.
const Schema = 2

// Own is this project's strategy.
const Own = "chatclub"

// Report is the result of one case.
type Report struct {
	Schema       int           `json:"schema"`
	Case         string        `json:"case"`                   // the name it is run by, as in "saturate"
	Title        string        `json:"title,omitempty"`        // one line for people
	Source       string        `json:"source,omitempty"`       // where the case comes from, one line
	Parameters   []Parameter   `json:"parameters,omitempty"`   // in the order to show them in
	Expectations []Expectation `json:"expectations,omitempty"` //
	Command      string        `json:"command,omitempty"`      // what to type to run it again
	Seed         uint64        `json:"seed"`                   // of the load
	Started      time.Time     `json:"started"`                //
	Versions     Versions      `json:"versions"`               //
	Machine      Machine       `json:"machine"`                //
	Notes        []string      `json:"notes,omitempty"`        // on the whole report
	Unfinished   string        `json:"unfinished,omitempty"`   // why not all runs are here, as in "stopped after 2 of 9 runs"
	Runs         []Run         `json:"runs"`                   //
}

// Parameter is one setting of the case.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Expectation is a bound with its result.
type Expectation struct {
	Text string `json:"text"`
	Of   string `json:"of,omitempty"`  // the strategy that it is about; empty: the whole case
	Met  *bool  `json:"met"`           // nil: the run could not tell
	Got  string `json:"got,omitempty"` // what was seen instead, or in proof
}

// String is the expectation with whom it is about and what came of it.
func (e Expectation) String() string {
	text := e.Text
	if e.Of != "" {
		text = e.Of + ": " + text
	}
	if e.Got != "" {
		text += " (" + e.Got + ")"
	}
	return text
}

// Outcome is "met", "NOT MET" or "unknown".
func (e Expectation) Outcome() string {
	switch {
	case e.Met == nil:
		return "unknown"
	case *e.Met:
		return "met"
	}
	return "NOT MET"
}

// Status says whether a run can be relied on.
type Status string

// The states of a run.
const (
	Complete     Status = ""             // ran to its end
	Interrupted  Status = "interrupted"  // stopped early, by Ctrl-C for example: the figures are of what ran
	Inconclusive Status = "inconclusive" // ran, but proves nothing: the machine was too noisy, for example
	Failed       Status = "failed"       // did not run
)

// Run is one strategy's run of one part of the case.
type Run struct {
	Strategy string   `json:"strategy"`
	Replicas int      `json:"replicas"`
	Label    string   `json:"label,omitempty"`    // names the run where the strategy alone does not, as in "chatclub, 3 dispatchers"
	Baseline bool     `json:"baseline,omitempty"` // not one of those compared but what they are measured against: it wins nothing
	Status   Status   `json:"status,omitempty"`   //
	Reason   string   `json:"reason,omitempty"`   // why the status is not Complete
	Notes    []string `json:"notes,omitempty"`    // errors, warnings, what to keep in mind
	Figures  Figures  `json:"figures"`            //

	// Rounds are the runs of which the figures are the medians, in the order in
	// which they ran; nil where the strategy ran once. See Fold.
	Rounds []Round `json:"rounds,omitempty"`

	Series  []Series  `json:"series,omitempty"`
	Latency []Latency `json:"latency,omitempty"`
}

// Round is one of the runs that a Run is the median of.
type Round struct {
	Seed    uint64  `json:"seed"` // of its load
	Figures Figures `json:"figures"`
}

// Name returns what to call the run: its label, or else its strategy.
func (r *Run) Name() string {
	if r.Label != "" {
		return r.Label
	}
	return r.Strategy
}

// Series is the course of one page (or of all together), step by step from the start
// of the run. The slices are as long as each other or absent.
type Series struct {
	Name    string    `json:"name"`              // as in "page 1" or "hot pages"
	StepMS  int64     `json:"step_ms"`           // length of a step: 1000, or 100 for a close look
	Sent    []int64   `json:"sent"`              // calls accepted in the step
	Refused []int64   `json:"refused,omitempty"` // answered with a throttle in the step
	Limit   []float64 `json:"limit,omitempty"`   // how many the limit allowed in the step
}

// Latency is the distribution of one class of messages.
type Latency struct {
	Class       string       `json:"class"` // as in "cold", "hot"
	Count       int64        `json:"count"`
	Percentiles []Percentile `json:"percentiles"` // ascending
}

// Percentile is the latency that so many percent of the messages did not exceed.
type Percentile struct {
	Percent float64 `json:"percent"`
	MS      float64 `json:"ms"`
}

// NewLatency reads a class's distribution out of a histogram in µs. Each percentile has
// at least one message beyond it, but for the last.
func NewLatency(class string, h *hdrhistogram.Histogram) Latency {
	l := Latency{Class: class, Count: h.TotalCount()}
	known := []float64{0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92.5, 95, 96, 97, 98, 98.5, 99, 99.25, 99.5, 99.75, 99.9, 99.95, 99.99, 99.995, 99.999, 100}
	for _, p := range known {
		if l.Count > 0 && (p == 100 || (100-p)/100*float64(l.Count) >= 1-1e-9) {
			l.Percentiles = append(l.Percentiles, Percentile{Percent: p, MS: float64(h.ValueAtPercentile(p)) / 1000})
		}
	}
	return l
}

// heading is the report's first line.
func (r *Report) heading() string {
	if r.Title == "" {
		return plain(r.Case)
	}
	return plain(r.Case + ": " + r.Title)
}

// notes are those of the report, and those of each run with its name.
func (r *Report) notes() []string {
	out := slices.Clone(r.Notes)
	for i, name := range names(r.Runs) {
		if reason := r.Runs[i].Reason; reason != "" {
			out = append(out, name+": "+reason)
		}
		for _, n := range r.Runs[i].Notes {
			out = append(out, name+": "+n)
		}
	}
	return out
}

// facts says how the report was made, in the order to show them in.
func (r *Report) facts() []Parameter {
	out := slices.Clone(r.Parameters)
	m := r.Machine
	for _, p := range []Parameter{
		{"command", r.Command},
		{"seed", fmt.Sprint(r.Seed)},
		{"started", r.Started.UTC().Format("2006-01-02 15:04:05 UTC")},
		{"chatclub", r.Versions.Chatclub},
		{"Go", r.Versions.Go},
		{"broker", r.Versions.Broker},
		{"machine", fmt.Sprintf("%s/%s, %d CPUs, %s, %s of memory, kernel %s", m.OS, m.Arch, m.CPUs, m.CPU, bytesize(float64(m.MemoryBytes)), m.Kernel)},
	} {
		if p.Value != "" {
			out = append(out, p)
		}
	}
	return out
}

// Save writes report.json, report.html and report.md into a folder, which it makes.
func Save(dir string, r *Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // documents that anybody may read
		return fmt.Errorf("save report: %w", err)
	}
	for name, write := range map[string]func(io.Writer, *Report) error{"report.json": Write, "report.html": WriteHTML, "report.md": WriteMarkdown} {
		var b bytes.Buffer
		if err := write(&b, r); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil { //nolint:gosec // a document that anybody may read
			return fmt.Errorf("save report: %w", err)
		}
	}
	return nil
}

// Write writes r as report.json.
func Write(w io.Writer, r *Report) error {
	c := *r
	c.Schema = Schema
	if c.Runs == nil {
		c.Runs = []Run{} // a list, if an empty one
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(&c); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Read reads the report.json of a folder.
func Read(dir string) (*Report, error) {
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("read report: its schema is %d, not %d", r.Schema, Schema)
	}
	return &r, nil
}
