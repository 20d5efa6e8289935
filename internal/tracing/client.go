package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// idleTimeout is longer than the five seconds between two batches.
	idleTimeout = 30 * time.Second
	// maxAnswer bounds what is read of an answer, of which nothing is used.
	maxAnswer = 64 << 10
)

// client posts spans to a collector: OTLP over HTTP, with protobuf. It tries a batch
// once. What is not taken is lost, and the log says so when that begins and when it is
// over.
//
// It is our own because OpenTelemetry's otlptracehttp brings gRPC and its gateway
// with it: 8 MB more in each program.
type client struct {
	endpoint  string
	headers   http.Header
	timeout   time.Duration
	transport http.RoundTripper
	exported  prometheus.Counter
	log       *slog.Logger
	stopping  context.Context // ends all requests at once
	abort     context.CancelFunc
	failing   atomic.Bool
}

func newClient(cfg Config, exported prometheus.Counter) *client {
	c := &client{
		endpoint: cfg.Endpoint, headers: cfg.Headers, timeout: cfg.Timeout, transport: cfg.Transport, exported: exported, log: cfg.Log,
	}
	c.stopping, c.abort = context.WithCancel(context.Background())
	if c.transport == nil {
		c.transport = &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			DialContext:     (&net.Dialer{Timeout: cfg.Timeout}).DialContext,
			IdleConnTimeout: idleTimeout, TLSHandshakeTimeout: cfg.Timeout, ForceAttemptHTTP2: true,
		}
	}
	return c
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.abort()
	return nil
}

// close closes the connections.
func (c *client) close() {
	c.abort()
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// UploadTraces implements otlptrace.Client. It returns nil always: the SDK would print
// each error by a logger of its own.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	err := c.upload(ctx, spans)
	if err == nil {
		c.exported.Add(float64(count(spans)))
	}
	switch failed := err != nil; {
	case c.failing.Swap(failed) == failed:
	case failed:
		c.log.WarnContext(ctx, "collector takes no spans; they are lost", "err", err)
	default:
		c.log.InfoContext(ctx, "collector takes spans again")
	}
	return nil
}

// count returns how many spans there are.
func count(all []*tracepb.ResourceSpans) (n int) {
	for _, r := range all {
		for _, s := range r.GetScopeSpans() {
			n += len(s.GetSpans())
		}
	}
	return n
}

func (c *client) upload(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// The message of OTLP's service has the same encoding as TracesData, whose
	// package needs no gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	defer context.AfterFunc(c.stopping, cancel)() //nolint:contextcheck // ends all requests at once
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return errors.New("the collector's address is not a URL") // not quoted
	}
	maps.Copy(req.Header, c.headers)
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "chatclub")
	resp, err := c.transport.RoundTrip(req) // not http.Client: it would follow a redirect, with the headers
	if err != nil {
		return fmt.Errorf("post spans: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // for the connection's next use
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("post spans: the collector answers %d", resp.StatusCode)
	}
	return nil
}
