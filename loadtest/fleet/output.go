package fleet

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// lines logs what a child writes on standard error, line by line. It serves one
// writer.
type lines struct {
	log  *slog.Logger
	kind string
	rest []byte // of a line that is not complete
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		l.log.Warn("said by a child process", "kind", l.kind, "line", string(line))
		l.rest = rest
	}
}

// end logs a last line without an end.
func (l *lines) end() {
	if len(l.rest) > 0 {
		_, _ = l.Write([]byte("\n")) // never fails
	}
}

// tail keeps the end of what a child writes on standard error.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b) - tailBytes; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}
