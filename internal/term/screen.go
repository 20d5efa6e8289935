package term

import (
	"io"
	"strings"
)

// Escape sequences: to the upper left corner, and clear to the screen's end.
const (
	home      = "\x1b[H"
	clearRest = "\x1b[J"
)

// Screen is a whole terminal that is written over again and again. The zero value
// shows nothing. It belongs to one goroutine.
type Screen struct {
	w io.Writer // nil: there is no terminal
}

// NewScreen returns the screen of w, which shows nothing if w is no terminal.
func NewScreen(w io.Writer) *Screen {
	if isTerminal(w) {
		return &Screen{w: w}
	}
	return &Screen{}
}

// IsShown reports whether there is a terminal to show anything.
func (s *Screen) IsShown() bool { return s.w != nil }

// Show shows lines of text in place of all that was shown. What is wider than the
// terminal is cut off.
func (s *Screen) Show(text string) {
	if s.w == nil {
		return
	}
	text = strings.ReplaceAll(text, "\n", erase[1:]+"\n")          // what was there may have been longer
	_, _ = io.WriteString(s.w, wrapOff+home+text+clearRest+wrapOn) // a terminal that cannot be written to shows nothing
}
