package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

// The page and the chart library that it carries: uPlot 1.6.32 as published on
// npm, with its licence. page/uplot/README.md says where it comes from.
//
//go:embed page
var pageFiles embed.FS

// pageData is what the template shows.
type pageData struct {
	Title    string
	Policy   template.HTMLAttr
	CSS      template.CSS
	Scripts  []template.JS
	Sections []section
	Charts   []hosted
}

// section is one report's part of the page.
type section struct {
	ID       string
	Heading  string
	Report   *Report
	Verdict  Verdict
	Headline string
	Bars     barChart
	Charts   []hosted // what is seen at once
	More     []hosted // and what is folded
	Short    table
	All      table
	Reading  string // how to read them
	Met      string
	Details  []detail
	Facts    []Parameter
	Notes    []string
}

// hosted is a chart and the id of the element that it is drawn in.
type hosted struct {
	Host  string `json:"host"`
	Chart chart  `json:"chart"`
}

// WriteHTML writes one page that shows the reports, in the order given. It
// needs no network and no file beside it; everything that comes from the
// reports is text in it, never markup or code.
func WriteHTML(w io.Writer, reports ...*Report) error {
	if len(reports) == 0 {
		return errors.New("write HTML: there is no report")
	}
	data := pageData{Title: "Load reports"}
	if len(reports) == 1 {
		data.Title = heading(reports[0])
	}
	for i, r := range reports {
		s := newSection(fmt.Sprintf("report-%d", i+1), r)
		data.Sections = append(data.Sections, s)
		data.Charts = append(data.Charts, slices.Concat(s.Charts, s.More)...)
	}
	var files [5]string
	for i, name := range []string{"uplot/uPlot.min.css", "page.css", "uplot/LICENSE", "uplot/uPlot.iife.min.js", "page.js"} {
		raw, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			return fmt.Errorf("write HTML: %w", err)
		}
		files[i] = string(raw)
	}
	data.CSS = template.CSS(files[0] + files[1]) //nolint:gosec // our own files
	library := "/*!\n" + files[2] + "*/\n" + files[3]
	data.Scripts = []template.JS{template.JS(library), template.JS(files[4])} //nolint:gosec // our own files
	data.Policy = policy(library, files[4])
	page, err := template.New("report.html").Funcs(template.FuncMap{
		"outcome": outcome, "expectation": expectation,
		"colours": func(st style) template.CSS { return template.CSS("--light:" + st.Light + ";--dark:" + st.Dark) }, //nolint:gosec // from style.go
		"share":   func(v float64) template.CSS { return template.CSS(fmt.Sprintf("--share:%.4f", v)) },              //nolint:gosec // a number
		"title":   func(c column) string { return c.title },
		"own":     func(r *Run) bool { return r.Strategy == Own && !r.Baseline },
		"state":   state,
	}).ParseFS(pageFiles, "page/report.html")
	if err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	if err := page.Execute(w, data); err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	return nil
}

func newSection(id string, r *Report) section {
	all := compare(r)
	s := section{
		ID: id, Heading: heading(r), Report: r, Verdict: r.Verdict(), Headline: headline(r), Bars: comparison(r),
		Short: all.short(), All: all, Reading: explained(r, all), Met: met(r.Expectations), Details: details(r), Facts: facts(r), Notes: slices.Concat(reasons(r), notes(r)),
	}
	for i, c := range charts(r) {
		h := hosted{id + "-" + c.ID, c}
		if i == 0 {
			s.Charts = append(s.Charts, h)
		} else {
			s.More = append(s.More, h)
		}
	}
	return s
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

// policy lets the page run these scripts and nothing else. It sends no
// request.
func policy(scripts ...string) template.HTMLAttr {
	var hashes []string
	for _, s := range scripts {
		sum := sha256.Sum256([]byte(s))
		hashes = append(hashes, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	return template.HTMLAttr(fmt.Sprintf(`content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src %s"`, strings.Join(hashes, " "))) //nolint:gosec // hashes
}
