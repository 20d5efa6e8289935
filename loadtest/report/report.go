// Package report keeps what a load test has found, and shows it: as report.json, as a
// table on a terminal, and as one report.html that needs no network.
//
// Nothing here measures. The verdict is that of the expectations.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Schema is the version of report.json. It grows when a field changes its
// meaning or goes, not when an optional one comes.
const Schema = 3

// Own is this project's strategy.
const Own = "chatclub"

// Report is the result of one case.
type Report struct {
	Schema       int           `json:"schema"`
	Case         string        `json:"case"`                   // the name it is run by, as in "saturate"
	Title        string        `json:"title,omitempty"`        // one line for people
	Source       string        `json:"source,omitempty"`       // where the case comes from, one line
	Parameters   []Parameter   `json:"parameters,omitempty"`   // how it was made, in the order to show it in
	Expectations []Expectation `json:"expectations,omitempty"` //
	Command      string        `json:"command,omitempty"`      // what to type to run it again
	Seed         uint64        `json:"seed"`                   // of the load
	Started      time.Time     `json:"started"`                //
	Notes        []string      `json:"notes,omitempty"`        // on the whole report
	Unfinished   string        `json:"unfinished,omitempty"`   // why not all runs are here, as in "stopped after 2 of 9 runs"
	Runs         []Run         `json:"runs"`                   //
	Beside       []Beside      `json:"beside,omitempty"`       // what a source says
	Charts       []Chart       `json:"charts,omitempty"`       // of what is no course of a page
}

// Beside is a figure that a source has, and ours.
type Beside struct {
	What  string `json:"what"`
	There string `json:"there"` // in the source
	Here  string `json:"here"`
}

// Chart is a picture of lines with one pair of axes.
type Chart struct {
	Title string `json:"title"`
	X     string `json:"x"` // names of the axes
	Y     string `json:"y"`
	Steps bool   `json:"steps,omitempty"` // a value holds until the next one; otherwise lines are straight
	Lines []Line `json:"lines"`
}

// Line is one line of a chart. The slices are as long as each other.
type Line struct {
	Name string    `json:"name"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
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

	// Rounds are the figures of the runs of which these are the medians, in the order in
	// which they ran, each with the next seed; nil where the strategy ran once. See Fold.
	Rounds []Figures `json:"rounds,omitempty"`

	Series []Series `json:"series,omitempty"`
}

// Name returns what to call the run: its label, or else its strategy, so that none that
// did not complete is taken for one that did.
func (r *Run) Name() string {
	name := cmp.Or(r.Label, r.Strategy)
	if r.Status != Complete {
		name += " (" + string(r.Status) + ")"
	}
	return name
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
	for i := range r.Runs {
		run := &r.Runs[i]
		for _, n := range append([]string{run.Reason}, run.Notes...) {
			if n != "" {
				out = append(out, run.Name()+": "+n)
			}
		}
	}
	return out
}

// facts says how the report was made, in the order to show them in.
func (r *Report) facts() []Parameter {
	return append(slices.Clone(r.Parameters),
		Parameter{"command", r.Command}, Parameter{"seed", fmt.Sprint(r.Seed)}, Parameter{"started", r.Started.UTC().Format("2006-01-02 15:04:05 UTC")})
}

// New returns the report of a case, without runs.
func New(name, title string, seed uint64, parameters ...Parameter) *Report {
	return &Report{
		Schema: Schema, Case: name, Title: title, Seed: seed, Started: time.Now().UTC().Truncate(time.Second),
		Parameters: append(parameters, here()...), Runs: []Run{},
	}
}

// Save writes report.json and report.html into a folder, which it makes.
func Save(dir string, r *Report) error {
	var data, page bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := errors.Join(e.Encode(r), WriteHTML(&page, r), os.MkdirAll(dir, 0o755)) //nolint:gosec // documents that anybody may read
	for name, b := range map[string][]byte{"report.json": data.Bytes(), "report.html": page.Bytes()} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o644) //nolint:gosec // a document that anybody may read
		}
	}
	if err != nil {
		return fmt.Errorf("save report: %w", err)
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
