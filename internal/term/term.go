// Package term keeps one line at the bottom of a terminal up to date. Lines that
// are printed while it is shown stand above it, whole.
//
// Where there is no terminal the line is not shown at all: a log has no use for
// what is written over.
package term

import (
	"io"
	"os"
	"strings"
	"sync"
)

// Escape sequences of every terminal since the VT100. A line that is longer than
// the terminal is wide is cut off there, because what has wrapped cannot be
// written over.
const (
	erase    = "\r\x1b[K"
	wrapOff  = "\x1b[?7l"
	wrapOn   = "\x1b[?7h"
	lineEnds = "\r\n"
)

// Line is one line that is written over. It may be used from several goroutines
// at once. The zero value shows nothing.
type Line struct {
	w io.Writer // nil: there is no terminal

	mu   sync.Mutex
	text string // the shown text
}

// NewLine returns a line on w, which shows nothing if w is no terminal.
func NewLine(w io.Writer) *Line {
	l := &Line{}
	if isTerminal(w) {
		l.w = w
	}
	return l
}

// isTerminal reports whether w is a terminal that knows the escape sequences.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// IsShown reports whether there is a terminal to show the line.
func (l *Line) IsShown() bool { return l.w != nil }

// Set shows text, which is one line, in place of the last text. An empty text erases it:
// a program erases its line before it ends.
func (l *Line) Set(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.eraseLocked()
	l.text = strings.Trim(text, lineEnds)
	l.showLocked()
}

// Above returns a writer to w that keeps the line below the written text. Each
// Write must be of whole lines. w may be another stream of the same terminal.
func (l *Line) Above(w io.Writer) io.Writer { return above{l, w} }

type above struct {
	line *Line
	to   io.Writer
}

// Write implements io.Writer.
func (a above) Write(p []byte) (int, error) {
	a.line.mu.Lock()
	defer a.line.mu.Unlock()
	a.line.eraseLocked()
	defer a.line.showLocked()
	return a.to.Write(p)
}

// A terminal that cannot be written to shows nothing, which is no error of what
// the program does.

func (l *Line) eraseLocked() {
	if l.w != nil && l.text != "" {
		_, _ = io.WriteString(l.w, erase)
	}
}

func (l *Line) showLocked() {
	if l.w != nil && l.text != "" {
		_, _ = io.WriteString(l.w, erase+wrapOff+l.text+wrapOn)
	}
}
