package service

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// pipe is an output that somebody reads, or that nobody does: then a write waits, as one
// to a full pipe.
type pipe struct {
	read chan struct{} // closed once somebody reads
	err  error         // of each write
	got  bytes.Buffer
}

func (p *pipe) Write(b []byte) (int, error) {
	<-p.read
	if p.err != nil {
		return 0, p.err
	}
	return p.got.Write(b)
}

// TestLogThatNobodyReads: a logger goes on while its lines cannot be written. What does
// not fit is counted, and told once the lines are read again.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all = bufferedLines + 101
		out, reg := &pipe{read: make(chan struct{})}, prometheus.NewRegistry()
		dropped := DroppedLines(reg)
		log := OpenLog(LogSettings{}, out, dropped)
		for i := range all {
			log.Info("line", "n", i)
			if i == 0 {
				synctest.Wait() // the writer has the first one in hand
			}
		}
		if got := testutil.ToFloat64(dropped); got != 100 {
			t.Errorf("dropped lines = %v, want 100", got)
		}
		close(out.read)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(out.got.String()), "\n")
		if got, want := len(lines), all-100+1; got != want {
			t.Fatalf("the log has %d lines, want %d", got, want)
		}
		if !strings.Contains(lines[1], "level=WARN") || !strings.HasSuffix(lines[1], " lines=100") {
			t.Errorf("the second line is %q, want a WARN that 100 were dropped", lines[1])
		}
		if want := fmt.Sprintf("n=%d", all-101); !strings.HasSuffix(lines[len(lines)-1], want) {
			t.Errorf("the last line is %q, want %s: the newest are dropped", lines[len(lines)-1], want)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLogIsWrittenAtTheEnd: Close writes what waits, and is bounded where nobody reads.
func TestLogIsWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		read time.Duration // when somebody begins to read
		err  error         // of a write then
		want time.Duration // of Close
		line bool
	}{
		{"at once", 0, nil, 0, true},
		{"soon", lastLines / 2, nil, lastLines / 2, true},
		{"too late", 2 * lastLines, nil, lastLines, true}, // the process has ended by then
		{"reader gone", 0, errors.New("broken pipe"), 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			out := &pipe{read: make(chan struct{}), err: row.err}
			log := OpenLog(LogSettings{Format: LogJSON}, out, DroppedLines(prometheus.NewRegistry()))
			time.AfterFunc(row.read, func() { close(out.read) })
			start := time.Now()
			log.Info("the end")
			if err := log.Close(); err != nil {
				t.Error(err)
			}
			if got := time.Since(start); got != row.want {
				t.Errorf("%s: Close took %v, want %v", row.name, got, row.want)
			}
			time.Sleep(2 * lastLines)
			synctest.Wait()
			if got := strings.Contains(out.got.String(), "the end"); got != row.line {
				t.Errorf("%s: the line is written: %v, want %v", row.name, got, row.line)
			}
			log.Info("later") // after the end nothing is written, and nothing waits
		})
	}
}
