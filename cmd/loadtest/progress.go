package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"chatclub/internal/loadtest/trial"
	"chatclub/internal/term"
)

// progress is one line on a terminal that is written over, or a line every few
// seconds elsewhere.
type progress struct {
	w    io.Writer // nil: silent
	line *term.Line
	name string

	mu    sync.Mutex
	shown time.Time
}

// logEvery is the distance of lines where there is no terminal.
const logEvery = 10 * time.Second

func newProgress(w io.Writer, name string, quiet bool) *progress {
	p := &progress{name: name}
	if quiet {
		return p
	}
	p.w, p.line, p.shown = w, term.NewLine(w), time.Now()
	p.print(name + ": starting")
	return p
}

// show prints how a trial stands.
func (p *progress) show(x trial.Progress) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.line.IsShown() && time.Since(p.shown) < logEvery {
		return
	}
	p.shown = time.Now()
	left := "settling"
	if x.Left > 0 {
		left = x.Left.Round(time.Second).String() + " left"
	}
	p.print(fmt.Sprintf("%s: %s, %.0f/s, sent %d, refused %d, awaited %d, dead %d", p.name, left, x.SentPerS, x.Sent, x.Refused, x.Awaited, x.Dead))
}

func (p *progress) print(text string) {
	if p.line.IsShown() {
		p.line.Set(text)
	} else {
		fmt.Fprintln(p.w, text)
	}
}

// end erases the line.
func (p *progress) end() {
	if p.w != nil {
		p.line.Set("")
	}
}
