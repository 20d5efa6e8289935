package service

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// bufferedLines is the most log lines that wait to be written: 1 MiB at 250 bytes each,
	// a second of the busiest program at debug.
	bufferedLines = 4096
	// lastLines bounds the writing of the lines that wait when a log is closed.
	lastLines = time.Second
)

// Log is a logger that never waits for the reader of its lines: one goroutine writes
// them, and a line for which the buffer has no room is dropped and counted. The next line
// that is written is followed by one that says how many were dropped. OpenLog makes a Log.
// Safe for concurrent use.
type Log struct {
	*slog.Logger
	Level *LogLevel
	lines *lines
}

// DroppedLines registers the counter of the lines that OpenLog's log drops.
func DroppedLines(reg prometheus.Registerer) prometheus.Counter {
	dropped := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "chatclub_log_dropped_lines_total",
		Help: "Log lines that were dropped, because nobody read those before them, or because they could not be written.",
	})
	reg.MustRegister(dropped)
	return dropped
}

// OpenLog returns a log that writes to w, and counts in dropped. The caller closes it.
func OpenLog(s LogSettings, w io.Writer, dropped prometheus.Counter) *Log {
	l := &lines{
		out: w, queue: make(chan []byte, bufferedLines), dropped: dropped,
		closing: make(chan struct{}), ended: make(chan struct{}),
	}
	log, level := NewLogger(s, l)
	direct, _ := NewLogger(s, w)
	l.notice = direct.Handler()
	go l.run()
	return &Log{Logger: log, Level: level, lines: l}
}

// Close writes the lines that wait, for a second at most, and drops all later ones. It
// returns nil. Idempotent.
func (l *Log) Close() error {
	l.lines.once.Do(func() { close(l.lines.closing) })
	select {
	case <-l.lines.ended:
	case <-time.After(lastLines): // the goroutine ends when its write does, or with the process
	}
	return nil
}

// lines passes the lines that are written to it on to out. Write never waits.
type lines struct {
	out     io.Writer
	notice  slog.Handler // writes to out
	queue   chan []byte
	dropped prometheus.Counter
	untold  atomic.Int64 // dropped lines of which the log does not say yet

	once    sync.Once
	closing chan struct{}
	ended   chan struct{}
}

// Write implements io.Writer. A handler of slog calls it once for each line.
func (l *lines) Write(line []byte) (int, error) {
	select {
	case <-l.closing:
		l.dropped.Inc()
		return len(line), nil
	default:
	}
	select {
	case l.queue <- append([]byte(nil), line...): // the handler uses its buffer again
	default:
		l.drop()
	}
	return len(line), nil
}

// run writes until the log is closed.
func (l *lines) run() {
	defer close(l.ended)
	for {
		select {
		case line := <-l.queue:
			l.write(line)
		case <-l.closing:
			l.flush()
			return
		}
	}
}

// flush writes what waits.
func (l *lines) flush() {
	for {
		select {
		case line := <-l.queue:
			l.write(line)
		default:
			return
		}
	}
}

// write writes one line, and then how many were dropped since the last one.
func (l *lines) write(line []byte) {
	if _, err := l.out.Write(line); err != nil {
		l.drop()
		return
	}
	n := l.untold.Swap(0)
	if n == 0 {
		return
	}
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines were dropped, because nobody read the log", 0)
	r.AddAttrs(slog.Int64("lines", n))
	if l.notice.Handle(context.Background(), r) != nil {
		l.untold.Add(n)
	}
}

func (l *lines) drop() {
	l.untold.Add(1)
	l.dropped.Inc()
}
