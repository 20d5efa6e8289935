package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Write writes r as report.json: indented, fields in the order of the schema,
// the same bytes for the same report. Schema is filled in.
func Write(w io.Writer, r *Report) error {
	c := *r
	c.Schema = Schema
	if c.Runs == nil {
		c.Runs = []Run{} // a list, if an empty one
	}
	if err := c.validate(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(&c); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// WriteCompact writes the form for programs, one line: the schema, the
// scenario, and of each run its Figures and nothing else. Where a strategy ran
// more than once, its name alone would not tell the runs apart: then the run's
// own is written in its place.
func WriteCompact(w io.Writer, r *Report) error {
	c := struct {
		Schema   int       `json:"schema"`
		Scenario string    `json:"scenario"`
		Runs     []Figures `json:"runs"`
	}{Schema, r.Scenario, make([]Figures, 0, len(r.Runs))}
	times := make(map[string]int)
	for i := range r.Runs {
		times[r.Runs[i].Strategy]++
	}
	for i, name := range distinct(r.Runs) {
		f := r.Runs[i].Figures
		if times[f.Strategy] > 1 {
			f.Strategy = name
		}
		c.Runs = append(c.Runs, f)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(c); err != nil {
		return fmt.Errorf("write compact report: %w", err)
	}
	return nil
}

// Read reads a report.json of this schema. Fields that it does not know are
// an error, as is anything that Write would not have written.
func Read(rd io.Reader) (*Report, error) {
	raw, err := io.ReadAll(rd)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	var version struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	switch {
	case version.Schema == nil:
		return nil, errors.New(`read report: "schema" is missing: this is no report.json`)
	case *version.Schema > Schema:
		return nil, fmt.Errorf(`read report: "schema" is %d, this program knows %d: use a newer one`, *version.Schema, Schema)
	case *version.Schema != Schema:
		return nil, fmt.Errorf(`read report: "schema" is %d, want %d`, *version.Schema, Schema)
	}
	var r Report
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return &r, nil
}
