package core

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/tracing/tracingtest"
)

// What core makes of an event goes on with the event's trace. An event without a trace begins none.
func TestTraceGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const events, trace, parent = 24, "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		var collector tracingtest.Collector
		b := newBroker(t)
		tracer := collector.Start(t, b.Topology())
		r := newRigOn(t, b, newStore(t, "sqlite::memory:"), func(c *Config) { c.Prefetch, c.Tracer = 16, tracer })
		r.slow(100 * time.Millisecond)
		r.say(t, text("1", "untraced-1", "hi"), text("2", "untraced-2", "hi"))
		for _, ev := range chatter(events) {
			body, err := ev.Encode()
			if err != nil {
				t.Fatal(err)
			}
			headers := map[string]string{message.HeaderTrace: "00-" + trace + "-" + parent + "-01"}
			msg := queue.Message{Queue: b.Topology().InboundOf(ev.Page), ID: ev.Page + "/" + ev.ID, Body: body, Headers: headers}
			if ev.ID == "bad" {
				msg.Body = []byte("{")
			}
			if err := b.Publish(t.Context(), msg); err != nil {
				t.Fatal(err)
			}
		}
		stop := r.start(t)
		time.Sleep(30 * time.Second)
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		if err := tracer.Close(); err != nil {
			t.Fatal(err)
		}
		spans, err := collector.Spans()
		if err != nil {
			t.Fatal(err)
		}
		processed, sent, failed := make(map[string]bool), make(map[string]bool), 0
		for _, s := range spans {
			if s.Trace != trace {
				t.Fatalf("span %q is of trace %s, want %s alone", s.Name, s.Trace, trace)
			}
			if s.Kind == "consumer" {
				if s.Parent != parent {
					t.Errorf("parent of %q = %s, want the event's, %s", s.Name, s.Parent, parent)
				}
				processed[s.ID] = true
				if s.Error == string(message.ReasonUndecodable) {
					failed++
				} else if s.Attributes["chatclub.page"] != "p" || s.Attributes["chatclub.event"] != "message" || s.Error != "" {
					t.Errorf("span = %+v, want page p, event message, and no error", s)
				}
			}
		}
		for _, s := range spans {
			if s.Kind == "producer" {
				sent[s.ID] = true
				if !processed[s.Parent] || s.Attributes["messaging.batch.message_count"] != "1" {
					t.Errorf("span = %+v, want the parent to be an event's, and 1 message", s)
				}
			}
		}
		if len(processed) != events+1 || len(sent) != events || failed != 1 {
			t.Errorf("spans: %d events and %d times copies, %d failed, want %d, %d and 1",
				len(processed), len(sent), failed, events+1, events)
		}
		with := 0
		for _, m := range take(t, b, b.Topology().Outbound(0)) {
			if strings.Contains(m.ID, "untraced") {
				if len(m.Headers) != 0 {
					t.Errorf("copy %s of an event without a trace has headers %v", m.ID, m.Headers)
				}
				continue
			}
			part := strings.Split(m.Headers[message.HeaderTrace], "-")
			if len(part) != 4 || part[1] != trace || !sent[part[2]] {
				t.Errorf("copy %s has headers %v, want the span that sent it", m.ID, m.Headers)
			}
			with++
		}
		if with != events {
			t.Errorf("copies in the trace = %d, want %d", with, events)
		}
	})
}

// chatter is n texts of two members in turn, and a message that is no event.
func chatter(n int) (list []message.Event) {
	for i := range n {
		list = append(list, text([]string{"1", "2"}[i%2], "m"+strings.Repeat("i", i), "hello"))
	}
	return append(list, text("1", "bad", ""))
}
