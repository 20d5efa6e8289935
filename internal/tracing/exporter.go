package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// idleTimeout is longer than the five seconds between two batches.
	idleTimeout = 30 * time.Second
	// maxAnswer bounds the read part of an answer, which is thrown away.
	maxAnswer = 64 << 10
)

// exporter posts spans to a collector, by OpenTelemetry's own client. It tries a batch
// once. A batch that is not taken is lost, and the log says so when that begins and when it is
// over.
type exporter struct {
	sdktrace.SpanExporter
	transport http.RoundTripper
	exported  prometheus.Counter
	log       *slog.Logger
	stopping  context.Context // ends all requests at once
	abort     context.CancelFunc
	failing   atomic.Bool
}

// newExporter returns an exporter that is to be closed, with an error, too.
func newExporter(ctx context.Context, cfg Config, exported prometheus.Counter) (e *exporter, err error) {
	e = &exporter{transport: cfg.Transport, exported: exported, log: cfg.Log}
	e.stopping, e.abort = context.WithCancel(context.Background())
	if e.transport == nil {
		e.transport = &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			DialContext:     (&net.Dialer{Timeout: cfg.Timeout}).DialContext,
			IdleConnTimeout: idleTimeout, TLSHandshakeTimeout: cfg.Timeout, ForceAttemptHTTP2: true,
		}
	}
	headers := make(map[string]string)
	for name := range cfg.Headers {
		headers[name] = cfg.Headers.Get(name)
	}
	e.SpanExporter, err = otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(cfg.Endpoint), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}), // none
		otlptracehttp.WithHTTPClient(&http.Client{Transport: taken{e.transport}, Timeout: cfg.Timeout}),
	)
	return e, err
}

// ExportSpans implements sdktrace.SpanExporter. It returns nil always: the SDK would
// print each error by a logger of its own.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.stopping, cancel)() //nolint:contextcheck // ends all requests at once
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.exported.Add(float64(len(spans)))
	}
	if call, ok := errors.AsType[*url.Error](err); ok {
		err = call.Err // without the collector's address
	}
	switch failed := err != nil; {
	case e.failing.Swap(failed) == failed:
	case failed:
		e.log.WarnContext(ctx, "collector takes no spans; they are lost", "err", err)
	default:
		e.log.InfoContext(ctx, "collector takes spans again")
	}
	return nil
}

// close ends the requests and closes the connections.
func (e *exporter) close() {
	e.abort()
	if t, ok := e.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// taken is a transport for which an answer other than success is an error. So no
// redirect is followed, with the headers, and no answer's text gets into the log.
type taken struct{ http.RoundTripper }

func (t taken) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil || resp.StatusCode/100 == 2 {
		return resp, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // for the connection's next use
	return nil, errors.Join(fmt.Errorf("the collector answers %d", resp.StatusCode), resp.Body.Close())
}
