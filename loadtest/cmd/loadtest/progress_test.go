package main

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/term"
	"chatclub/loadtest/report"
	"chatclub/loadtest/trial"
)

// Without a terminal each run is a row as soon as it has ended; one alone has its
// table at once.
func TestRowsAsRunsEnd(t *testing.T) {
	t.Parallel()
	r := virtual(t, time.Hour, "compare", "saturate", "-replicas", "1", "-duration", "4s", "-limit", "30", "-strategies", "chatclub,naive")
	rows := strings.Split(r.err, "\n")
	if len(rows) != 4 || rows[0] != "2 runs, about 0:16" || !strings.HasPrefix(rows[1], "1 of 2  chatclub: quota ") || !strings.HasPrefix(rows[2], "2 of 2  naive: quota ") {
		t.Errorf("rows = %q, want how long both take, chatclub and naive", rows)
	}
	if r := virtual(t, time.Hour, "run", "saturate", "-replicas", "1", "-duration", "4s", "-limit", "30"); r.err != "" {
		t.Errorf("rows of one run = %q, want none", r.err)
	}
}

// The time left is of what is still to run, as slow as what ran.
func TestProgressTellsTheTimeLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := trial.Plan{Length: 16 * time.Second} // takes 20 s
		p := &progress{rows: io.Discard, line: &term.Line{}, runs: 3, rest: time.Minute}
		for _, step := range []struct {
			after time.Duration
			want  string
		}{
			{5 * time.Second, "1 of 3, 0:55 left  chatclub: "},
			{10 * time.Second, "2 of 3, 0:50 left  chatclub: "}, // the first took 30 s
			{time.Second, "3 of 3, 0:29 left  chatclub: "},
		} {
			p.begin("chatclub", plan)
			time.Sleep(step.after)
			p.mu.Lock()
			got := p.standLocked()
			p.mu.Unlock()
			if got != step.want {
				t.Errorf("after %v: %q, want %q", step.after, got, step.want)
			}
			time.Sleep(30*time.Second - step.after)
			p.end(&report.Run{})
		}
	})
}
