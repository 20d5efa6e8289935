package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"chatclub/internal/loadtest/trial"
)

// progress is one line on a terminal that is written over, or a line every few
// seconds elsewhere.
type progress struct {
	w        io.Writer // nil: silent
	name     string
	terminal bool

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
	p.w = w
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	p.shown = time.Now()
	if p.terminal {
		fmt.Fprintf(w, "%s: starting", name)
	} else {
		fmt.Fprintf(w, "%s: starting\n", name)
	}
	return p
}

// show prints how a trial stands.
func (p *progress) show(x trial.Progress) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal && time.Since(p.shown) < logEvery {
		return
	}
	p.shown = time.Now()
	left := "settling"
	if x.Left > 0 {
		left = x.Left.Round(time.Second).String() + " left"
	}
	line := fmt.Sprintf("%s: %s, %.0f/s, sent %d, refused %d, awaited %d, dead %d", p.name, left, x.SentPerS, x.Sent, x.Refused, x.Awaited, x.Dead)
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
	} else {
		fmt.Fprintln(p.w, line)
	}
}

// end leaves the line.
func (p *progress) end() {
	if p.w != nil && p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
