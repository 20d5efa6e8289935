package dispatch

import (
	"context"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/sender"
	"chatclub/internal/tracing/tracingtest"
)

// traceOf is the traceparent of the n-th message of a test, and the trace's id.
func traceOf(n int) (header, trace string) {
	trace = strings.Repeat("0", 30) + string("0123456789"[n/10]) + string("0123456789"[n%10])
	return "00-" + trace + "-b7ad6b7169203331-01", trace
}

// traced publishes a text to each of the recipients, each in a trace of its own, from
// number n on.
func (r *rig) traced(n int, page string, to ...string) {
	r.t.Helper()
	for i, p := range to {
		o := r.copyOf(page, message.ClassText, p)
		body, err := o.Encode()
		if err != nil {
			r.t.Fatal(err)
		}
		header, _ := traceOf(n + i)
		msg := queue.Message{
			Queue: r.top.OutboundOf(page), ID: o.ID, Body: body, Headers: map[string]string{message.HeaderTrace: header},
		}
		if err := r.broker.Publish(context.Background(), msg); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Every attempt and every move of a message is in the message's trace, with why and
// how long it waited.
func TestSpans(t *testing.T) {
	t.Parallel()
	var collector tracingtest.Collector
	inBubble(t, 1, func(c *Config) {
		c.Random, c.Tracer = half, collector.Start(t, c.Broker.Topology())
	}, func(t *testing.T, r *rig) {
		script := map[string][]sender.Outcome{ // of each page's calls in turn; then sent
			"hot":   {sender.PageThrottled},
			"flaky": {sender.Transient, sender.RecipientThrottled, sender.Transient, sender.Transient, sender.Transient},
			"gone":  {sender.RecipientGone},
		}
		r.script(func(o message.Outbound, _ int) sender.Result {
			rest := script[o.Page]
			if len(rest) == 0 {
				return sender.Result{}
			}
			script[o.Page] = rest[1:]
			return fail(rest[0])
		})
		r.text("busy", "x") // without a trace: the owner knows the partition from then on
		r.sleep(100 * time.Millisecond)
		r.traced(1, "plain", "u")
		r.traced(2, "hot", "u")
		r.traced(3, "flaky", "u")
		r.traced(4, "gone", "u")
		r.traced(5, "busy", "w", "w", "w") // two of them wait, and are joined
		r.text("plain", "v")               // without a trace
		r.sleep(time.Minute)
		r.checkExemplars(6)
		if err := r.only().Tracer.Close(); err != nil {
			t.Fatal(err)
		}
		spans, err := collector.Spans()
		if err != nil {
			t.Fatal(err)
		}
		byTrace := make(map[string][]tracingtest.Span)
		for _, s := range spans {
			byTrace[s.Trace] = append(byTrace[s.Trace], s)
		}
		if len(byTrace) != 7 {
			t.Errorf("%d traces, want those of 7 messages", len(byTrace))
		}
		for n, want := range map[int][]string{
			1: {"process 1 sent"},
			2: {"process 1 page_throttled, put back", "process 1 sent, waited"},
			3: {
				"process 1 transient!", "process 2 recipient_throttled, put back, waited", "process 2 transient!, waited",
				"process 3 transient!, waited", "process 4 transient!, waited", "move to t.outbound.NN in 10", "process 5 sent",
			},
			4: {"process 1 recipient_gone!", "move to t.dead!"},
			5: {"process 1 sent"},
			6: {"process 1 sent, waited"},
			7: {"process 1 sent, waited, linked"},
		} {
			_, trace := traceOf(n)
			var got []string
			for _, s := range byTrace[trace] {
				got = append(got, told(s))
			}
			if strings.Join(got, "; ") != strings.Join(want, "; ") {
				t.Errorf("trace %d = %q, want %q", n, got, want)
			}
		}
		r.checkTraceTravels()
	})
}

// told is a span in short: what was done, how it ended ("!" for an error), and what is
// notable.
func told(s tracingtest.Span) string {
	a := s.Attributes
	text := strings.Fields(s.Name)[0]
	if to := a["chatclub.moved_to"]; to != "" {
		if strings.HasPrefix(to, "t.outbound.") {
			to = "t.outbound.NN"
		}
		text += " to " + to
	} else {
		text += " " + a["chatclub.attempt"] + " " + a["chatclub.outcome"]
	}
	if s.Error != "" {
		text += "!"
	}
	for _, e := range s.Events {
		text += ", " + e
	}
	if w := a["chatclub.wait"]; w != "" && w != "0" {
		text += ", waited"
	}
	if len(s.Links) > 0 {
		text += ", linked"
	}
	if d := a["chatclub.delay"]; d != "" && d != "0" {
		text += " in " + d
	}
	return text
}

// checkTraceTravels: the dead letter of message 4, and the event that tells core of
// it, are in its trace.
func (r *rig) checkTraceTravels() {
	r.t.Helper()
	want, _ := traceOf(4)
	for _, name := range []string{r.top.Dead(), r.top.InboundOf("gone")} {
		list := memorytest.Drain(r.t, r.broker, name)
		if len(list) != 1 || list[0].Headers[message.HeaderTrace] != want {
			r.t.Errorf("%s has %v, want one message with traceparent %s", name, list, want)
		}
	}
}

// checkExemplars: so many buckets of the messages' age at least name a trace, and
// nothing else.
func (r *rig) checkExemplars(traces int) {
	r.t.Helper()
	families, err := r.only().reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, f := range families {
		if f.GetName() != "chatclub_dispatch_message_age_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 8 {
			r.t.Errorf("%d ages, want those of 8 messages", h.GetSampleCount())
		}
		for _, b := range h.GetBucket() {
			if x := b.GetExemplar(); x != nil {
				if len(x.GetLabel()) != 1 || x.GetLabel()[0].GetName() != "trace_id" {
					r.t.Errorf("labels of an exemplar = %v, want trace_id alone", x.GetLabel())
				}
				found[x.GetLabel()[0].GetValue()] = true
			}
		}
		for _, x := range h.GetExemplars() { // the native histogram's
			found[x.GetLabel()[0].GetValue()] = true
		}
	}
	for trace := range found {
		if _, want := traceOf(int(trace[30]-'0')*10 + int(trace[31]-'0')); trace != want {
			r.t.Errorf("exemplar of trace %q", trace)
		}
	}
	if len(found) < 2 || len(found) > traces {
		r.t.Errorf("exemplars of %d traces, want 2 to %d", len(found), traces)
	}
}
