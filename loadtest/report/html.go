package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
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

// pageData is the input of the template.
type pageData struct {
	Heading string
	Policy  template.HTMLAttr
	CSS     template.CSS
	Scripts []template.JS
	Report  *Report
	Verdict Verdict
	Short   table
	All     table
	Reading string // how to read them
	Met     string // as in "6 of 6 met"
	Facts   []Parameter
	Notes   []string
	Data    chartData
}

// chartData is read by page.js, which draws the charts.
type chartData struct {
	Names  []string `json:"names"` // of the runs
	Report *Report  `json:"report"`
}

// WriteHTML writes a page that shows the report. It needs no network and no
// file beside it. All that comes from the report is text in it, never markup or
// code.
func WriteHTML(w io.Writer, r *Report) error {
	all := compare(r)
	const most = 8 // columns of a desktop's width
	data := pageData{
		Heading: r.heading(), Report: r, Verdict: r.Verdict(), Short: all.short(most), All: all, Reading: all.reading(r),
		Facts: r.facts(), Notes: r.notes(), Data: chartData{names(r.Runs), r},
	}
	met := 0
	for _, e := range r.Expectations {
		if e.Met != nil && *e.Met {
			met++
		}
	}
	data.Met = fmt.Sprintf("%d of %d met", met, len(r.Expectations))
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
