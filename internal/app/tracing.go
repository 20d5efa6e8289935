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

// traceTimeout bounds a request to the collector: OpenTelemetry's default.
const traceTimeout = 10 * time.Second

// TraceSettings say where traces go, in OpenTelemetry's own variables. Its SDK reads
// more of them by itself, such as OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and OTEL_BSP_*.
type TraceSettings struct {
	Endpoint string         `env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"Address of an OpenTelemetry collector (OTLP over HTTP), such as http://collector:4318; empty: no traces."`
	Headers  service.Secret `env:"OTEL_EXPORTER_OTLP_HEADERS" doc:"Headers of its requests: name=value, with commas between them, values in URL encoding."`
	Ratio    float64        `env:"OTEL_TRACES_SAMPLER_ARG" envDefault:"1" doc:"Part of the traces that is recorded, 0 to 1, decided where a trace begins: in webhook, for broadcasts in core."`
}

// IsUnused reports that there are no traces: the other variables are not for us.
func (s TraceSettings) IsUnused() bool { return s.Endpoint == "" }

// Validate names every fault.
func (s TraceSettings) Validate() error {
	_, headers := s.headers()
	return errors.Join(checkOptionalURL("OTEL_EXPORTER_OTLP_ENDPOINT", s.Endpoint), headers, service.CheckRange("OTEL_TRACES_SAMPLER_ARG", s.Ratio, 0, 1))
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
	if s.Endpoint == "" {
		return ""
	}
	return strings.TrimSuffix(s.Endpoint, "/") + "/v1/traces"
}

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
		Endpoint: s.endpoint(), Headers: headers, Timeout: traceTimeout, Ratio: s.Ratio, Program: program, Instance: cmp.Or(w.Instance, instance()), Version: version,
		System: system, Topology: w.Broker.Topology(), Registerer: w.metrics, Log: w.Log,
	})
}

// instance returns a name that no other process has at the time.
func instance() string {
	host, _ := os.Hostname() // its error leaves the name empty
	return fmt.Sprintf("%s:%d", cmp.Or(host, "unknown"), os.Getpid())
}
