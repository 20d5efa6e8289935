// Package tracing is the OpenTelemetry tracing of a message's way from webhook to
// the Send API. It guarantees that
//
//   - a nil *Tracer, and the zero Span, record nothing, allocate nothing and can be
//     used as if they did;
//   - a collector that refuses, hangs or is gone costs spans and nothing else:
//     its queue is bounded, and spans that do not fit are dropped;
//   - a trace is begun where a message enters or is made, and there alone it is
//     decided whether it is sampled. Only a sampled trace travels in the messages'
//     headers, as W3C's traceparent. All others go on with a trace that they are
//     given, and begin none.
//
// Names and attributes are those of OpenTelemetry's semantic conventions for HTTP and
// messaging (opentelemetry.io/docs/specs/semconv), and what only we have begins with
// "chatclub.".
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"chatclub/internal/metric"
	"chatclub/internal/queue"
)

// closeTimeout is the collector's time for the last spans, on top of the program's own
// SHUTDOWN_TIMEOUT.
const closeTimeout = 2 * time.Second

// Config is the configuration of New. Endpoint switches tracing on; then Program,
// Topology, Timeout, Registerer and Log must be set.
type Config struct {
	Endpoint string        // where spans are posted, https://host/v1/traces; empty: off
	Headers  http.Header   // of each request, such as for a token
	Timeout  time.Duration // for one request
	Ratio    float64       // of the traces that are recorded, 0 to 1

	Program  string // webhook, core or dispatcher
	Instance string // tells replicas apart
	Version  string
	System   string         // messaging.system: rabbitmq, or another broker's name
	Topology queue.Topology // by which queues are named

	Transport  http.RoundTripper // to the collector; nil: its own
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// Tracer begins spans. A nil Tracer is off. New makes one; the caller closes it. Safe for concurrent use.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	exporter *exporter
	system   string
	prefix   string // of the queues' names
	closed   sync.Once
}

// metrics count spans, so that losses can be seen.
type metrics struct{ ended, exported prometheus.Counter }

func newMetrics(reg prometheus.Registerer) metrics {
	set := metric.Set{Subsystem: "tracing", Registerer: reg}
	return metrics{
		ended:    set.Counter("spans_total", "Spans of sampled traces that have ended."),
		exported: set.Counter("exported_spans_total", "Spans that the collector took; the others wait, for some seconds, or are lost."),
	}
}

// New returns a Tracer, nil without an endpoint. It does not wait for the collector.
func New(ctx context.Context, cfg Config) (*Tracer, error) {
	m := newMetrics(cfg.Registerer)
	if cfg.Endpoint == "" {
		return nil, nil // nil is the Tracer that is off
	}
	about, err := cfg.resource(ctx)
	if err != nil {
		return nil, fmt.Errorf("new tracer: %w", err)
	}
	exporter, err := newExporter(ctx, cfg, m.exported)
	if err != nil {
		exporter.close()
		return nil, fmt.Errorf("new tracer: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.Ratio))),
		sdktrace.WithSpanProcessor(counting{sdktrace.NewBatchSpanProcessor(exporter), m.ended}),
	)
	t := &Tracer{
		tracer:   provider.Tracer("chatclub", trace.WithInstrumentationVersion(cfg.Version), trace.WithSchemaURL(semconv.SchemaURL)),
		provider: provider, exporter: exporter, system: cfg.System, prefix: cfg.Topology.Prefix + ".",
	}
	cfg.Log.InfoContext(ctx, "tracing is on", "endpoint", cfg.Endpoint, "ratio", cfg.Ratio)
	return t, nil
}

// resource returns the description of the program that makes the spans. Attributes in
// OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME go before its own.
func (c Config) resource(ctx context.Context) (*resource.Resource, error) {
	about, err := resource.New(
		ctx,
		resource.WithAttributes(
			semconv.ServiceName(c.Program), semconv.ServiceNamespace("chatclub"), semconv.ServiceInstanceID(c.Instance),
			semconv.ServiceVersion(c.Version),
		),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return about, nil
}

// counting counts the spans that end.
type counting struct {
	sdktrace.SpanProcessor
	ended prometheus.Counter
}

func (c counting) OnEnd(s sdktrace.ReadOnlySpan) {
	c.ended.Inc()
	c.SpanProcessor.OnEnd(s)
}

// Run waits for the end of ctx and closes t. It is a part of a program, to be
// stopped after those that make spans.
func (t *Tracer) Run(ctx context.Context) error {
	<-ctx.Done()
	return t.Close() //nolint:contextcheck // it has a bound of its own
}

// Close gives the collector closeTimeout for the spans that are left, and drops what
// it has not taken by then. It returns after all goroutines have ended. Idempotent.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	var err error
	t.closed.Do(func() {
		late := time.AfterFunc(closeTimeout, t.exporter.abort)
		defer late.Stop()
		err = t.provider.Shutdown(context.Background()) // it ends soon after abort
		t.exporter.close()
	})
	return err
}
