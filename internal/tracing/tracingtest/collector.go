// Package tracingtest is an OpenTelemetry collector for tests: it takes spans by OTLP
// over HTTP, with or without a socket, and shows them.
package tracingtest

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"chatclub/internal/queue"
	"chatclub/internal/tracing"
)

// Span is a span that was taken. Ids are in hexadecimal, "" for none.
type Span struct {
	Service, Name, Kind string // the kind as server, producer, consumer or client
	Trace, ID, Parent   string
	Attributes          map[string]string // by fmt.Sprint
	Events, Links       []string          // names; ids of the spans linked to
	Error               string            // why it failed, "" for one that did not
	Begun, Ended        time.Time
}

// Collector keeps the spans that it takes. It is a handler and, for those without a
// socket, a transport. The zero value takes all. Safe for concurrent use.
type Collector struct {
	mu       sync.Mutex
	answer   int
	spans    []Span
	requests []*http.Request
	faults   []error
}

// Start returns a tracer whose spans end up in c, all of them. The test closes it and
// then looks at Spans.
func (c *Collector) Start(t testing.TB, top queue.Topology) *tracing.Tracer {
	t.Helper()
	// Not the test's context, which may be that of a test outside the bubble.
	tracer, err := tracing.New(context.Background(), tracing.Config{
		Endpoint: "http://collector/v1/traces", Timeout: time.Minute, Ratio: 1, Program: "test", System: "memory", Topology: top,
		Transport: c, Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tracer.Close() })
	return tracer
}

// Answer has the collector answer with an HTTP status, and take nothing; 0 ends that.
func (c *Collector) Answer(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = status
}

// Spans returns the spans in the order in which they began, and an error if
// any request was none of OTLP's.
func (c *Collector) Spans() ([]Span, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Clone(c.spans)
	slices.SortStableFunc(list, func(a, b Span) int { return a.Begun.Compare(b.Begun) })
	if len(c.faults) > 0 {
		return list, c.faults[0]
	}
	return list, nil
}

// Requests returns the requests so far, those that were refused included.
func (c *Collector) Requests() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// RoundTrip implements http.RoundTripper.
func (c *Collector) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Result(), nil
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	if c.answer != 0 {
		w.WriteHeader(c.answer)
		return
	}
	var data tracepb.TracesData
	if err == nil {
		err = proto.Unmarshal(body, &data)
	}
	if got := r.Header.Get("Content-Type"); err == nil && (r.Method != http.MethodPost || got != "application/x-protobuf") {
		err = fmt.Errorf("%s with Content-Type %q", r.Method, got)
	}
	if err != nil {
		c.faults = append(c.faults, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, of := range data.GetResourceSpans() {
		service := attributes(of.GetResource().GetAttributes())["service.name"]
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, read(s, service))
			}
		}
	}
}

var kinds = map[tracepb.Span_SpanKind]string{
	tracepb.Span_SPAN_KIND_SERVER: "server", tracepb.Span_SPAN_KIND_PRODUCER: "producer",
	tracepb.Span_SPAN_KIND_CONSUMER: "consumer", tracepb.Span_SPAN_KIND_CLIENT: "client",
	tracepb.Span_SPAN_KIND_INTERNAL: "internal", tracepb.Span_SPAN_KIND_UNSPECIFIED: "",
}

func read(s *tracepb.Span, service string) Span {
	out := Span{
		Service: service, Name: s.GetName(), Kind: kinds[s.GetKind()],
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Attributes: attributes(s.GetAttributes()),
		Begun:      time.Unix(0, int64(s.GetStartTimeUnixNano())), Ended: time.Unix(0, int64(s.GetEndTimeUnixNano())), //nolint:gosec // times of today
	}
	if st := s.GetStatus(); st.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		out.Error = st.GetMessage()
	}
	for _, e := range s.GetEvents() {
		out.Events = append(out.Events, e.GetName())
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, hex.EncodeToString(l.GetSpanId()))
	}
	return out
}

func attributes(list []*commonpb.KeyValue) map[string]string {
	all := make(map[string]string, len(list))
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			all[a.GetKey()] = fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_DoubleValue:
			all[a.GetKey()] = fmt.Sprint(v.DoubleValue)
		case *commonpb.AnyValue_BoolValue:
			all[a.GetKey()] = fmt.Sprint(v.BoolValue)
		}
	}
	return all
}
