package e2e

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"chatclub/internal/tracing/tracingtest"
)

// TestMessageCanBeFollowed searches the logs of all programs for an event's id:
// what the webhook took, core copied and the dispatchers sent is all there. It is one
// trace, too, which went over RabbitMQ.
func TestMessageCanBeFollowed(t *testing.T) {
	t.Parallel()
	collector := new(tracingtest.Collector)
	server := httptest.NewServer(collector)
	defer server.Close()
	d := deploy(t, plan{
		pages: 1, rooms: 1, users: 5, eventsPerSecond: 4, chat: 2 * time.Second, cores: 1, dispatchers: 2,
		more: map[string]string{
			"LOG_LEVEL": "debug", "LOG_FORMAT": "json", "OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_BSP_SCHEDULE_DELAY": "100",
		},
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
	queued := d.webhook.lines(t, "event queued", last.ID)
	received := d.cores[0].lines(t, "event received", last.ID)
	if len(queued) != 1 || len(received) != 1 {
		t.Errorf("event %q: queued %d times, received %d times, want once each", last.ID, len(queued), len(received))
	}
	eventually(t, "every copy of "+last.ID+" is in the dispatchers' logs", func() error {
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
	eventually(t, "the trace of "+last.ID+" is whole", func() error { return checkTrace(t, collector, last) })
}

// checkTrace returns nil if an event and its copies are one trace, in which every
// span's parent is the one that made it.
func checkTrace(t *testing.T, c *tracingtest.Collector, event line) error {
	t.Helper()
	spans, err := c.Spans()
	if err != nil {
		t.Fatal(err)
	}
	byID := make(map[string]tracingtest.Span, len(spans))
	for _, s := range spans {
		byID[s.Trace+s.ID] = s
	}
	whole := 0
	for _, s := range spans {
		if s.Service != "dispatcher" || s.Kind != "client" {
			continue
		}
		var way []string
		var copied, taken string
		for at, ok := s, true; ok; at, ok = byID[at.Trace+at.Parent] {
			way = append(way, at.Service+" "+at.Kind)
			switch at.Service + " " + at.Kind {
			case "dispatcher consumer":
				copied = at.Attributes["messaging.message.id"]
			case "core consumer":
				taken = at.Attributes["messaging.message.id"]
			}
		}
		const want = "dispatcher client < dispatcher consumer < core producer < core consumer < webhook producer < webhook server"
		if strings.HasPrefix(copied, event.ID+"/") && taken == event.ID && strings.Join(way, " < ") == want {
			whole++
		}
	}
	if whole != event.Copies {
		return fmt.Errorf("%d calls for its copies, want %d", whole, event.Copies)
	}
	return nil
}

// line is what TestMessageCanBeFollowed reads of a line of a log.
type line struct {
	Msg, ID, Outcome string
	Copies, Attempt  int
	Age              string
}

// lines returns the lines of a process's log about what has an id that begins so.
func (p *process) lines(t *testing.T, msg, id string) []line {
	t.Helper()
	p.mu.Lock()
	text := p.stderr.String() + p.stdout.String()
	p.mu.Unlock()
	var all []line
	for s := range strings.Lines(text) {
		var l line
		if !strings.HasSuffix(s, "\n") || !strings.Contains(s, msg) {
			continue
		}
		if err := json.Unmarshal([]byte(s), &l); err != nil {
			t.Fatalf("%s logs %q: %v", p.name, s, err)
		}
		if l.Msg == msg && strings.HasPrefix(l.ID, id) {
			all = append(all, l)
		}
	}
	return all
}
