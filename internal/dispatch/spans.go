package dispatch

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
	"chatclub/internal/sender"
	"chatclub/internal/tracing"
)

// Every attempt to send a message is a span, from when the message came here, or its
// last attempt ended, to the end of the call: what lies before the call's own span is
// the wait. A span is made only once the call is, so that messages that wait cost
// nothing, however many they are.

// send makes a call.
func (d *Dispatcher) send(ctx context.Context, c *call) sender.Result {
	if d.Tracer == nil {
		return d.Sender.Send(ctx, *c.out)
	}
	ctx, spans := d.beginSpans(ctx, c)
	result := d.Sender.Send(ctx, *c.out)
	d.endSpans(c, spans, result)
	return result
}

// beginSpans begins a span for each message of a call that has a sampled trace. The
// request is made in the first one's.
func (d *Dispatcher) beginSpans(ctx context.Context, c *call) (context.Context, []tracing.Span) {
	var spans []tracing.Span
	for _, m := range c.msgs {
		begun := m.waitsSince()
		_, span := d.Tracer.Process(ctx, m.delivery, m.source.queue, begun)
		if !span.Recorded() {
			continue
		}
		span.SetString("chatclub.page", m.out.Page)
		span.SetString("chatclub.class", string(m.out.Class))
		span.SetInt("chatclub.attempt", m.out.Attempts+1)
		span.SetSeconds("chatclub.wait", c.began.Sub(begun))
		span.SetSeconds("chatclub.age", m.out.Age(c.began))
		span.SetInt("chatclub.joined", len(c.msgs))
		if spans = append(spans, span); len(spans) > 1 {
			span.Link(spans[0])
		}
	}
	if len(spans) > 0 {
		ctx = spans[0].Context(ctx)
	}
	return ctx, spans
}

// endSpans ends the spans of a call with its outcome.
func (d *Dispatcher) endSpans(c *call, spans []tracing.Span, r sender.Result) {
	if len(spans) == 0 {
		return
	}
	for _, span := range spans {
		outcome := r.Outcome.String()
		span.SetString("chatclub.outcome", outcome)
		switch dispositionOf(r).do {
		case acknowledge:
		case keep, slowDown: // it waits until its page, or the API, takes calls
			span.Event("put back", r.CodeString())
		case giveBack:
			span.Event("left to another dispatcher", "")
		case tryAgain, discard:
			span.SetString("chatclub.code", r.CodeString())
			span.Fail(outcome)
		}
		span.End()
	}
	now := d.Now().UnixNano()
	for _, m := range c.msgs { // whose turn it is again only after this
		m.calledAt = now
	}
}

// waitsSince returns when the message came here, or its last traced call ended.
func (m *held) waitsSince() time.Time {
	if m.calledAt != 0 {
		return time.Unix(0, m.calledAt)
	}
	return m.since
}

// spanMove records that a message went to another queue.
func (d *Dispatcher) spanMove(t move, to queue.Message) {
	span := d.Tracer.Move(t.m.delivery, t.m.source.queue, t.m.waitsSince())
	if !span.Recorded() {
		return
	}
	span.SetString("chatclub.page", t.m.out.Page)
	span.SetString("chatclub.moved_to", to.Queue)
	span.SetSeconds("chatclub.delay", to.Delay)
	if t.to.reason != "" && to.Delay == 0 {
		span.Fail(string(t.to.reason))
	}
	span.End()
}

// observeAge notes how old a message is that was sent. Its trace, if it is sampled,
// becomes an exemplar. The id of the copy does not: it names a person, and has more
// than the 128 characters that an exemplar may have.
func (d *Dispatcher) observeAge(m *held, now time.Time) {
	age := m.out.Age(now).Seconds()
	if id := d.Tracer.TraceID(m.delivery.Headers); id != "" {
		if h, ok := d.metrics.age.(prometheus.ExemplarObserver); ok {
			h.ObserveWithExemplar(age, prometheus.Labels{"trace_id": id})
			return
		}
	}
	d.metrics.age.Observe(age)
}
