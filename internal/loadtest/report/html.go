package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
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
	Winners  string
	Sections []section
	Charts   []hosted
}

// section is one report's part of the page.
type section struct {
	ID       string
	Heading  string
	Report   *Report
	Columns  []string
	Rows     []row
	Bars     []barChart
	Charts   []hosted
	Details  []detail
	Facts    []Parameter
	Notes    []string
	Met, All int
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
	data := pageData{Title: "Load reports", Winners: winners}
	if len(reports) == 1 {
		data.Title = heading(reports[0])
	}
	for i, r := range reports {
		s := newSection(fmt.Sprintf("report-%d", i+1), r)
		data.Sections = append(data.Sections, s)
		data.Charts = append(data.Charts, s.Charts...)
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
		"verdict": verdict, "expectation": expectation, "whole": func(n int) string { return whole(float64(n)) },
		"colours": func(st style) template.CSS { return template.CSS("--light:" + st.Light + ";--dark:" + st.Dark) }, //nolint:gosec // from style.go
		"share":   func(v float64) template.CSS { return template.CSS(fmt.Sprintf("--share:%.4f", v)) },              //nolint:gosec // a number
		"join":    strings.Join,
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
	s := section{ID: id, Heading: heading(r), Report: r, Bars: comparison(r), Details: details(r), Facts: facts(r)}
	cols, rows := compare(r)
	s.Rows = rows
	for _, c := range cols {
		s.Columns = append(s.Columns, c.title)
	}
	s.Notes = notes(r, s.Rows)
	for _, c := range charts(r) {
		s.Charts = append(s.Charts, hosted{id + "-" + c.ID, c})
	}
	for _, e := range r.Expectations {
		s.All++
		if e.Met != nil && *e.Met {
			s.Met++
		}
	}
	return s
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
