package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"chatclub/tools/program"
)

// TestMessageCanBeFollowed searches the logs of all programs for an event's id:
// webhook's, core's and the dispatchers' lines are all there.
func TestMessageCanBeFollowed(t *testing.T) {
	t.Parallel()
	d := deploy(t, plan{
		pages: 1, rooms: 1, users: 5, eventsPerSecond: 4, chat: 2 * time.Second, cores: 1, dispatchers: 2,
		more: map[string]string{"LOG_LEVEL": "debug", "LOG_FORMAT": "json"},
	})
	checkComplete(t, d.settle(t), 0)

	var last line
	for _, l := range d.cores[0].lines(t, "event copied", "") {
		if l.Copies == 4 { // one for each of the others
			last = l
		}
	}
	if last.ID == "" {
		t.Fatal("core's log names no event with 4 copies")
	}
	var queued, received []line
	program.Eventually(t, last.ID+" is in the logs of webhook and core", func() error {
		queued, received = d.webhook.lines(t, "event queued", last.ID), d.cores[0].lines(t, "event received", last.ID)
		if len(queued) == 0 || len(received) == 0 {
			return fmt.Errorf("queued %d times, received %d times", len(queued), len(received))
		}
		return nil
	})
	if len(queued) != 1 || len(received) != 1 {
		t.Errorf("event %q: queued %d times, received %d times, want once each", last.ID, len(queued), len(received))
	}
	program.Eventually(t, "every copy of "+last.ID+" is in the dispatchers' logs", func() error {
		sent := 0
		for _, p := range d.dispatchers {
			for _, l := range p.lines(t, "message called", last.ID+"/") {
				if l.Outcome != "sent" {
					continue
				}
				sent++
				if age, err := time.ParseDuration(l.Age); l.Attempt != 1 || err != nil || age <= 0 {
					t.Errorf("copy %q: attempt %d, age %q, want 1 and more than 0s", l.ID, l.Attempt, l.Age)
				}
			}
		}
		if sent != last.Copies {
			return fmt.Errorf("%d copies of %d", sent, last.Copies)
		}
		return nil
	})
}

// line is the part of a log line that TestMessageCanBeFollowed reads.
type line struct {
	Msg, ID, Outcome string
	Copies, Attempt  int
	Age              string
}

// lines returns the lines of a process's log about ids that begin so.
func (p *process) lines(t *testing.T, msg, id string) []line {
	t.Helper()
	var all []line
	for s := range strings.Lines(p.Log()) {
		var l line
		if !strings.HasSuffix(s, "\n") || !strings.Contains(s, msg) {
			continue
		}
		if err := json.Unmarshal([]byte(s), &l); err != nil {
			t.Fatalf("%s logs %q: %v", p.Name, s, err)
		}
		if l.Msg == msg && strings.HasPrefix(l.ID, id) {
			all = append(all, l)
		}
	}
	return all
}
