package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"chatclub/internal/term"
	"chatclub/loadtest/report"
	"chatclub/loadtest/trial"
)

// progress tells how far the program is: a row for each run that has ended, and
// on a terminal a line below with how long the rest takes.
type progress struct {
	rows io.Writer
	line *term.Line

	mu    sync.Mutex
	runs  int           // in all
	begun int           // of them
	rest  time.Duration // that the plans of those take that have not begun

	name           string        // of the run that is on
	since          time.Time     // it began
	takes          time.Duration // as its plan says
	planned, spent time.Duration // by those that have ended
}

// newProgress is of all runs of the scenarios, on w unless quiet.
func newProgress(w io.Writer, quiet bool, all []*parsed) *progress {
	p := &progress{rows: io.Discard, line: &term.Line{}}
	if !quiet {
		p.line = term.NewLine(w)
		p.rows = p.line.Above(w)
	}
	for _, x := range all {
		for _, info := range x.list {
			for _, part := range x.parts(info) {
				p.runs += x.runs
				p.rest += time.Duration(x.runs) * part.Plan.Takes()
			}
		}
	}
	if p.runs > 1 {
		fmt.Fprintf(p.rows, "%d runs, about %s\n", p.runs, clock(p.rest))
	}
	return p
}

// begin says which run is on now.
func (p *progress) begin(name string, plan trial.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	p.name, p.since, p.takes = name, time.Now(), plan.Takes()
	p.rest -= p.takes
	p.line.Set(p.standLocked() + "starting")
}

// show says how the run stands.
func (p *progress) show(x trial.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line.Set(fmt.Sprintf("%s%.0f/s, sent %d, refused %d, awaited %d, dead %d", p.standLocked(), x.SentPerS, x.Sent, x.Refused, x.Awaited, x.Dead))
}

// standLocked is the begin of the line. What has not ended takes as much longer
// than planned as what has.
func (p *progress) standLocked() string {
	slower := 1.0
	if p.planned > 0 {
		slower = float64(p.spent) / float64(p.planned)
	}
	really := func(planned time.Duration) time.Duration { return time.Duration(slower * float64(planned)) }
	left := really(p.rest) + max(0, really(p.takes)-time.Since(p.since))
	return fmt.Sprintf("%d of %d, %s left  %s: ", p.begun, p.runs, clock(left), p.name)
}

// end erases the line, and prints what came of the run. One alone is not printed:
// its table follows at once.
func (p *progress) end(run *report.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned += p.takes
	p.spent += time.Since(p.since)
	p.line.Set("")
	if p.runs > 1 {
		fmt.Fprintf(p.rows, "%d of %d  %s\n", p.begun, p.runs, run.Line())
	}
}

// clock shows minutes and seconds, as in 2:10.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
