package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
)

// pageFiles has the page, its style sheet and its script.
//
//go:embed page
var pageFiles embed.FS

// pageData is the input of the template.
type pageData struct {
	Heading string
	CSS     template.CSS
	Script  template.JS
	Report  *Report
	Verdict Verdict
	Table   table
	Reading string // how to read it
	Met     int
	Facts   []Parameter
	Notes   []string
}

// WriteHTML writes a page that shows the report. It needs no network and no
// file beside it. All that comes from the report is text in it, never markup or
// code.
func WriteHTML(w io.Writer, r *Report) error {
	data := pageData{
		Heading: r.heading(), Report: r, Verdict: r.Verdict(), Table: compare(r.Runs, nil), Reading: reading(r.Runs), Facts: r.facts(), Notes: r.notes(),
	}
	for _, e := range r.Expectations {
		if e.Met != nil && *e.Met {
			data.Met++
		}
	}
	read := func(name string) string {
		raw, _ := pageFiles.ReadFile("page/" + name) // it is embedded
		return string(raw)
	}
	data.CSS, data.Script = template.CSS(read("page.css")), template.JS(read("page.js")) //nolint:gosec // our own files
	page, err := template.New("report.html").Funcs(template.FuncMap{
		"state": state, "own": func(r *Run) bool { return r.Strategy == Own && !r.Baseline },
	}).ParseFS(pageFiles, "page/report.html")
	if err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	if err := page.Execute(w, data); err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	return nil
}

// state is the class of a verdict's colour.
func state(v Verdict) string {
	switch v.Outcome {
	case Pass:
		return "good"
	case Fail:
		return "bad"
	case NoVerdict:
	}
	return "open"
}
