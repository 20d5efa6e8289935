package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"chatclub/internal/service"
	"chatclub/internal/tracing"
)

// TraceSettings say where traces go, in OpenTelemetry's own variables. Its SDK reads
// more of them by itself, such as OTEL_RESOURCE_ATTRIBUTES and OTEL_BSP_*.
type TraceSettings struct {
	Endpoint       string          `env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"Address of an OpenTelemetry collector that takes OTLP over HTTP, such as http://collector:4318; empty: no traces."`
	TracesEndpoint string          `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" doc:"The same with the path of the traces, which the other one has /v1/traces for."`
	Protocol       TraceProtocol   `env:"OTEL_EXPORTER_OTLP_PROTOCOL" envDefault:"http/protobuf" doc:"How the collector is spoken to."`
	Headers        service.Secret  `env:"OTEL_EXPORTER_OTLP_HEADERS" doc:"Headers of each request to it: name=value, with commas between them and values in URL encoding."`
	TimeoutMillis  int             `env:"OTEL_EXPORTER_OTLP_TIMEOUT" envDefault:"10000" doc:"How long it may take for a request, in milliseconds."`
	Sampler        tracing.Sampler `env:"OTEL_TRACES_SAMPLER" envDefault:"parentbased_always_on" doc:"Which traces are recorded. It is decided where a trace begins, in webhook, and for broadcasts in core."`
	Ratio          float64         `env:"OTEL_TRACES_SAMPLER_ARG" envDefault:"1" doc:"The part of the traces that a sampler with a ratio records, 0 to 1."`
	Service        string          `env:"OTEL_SERVICE_NAME" doc:"Name of this program in traces; empty: webhook, core or dispatcher."`
	Disabled       bool            `env:"OTEL_SDK_DISABLED" envDefault:"false" doc:"No traces, whatever the other variables say."`
}

// IsUnused reports that there are no traces: what the other variables say is not for us.
func (s TraceSettings) IsUnused() bool { return s.endpoint() == "" }

// Validate names every fault.
func (s TraceSettings) Validate() error {
	_, headers := s.headers()
	return errors.Join(
		checkOptionalURL("OTEL_EXPORTER_OTLP_ENDPOINT", s.Endpoint),
		checkOptionalURL("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", s.TracesEndpoint),
		headers,
		service.CheckRange("OTEL_EXPORTER_OTLP_TIMEOUT", s.TimeoutMillis, 1, 600_000),
		s.checkRatio(),
	)
}

func (s TraceSettings) checkRatio() error {
	if !(s.Ratio >= 0 && s.Ratio <= 1) {
		return service.Faultf("OTEL_TRACES_SAMPLER_ARG", "%g must be 0 to 1", s.Ratio)
	}
	return nil
}

// headers parses Headers. Its error quotes nothing.
func (s TraceSettings) headers() (http.Header, error) {
	const name = "OTEL_EXPORTER_OTLP_HEADERS"
	all := make(http.Header)
	for i, part := range strings.Split(s.Headers.Reveal(), ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, raw, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(raw))
		if !ok || err != nil || !isToken(key) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, service.Faultf(name, "entry %d is not of the form name=value", i+1)
		}
		all.Set(key, value)
	}
	return all, nil
}

// isToken reports whether text can be a header's name (RFC 9110, section 5.6.2).
func isToken(text string) bool {
	const may = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"
	return text != "" && strings.Trim(text, may) == ""
}

// endpoint returns where spans are posted, "" for nowhere.
func (s TraceSettings) endpoint() string {
	switch {
	case s.Disabled:
		return ""
	case s.TracesEndpoint != "" || s.Endpoint == "":
		return s.TracesEndpoint
	}
	return strings.TrimSuffix(s.Endpoint, "/") + "/v1/traces"
}

// TraceProtocol is how spans are sent. There is one.
type TraceProtocol string

const traceProtocol TraceProtocol = "http/protobuf"

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *TraceProtocol) UnmarshalText(b []byte) error {
	if *p = TraceProtocol(b); *p != traceProtocol {
		return fmt.Errorf("unknown protocol %.40q", b)
	}
	return nil
}

// Describe names the one protocol.
func (TraceProtocol) Describe() string { return string(traceProtocol) }

// tracer makes the program's Tracer, nil where there are no traces.
func (w *wiring) tracer(ctx context.Context, program string) (*tracing.Tracer, error) {
	s := w.settings.Trace
	headers, err := s.headers()
	if err != nil && !s.IsUnused() {
		return nil, err
	}
	version, _ := service.BuildVersion()
	system := "rabbitmq"
	if w.settings.Broker.AMQPURL == "" {
		system = "memory"
	}
	return tracing.New(ctx, tracing.Config{
		Endpoint: s.endpoint(), Headers: headers, Timeout: time.Duration(s.TimeoutMillis) * time.Millisecond,
		Sampler: s.Sampler, Ratio: s.Ratio,
		Service: s.Service, Program: program, Instance: cmp.Or(w.Instance, instance()), Version: version,
		System: system, Topology: w.Broker.Topology(), Registerer: w.metrics, Log: w.Log,
	})
}

// instance returns a name that no other process has at the time.
func instance() string {
	host, _ := os.Hostname() // its error leaves the name empty
	return fmt.Sprintf("%s:%d", cmp.Or(host, "unknown"), os.Getpid())
}
