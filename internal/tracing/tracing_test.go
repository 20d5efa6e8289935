package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/tracing"
	"chatclub/internal/tracing/tracingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// rig is a tracer and its collector.
type rig struct {
	*tracing.Tracer
	collector *tracingtest.Collector
	log       bytes.Buffer
	reg       *prometheus.Registry
}

func start(t *testing.T, change func(*tracing.Config)) *rig {
	t.Helper()
	r := &rig{collector: new(tracingtest.Collector), reg: prometheus.NewRegistry()}
	cfg := tracing.Config{
		Endpoint: "http://collector/v1/traces", Timeout: 10 * time.Second, Ratio: 1, Program: "core", Instance: "i", Version: "v1", System: "rabbitmq",
		Topology: queue.Topology{Prefix: "t", Partitions: 8}, Transport: r.collector, Registerer: r.reg,
		Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if r.Tracer, err = tracing.New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// spans closes the tracer and returns its collector's spans.
func (r *rig) spans(t *testing.T) []tracingtest.Span {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatalf("Close() = %v, want nil", err)
	}
	spans, err := r.collector.Spans()
	if err != nil {
		t.Fatal(err)
	}
	return spans
}

// delivery is one with this traceparent.
func delivery(trace string) *queue.Delivery {
	return queue.NewDelivery(nil, nil, 1, queue.Message{ID: "1/m/2", Headers: map[string]string{message.HeaderTrace: trace}}, false)
}

func TestSpans(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	ctx, request := r.Request(t.Context(), "/webhook", time.Now().Add(-time.Second))
	sent := r.Send(ctx, "t.outbound.03", 2)
	msgs := []queue.Message{{ID: "a"}, {ID: "b", Headers: map[string]string{"chatclub-reason": "gone"}}}
	sent.Inject(msgs)
	sent.End()
	request.Status(503)
	request.Fail("unavailable")
	request.End()
	d := queue.NewDelivery(nil, nil, 1, msgs[1], false)
	ctx, processed := r.Process(t.Context(), d, "t.lane.07.1", time.Now())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://graph.example/v23.0/17/messages", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	call := r.Call(req, "/{page}/messages")
	call.Status(200)
	call.End()
	processed.SetString("chatclub.page", "17")
	processed.SetInt("chatclub.attempt", 2)
	processed.SetSeconds("chatclub.wait", 1500*time.Millisecond)
	processed.Event("put back", "613")
	processed.Link(sent)
	processed.End()
	r.Move(d, "t.outbound.03", time.Now()).End()

	if msgs[1].Headers["chatclub-reason"] != "gone" {
		t.Errorf("headers after Inject = %v, want those before, too", msgs[1].Headers)
	}
	got := r.spans(t)
	if len(got) != 5 {
		t.Fatalf("%d spans, want 5", len(got))
	}
	messaging := func(operation, kind, queue, template string, more ...string) map[string]string {
		m := map[string]string{
			"messaging.system": "rabbitmq", "messaging.operation.name": operation, "messaging.operation.type": kind,
			"messaging.destination.name": queue, "messaging.destination.template": template,
		}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	root, producer, consumer := got[0].ID, got[1].ID, got[2].ID
	want := []tracingtest.Span{
		{Name: "POST /webhook", Kind: "server", Error: "unavailable", Attributes: map[string]string{
			"http.request.method": "POST", "http.route": "/webhook", "url.path": "/webhook", "http.response.status_code": "503", "error.type": "unavailable",
		}},
		{Name: "send t.outbound.{number}", Kind: "producer", Parent: root, Attributes: messaging(
			"send", "send", "t.outbound.03", "t.outbound.{number}", "messaging.batch.message_count", "2")},
		{
			Name: "process t.lane.{number}", Kind: "consumer", Parent: producer, Events: []string{"put back"}, Links: []string{producer},
			Attributes: messaging("process", "process", "t.lane.07.1", "t.lane.{number}", "messaging.message.id", "b",
				"chatclub.page", "17", "chatclub.attempt", "2", "chatclub.wait", "1.5"),
		},
		{Name: "POST /{page}/messages", Kind: "client", Parent: consumer, Attributes: map[string]string{
			"http.request.method": "POST", "url.template": "/{page}/messages", "url.full": "https://graph.example/v23.0/17/messages",
			"server.address": "graph.example", "server.port": "443", "http.response.status_code": "200",
		}},
		{Name: "move t.outbound.{number}", Kind: "client", Parent: producer, Attributes: messaging(
			"move", "settle", "t.outbound.03", "t.outbound.{number}", "messaging.message.id", "b")},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(tracingtest.Span{}, "Service", "Trace", "ID", "Begun", "Ended")); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, s := range got {
		if s.Service != "core" || s.Trace != got[0].Trace || s.ID == "" {
			t.Errorf("%s: service %q, trace %s, id %q, want core, %s and an id", s.Name, s.Service, s.Trace, s.ID, got[0].Trace)
		}
	}
	if lasted := got[0].Ended.Sub(got[0].Begun); lasted < time.Second {
		t.Errorf("request lasted %v, want the second since it came", lasted)
	}
	if got := testutil.ToFloat64(counters(r.reg, "chatclub_tracing_exported_spans_total")); got != 5 {
		t.Errorf("exported spans = %v, want 5", got)
	}
}

// counters are the tracer's metrics of one name.
func counters(reg *prometheus.Registry, name string) prometheus.Collector {
	return gathered{reg, name}
}

type gathered struct {
	reg  *prometheus.Registry
	name string
}

func (g gathered) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(g, ch) }

func (g gathered) Collect(ch chan<- prometheus.Metric) {
	families, err := g.reg.Gather()
	for _, f := range families {
		if f.GetName() == g.name {
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("x_total", "x", nil, nil), prometheus.CounterValue, f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	if err != nil {
		panic(err)
	}
}

// A message goes on with a trace only where that is sampled, and of the form that W3C
// gives it.
func TestParent(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for trace, want := range map[string]bool{
		good: true,
		"":   false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":   false, // not sampled
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":   false,
		"00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01":   false,
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":   false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-":     false,
		"garbage\x00":             false,
		strings.Repeat("-", 3000): false,
	} {
		d := delivery(trace)
		_, span := r.Process(t.Context(), d, "t.inbound", time.Now())
		if span.Recorded() != want {
			t.Errorf("Process with traceparent %.60q is recorded = %t, want %t", trace, span.Recorded(), want)
		}
		span.End()
		id := r.TraceID(d.Headers)
		if (id == "0af7651916cd43dd8448eb211c80319c") != want || (id != "") != want {
			t.Errorf("TraceID(%.60q) = %q, want one %t", trace, id, want)
		}
	}
	if got := r.spans(t); len(got) != 1 || got[0].Parent != "b7ad6b7169203331" {
		t.Errorf("spans = %v, want one whose parent is b7ad6b7169203331", got)
	}
}

// Work that belongs to no trace begins none, but for what SendNew is for.
func TestOnlyOriginsBeginTraces(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	if r.Send(t.Context(), "t.inbound", 1).Recorded() {
		t.Error("Send without a trace is recorded")
	}
	if r.Call(new(http.Request).WithContext(t.Context()), "/").Recorded() {
		t.Error("Call without a trace is recorded")
	}
	r.SendNew(t.Context(), "t.outbound.00", 1).End()
	if got := r.spans(t); len(got) != 1 || got[0].Parent != "" {
		t.Errorf("spans = %v, want one without a parent", got)
	}
}

func TestRatio(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		ratio     float64
		least, to int
	}{
		{0, 0, 0},
		{0.5, 50, 150}, // seven standard deviations
		{1, 200, 200},
	} {
		r := start(t, func(c *tracing.Config) { c.Ratio = row.ratio })
		n := 0
		for range 200 {
			ctx, request := r.Request(t.Context(), "/webhook", time.Now())
			msgs := []queue.Message{{}}
			r.Send(ctx, "t.inbound", 1).Inject(msgs)
			if request.Recorded() != (msgs[0].Headers != nil) {
				t.Fatalf("ratio %g: recorded %t, but headers %v", row.ratio, request.Recorded(), msgs[0].Headers)
			}
			if request.Recorded() {
				n++
			}
		}
		if n < row.least || n > row.to {
			t.Errorf("a ratio of %g records %d of 200, want %d to %d", row.ratio, n, row.least, row.to)
		}
	}
}

// A collector that refuses costs a line in the log when that begins, and another when
// it is over.
func TestCollectorRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *tracing.Config) { c.Headers = http.Header{"Authorization": {"Bearer top-secret"}} })
		make1000 := func() {
			for range 1000 {
				r.SendNew(t.Context(), "t.outbound.00", 1).End()
			}
			time.Sleep(time.Minute)
		}
		r.collector.Answer(http.StatusServiceUnavailable)
		make1000()
		make1000()
		r.collector.Answer(0)
		make1000()
		for name, want := range map[string]float64{"chatclub_tracing_spans_total": 3000, "chatclub_tracing_exported_spans_total": 1000} {
			if got := testutil.ToFloat64(counters(r.reg, name)); got != want {
				t.Errorf("%s = %v, want %v", name, got, want)
			}
		}
		if got := len(r.spans(t)); got != 1000 {
			t.Errorf("the collector has %d spans, want the 1000 since it takes any", got)
		}
		text := r.log.String()
		if strings.Count(text, "they are lost") != 1 || strings.Count(text, "takes spans again") != 1 || !strings.Contains(text, "answers 503") {
			t.Errorf("log = %s, want one line when it begins, with 503, and one when it is over", text)
		}
		if strings.Contains(text, "top-secret") {
			t.Errorf("log = %s, which has the secret", text)
		}
		for _, req := range r.collector.Requests() {
			if req.URL.String() != "http://collector/v1/traces" || req.Header.Get("Authorization") != "Bearer top-secret" {
				t.Fatalf("request to %s with Authorization %q", req.URL, req.Header.Get("Authorization"))
			}
		}
	})
}

// hangs is a collector that answers nothing.
type hangs struct{}

func (hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// A collector that hangs holds nobody up: spans end at once, and the program ends
// within two seconds.
func TestCollectorHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *tracing.Config) { c.Transport = hangs{} })
		begun := time.Now()
		for range 5000 { // twice as many as the SDK keeps
			r.SendNew(t.Context(), "t.outbound.00", 1).End()
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("5,000 spans took %v, want no time", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Minute)
		begun = time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("Run took %v to end, want 2s", took)
		}
		if err := r.Close(); err != nil {
			t.Errorf("Close() again = %v, want nil", err)
		}
		r.SendNew(t.Context(), "t.outbound.00", 1).End() // after the end
		if n := strings.Count(r.log.String(), "they are lost"); n != 1 {
			t.Errorf("%d lines about it, want 1:\n%s", n, r.log.String())
		}
	})
}

// fails is a collector that cannot be reached.
type fails struct{}

func (fails) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("dial: refused")
}

func TestCollectorIsGone(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *tracing.Config) { c.Transport = fails{} })
	r.SendNew(t.Context(), "t.outbound.00", 1).End()
	if err := r.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	if !strings.Contains(r.log.String(), `err="dial: refused"`) {
		t.Errorf("log = %s, want the reason alone", r.log.String())
	}
}

// A tracer that is off costs nothing.
func TestOffCostsNothing(t *testing.T) {
	off, err := tracing.New(t.Context(), tracing.Config{Registerer: prometheus.NewRegistry()})
	if off != nil || err != nil {
		t.Fatalf("New without an endpoint = %v, %v, want nil", off, err)
	}
	msgs := []queue.Message{{ID: "a"}}
	d, now := delivery(good), time.Now()
	req := new(http.Request).WithContext(t.Context())
	allocs := testing.AllocsPerRun(100, func() {
		ctx, request := off.Request(t.Context(), "/webhook", now)
		sent := off.Send(ctx, "t.inbound", len(msgs))
		sent.Inject(msgs)
		sent.End()
		_, span := off.Process(ctx, d, "t.inbound", now)
		span.SetString("a", "b")
		span.SetInt("a", 1)
		span.SetSeconds("a", time.Second)
		span.Event("a", "b")
		span.Link(sent)
		span.Fail("a")
		span.End()
		off.SendNew(ctx, "t.inbound", 1).End()
		off.Move(d, "t.inbound", now).End()
		off.Call(req, "/").Status(200)
		request.Status(200)
		request.End()
		if off.TraceID(d.Headers) != "" {
			t.Error("TraceID of what is off is not empty")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
	if msgs[0].Headers != nil {
		t.Errorf("headers = %v, want none", msgs[0].Headers)
	}
	if err := off.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
}

// Who makes the spans: the program, unless the environment says otherwise.
func TestResource(t *testing.T) {
	for i, row := range []struct{ attributes, service, want string }{
		{"", "", "core"},
		{"service.name=from-attributes,team=a", "", "from-attributes"},
		{"service.name=from-attributes", "from-its-variable", "from-its-variable"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", row.attributes)
			t.Setenv("OTEL_SERVICE_NAME", row.service)
			r := start(t, nil)
			r.SendNew(t.Context(), "t.outbound.00", 1).End()
			if got := r.spans(t); len(got) != 1 || got[0].Service != row.want {
				t.Errorf("spans = %v, want one of %q", got, row.want)
			}
		})
	}
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "nonsense")
	if _, err := tracing.New(t.Context(), tracing.Config{Endpoint: "x", Registerer: prometheus.NewRegistry()}); err == nil || !strings.Contains(err.Error(), "OTEL_RESOURCE_ATTRIBUTES") {
		t.Errorf("New with wrong attributes = %v, want an error that names them", err)
	}
}
