package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
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
	Policy  template.HTMLAttr
	CSS     template.CSS
	Script  template.JS
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
	style, err := pageFiles.ReadFile("page/page.css")
	if err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	script, err := pageFiles.ReadFile("page/page.js")
	if err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	data.CSS, data.Script, data.Policy = template.CSS(style), template.JS(script), policy(script) //nolint:gosec // our own files
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

// policy lets the page run this script and nothing else. It sends no
// request.
func policy(script []byte) template.HTMLAttr {
	sum := sha256.Sum256(script)
	hash := base64.StdEncoding.EncodeToString(sum[:])
	return template.HTMLAttr(fmt.Sprintf(`content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-%s'"`, hash)) //nolint:gosec // a hash
}
