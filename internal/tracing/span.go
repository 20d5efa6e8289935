package tracing

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// Span is one piece of work in a trace. The zero value is not recorded, and its methods
// do nothing.
type Span struct{ otel trace.Span }

// Recorded reports whether the span is recorded: for work that is done for it alone.
func (s Span) Recorded() bool { return s.otel != nil }

// recorded returns the span if it is sampled.
func recorded(s trace.Span) Span {
	if !s.IsRecording() {
		return Span{}
	}
	return Span{s}
}

// Request begins a trace, with the span of a signed request to route that came at
// begun. The request's own traceparent is not used: those outside shall not decide
// what is recorded here.
func (t *Tracer) Request(ctx context.Context, route string, begun time.Time) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, http.MethodPost+" "+route, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(begun), trace.WithAttributes(
			semconv.HTTPRequestMethodPost, semconv.HTTPRoute(route), semconv.URLPath(route),
		))
	return ctx, recorded(s)
}

// Send is the span of publishing n messages, in the trace of ctx. to is the queue of
// the first.
func (t *Tracer) Send(ctx context.Context, to string, n int) Span {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return Span{}
	}
	return t.send(ctx, to, n)
}

// SendNew is Send for messages that follow from no other: it begins a trace.
func (t *Tracer) SendNew(ctx context.Context, to string, n int) Span {
	if t == nil {
		return Span{}
	}
	return t.send(ctx, to, n, trace.WithNewRoot())
}

func (t *Tracer) send(ctx context.Context, to string, n int, options ...trace.SpanStartOption) Span {
	attrs := append(t.messaging("send", semconv.MessagingOperationTypeSend, to), semconv.MessagingBatchMessageCount(n))
	_, s := t.tracer.Start(ctx, "send "+t.template(to), append(options,
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attrs...))...)
	return recorded(s)
}

// Inject has the messages tell of the span, whose children their consumers' spans
// become. Messages may share their headers, which are not changed from then on.
func (s Span) Inject(msgs []queue.Message) {
	if s.otel == nil {
		return
	}
	sc := s.otel.SpanContext()
	// Version 00, as propagation.TraceContext writes it; what is recorded is sampled.
	headers := map[string]string{message.HeaderTrace: "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"}
	for i := range msgs {
		if len(msgs[i].Headers) == 0 {
			msgs[i].Headers = headers
		} else {
			msgs[i].Headers[message.HeaderTrace] = headers[message.HeaderTrace]
		}
	}
}

// parent returns the span that a message's headers tell of, if it is sampled.
func parent(headers map[string]string) (trace.SpanContext, bool) {
	if headers[message.HeaderTrace] == "" {
		return trace.SpanContext{}, false
	}
	s := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(headers)))
	return s, s.IsSampled()
}

// TraceID returns the id of the trace that a message's headers tell of; "" if there is
// none, or t is off.
func (t *Tracer) TraceID(headers map[string]string) string {
	if t == nil {
		return ""
	}
	p, ok := parent(headers)
	if !ok {
		return ""
	}
	return p.TraceID().String()
}

// Process is the span of handling a delivery since begun, in the trace of its message;
// from is the queue that it was taken from. A message without a sampled trace has none.
func (t *Tracer) Process(ctx context.Context, d *queue.Delivery, from string, begun time.Time) (context.Context, Span) {
	return t.consume(ctx, operation{"process", semconv.MessagingOperationTypeProcess, trace.SpanKindConsumer}, d, from, begun)
}

// Move is Process for a message that was not handled: it went to
// another queue.
func (t *Tracer) Move(d *queue.Delivery, from string, begun time.Time) Span {
	_, s := t.consume(context.Background(), operation{"move", semconv.MessagingOperationTypeSettle, trace.SpanKindClient}, d, from, begun)
	return s
}

// operation is an operation with a message, as spans name it.
type operation struct {
	name string
	kind attribute.KeyValue
	role trace.SpanKind
}

func (t *Tracer) consume(ctx context.Context, op operation, d *queue.Delivery, from string, begun time.Time) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	p, ok := parent(d.Headers)
	if !ok {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, p), op.name+" "+t.template(from), trace.WithSpanKind(op.role),
		trace.WithTimestamp(begun), trace.WithAttributes(append(t.messaging(op.name, op.kind, from), semconv.MessagingMessageID(d.ID))...))
	return ctx, recorded(s)
}

// Call is the span of a request of ours to another server, in the trace of its
// context. template is the path without its variable parts.
func (t *Tracer) Call(req *http.Request, template string) Span {
	if t == nil || !trace.SpanFromContext(req.Context()).IsRecording() {
		return Span{}
	}
	attrs := []attribute.KeyValue{
		semconv.HTTPRequestMethodPost, semconv.ServerAddress(req.URL.Hostname()), semconv.URLTemplate(template),
		semconv.URLFull(req.URL.String()), // without user and query: those have no place in GRAPH_URL
	}
	if port := portOf(req); port != 0 {
		attrs = append(attrs, semconv.ServerPort(port))
	}
	_, s := t.tracer.Start(req.Context(), req.Method+" "+template, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	return recorded(s)
}

// messaging returns the attributes that all spans about a queue have.
func (t *Tracer) messaging(name string, kind attribute.KeyValue, of string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		semconv.MessagingSystemKey.String(t.system), semconv.MessagingOperationName(name), kind, semconv.MessagingDestinationName(of),
	}
	if template := t.template(of); template != of {
		attrs = append(attrs, semconv.MessagingDestinationTemplate(template))
	}
	return attrs
}

// template returns a queue's name without the part that differs in the queues of its kind:
// names of spans must be few.
func (t *Tracer) template(name string) string {
	kind, ours := strings.CutPrefix(name, t.prefix)
	if !ours {
		return name
	}
	kind, rest, _ := strings.Cut(kind, ".")
	if rest == "" || kind == "retry" { // of which there are few
		return name
	}
	return t.prefix + kind + ".{number}"
}

// Context returns ctx with the span, for spans below it.
func (s Span) Context(ctx context.Context) context.Context {
	if s.otel == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.otel)
}

// SetString adds an attribute.
func (s Span) SetString(key, value string) {
	if s.otel != nil {
		s.otel.SetAttributes(attribute.String(key, value))
	}
}

// SetInt adds an attribute.
func (s Span) SetInt(key string, value int) {
	if s.otel != nil {
		s.otel.SetAttributes(attribute.Int(key, value))
	}
}

// SetSeconds adds an attribute, in seconds.
func (s Span) SetSeconds(key string, value time.Duration) {
	if s.otel != nil {
		s.otel.SetAttributes(attribute.Float64(key, value.Seconds()))
	}
}

// Event notes that something happened now. code says what more is known; it may be
// empty.
func (s Span) Event(name, code string) {
	if s.otel != nil {
		s.otel.AddEvent(name, trace.WithAttributes(attribute.String("chatclub.code", code)))
	}
}

// Link says that the work was also done for the other span's trace.
func (s Span) Link(other Span) {
	if s.otel != nil && other.otel != nil {
		s.otel.AddLink(trace.Link{SpanContext: other.otel.SpanContext()})
	}
}

// Status notes the HTTP status of an answer, or of a request's own.
func (s Span) Status(code int) {
	if s.otel != nil {
		s.otel.SetAttributes(semconv.HTTPResponseStatusCode(code))
	}
}

// Fail notes that the work failed. kind is the error's class, of a closed set.
func (s Span) Fail(kind string) {
	if s.otel != nil {
		s.otel.SetAttributes(semconv.ErrorTypeKey.String(kind))
		s.otel.SetStatus(codes.Error, kind)
	}
}

// End ends the span. Nothing is added to it from then on.
func (s Span) End() {
	if s.otel != nil {
		s.otel.End()
	}
}

// portOf returns the port that a request goes to, 0 if its URL has none that is known.
func portOf(req *http.Request) int {
	port, err := strconv.Atoi(req.URL.Port())
	switch {
	case err == nil:
		return port
	case req.URL.Scheme == "https":
		return 443
	case req.URL.Scheme == "http":
		return 80
	}
	return 0
}
