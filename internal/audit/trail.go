// Package audit writes down what is done at the doors for operators, and who is refused
// there. It guarantees that
//
//   - each request that changes something leaves a line with who made it, from where, what
//     it was about, and how it ended;
//   - no flood of requests becomes a flood of lines.
package audit

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// sumEvery is the period of the lines about requests that are many.
	sumEvery = time.Minute
	// maxSums bounds the addresses that have a line of their own in one period.
	maxSums = 64
	// maxPath is the longest part of a path in a line: two ids of 512 bytes, and the words.
	maxPath = 1100
)

// Trail writes the lines. NewTrail makes one. Safe for concurrent use.
type Trail struct {
	log *slog.Logger

	mu   sync.Mutex
	sums map[sumKey]*sum
}

// sumKey has the requests that one line sums up.
type sumKey struct {
	path, who, from string
	status          int
}

// sum counts requests, and the numbers of their notes.
type sum struct {
	requests int
	numbers  map[string]int64
}

// NewTrail returns a Trail. log may be nil: then nothing is written.
func NewTrail(log *slog.Logger) *Trail {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Trail{log: log, sums: make(map[sumKey]*sum)}
}

// notesKey is the key of a request's notes in its context.
type notesKey struct{}

// notes are what a request was about.
type notes struct {
	mu    sync.Mutex
	attrs []slog.Attr
}

// Note adds to the line of a request what the request was about, such as its page or a
// count. No text of a user may be in it. Without a Trail around the request, Note does
// nothing.
func Note(ctx context.Context, about ...slog.Attr) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.attrs = append(n.attrs, about...)
	}
}

// Changes reports whether a request can change something.
func Changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}

// Serve has next answer a request, and writes the line of one that can change something.
// who names the token or the like. Requests that are many have one line a minute.
// A request that next answers 401 or 429 was refused: Wrong tells of it.
func (t *Trail) Serve(w http.ResponseWriter, r *http.Request, who string, many bool, next http.Handler) {
	if !Changes(r) {
		next.ServeHTTP(w, r)
		return
	}
	n, answer := new(notes), &recorder{ResponseWriter: w}
	ended, wanted := false, t.log.Enabled(r.Context(), slog.LevelInfo) // before next changes the level
	defer func() {
		status := answer.status
		switch {
		case status == 0 && ended:
			status = http.StatusOK
		case status == 0: // next panics
			status = http.StatusInternalServerError
		case !many && (status == http.StatusUnauthorized || status == http.StatusTooManyRequests):
			return
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if many {
			t.add(sumKey{path: r.URL.Path, who: who, from: Address(r), status: status}, n.attrs)
			return
		}
		if wanted {
			t.line(r, who, status, n.attrs)
		}
	}()
	next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), notesKey{}, n)))
	ended = true
}

// line writes the line of a request.
func (t *Trail) line(r *http.Request, who string, status int, about []slog.Attr) {
	line := slog.NewRecord(time.Now(), slog.LevelInfo, "operator's request", 0)
	line.AddAttrs(
		slog.String("method", r.Method), slog.String("path", r.URL.Path[:min(len(r.URL.Path), maxPath)]),
		slog.String("who", who), slog.String("from", r.RemoteAddr), slog.Int("status", status),
	)
	line.AddAttrs(about...)
	_ = t.log.Handler().Handle(context.WithoutCancel(r.Context()), line) // as a Logger does
}

// add adds a request to the next line about those like it.
func (t *Trail) add(k sumKey, about []slog.Attr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sums[k] == nil {
		if len(t.sums) == 0 {
			time.AfterFunc(sumEvery, t.Flush)
		}
		if len(t.sums) >= maxSums {
			k.from = "others"
		}
	}
	s := t.sums[k]
	if s == nil {
		s = &sum{numbers: make(map[string]int64)}
		t.sums[k] = s
	}
	s.requests++
	for _, a := range about {
		if a.Value.Kind() == slog.KindInt64 {
			s.numbers[a.Key] += a.Value.Int64()
		}
	}
}

// Flush writes the lines about requests that are many, which otherwise wait for the end of
// their minute.
func (t *Trail) Flush() {
	t.mu.Lock()
	sums := t.sums
	t.sums = make(map[sumKey]*sum)
	t.mu.Unlock()
	for k, s := range sums {
		attrs := []slog.Attr{
			slog.String("path", k.path), slog.String("who", k.who), slog.String("from", k.from),
			slog.Int("status", k.status), slog.Int("requests", s.requests),
		}
		for _, name := range slices.Sorted(maps.Keys(s.numbers)) {
			attrs = append(attrs, slog.Int64(name, s.numbers[name]))
		}
		t.log.LogAttrs(context.Background(), slog.LevelInfo, "requests of the last minute", attrs...)
	}
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int // 0: none yet
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
