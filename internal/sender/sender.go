// Package sender makes Send API calls. One call of Send makes at most one
// request, and its result is exactly one Outcome of a closed set. The sender
// never tries again by itself, follows no redirect, and holds a call to its
// deadline. The caller decides what follows from an Outcome.
//
// Classify alone makes outcomes of answers. Pages reads the pages' access tokens from a
// file and follows its changes.
//
// No error, metric or log line of this package holds a token, a URL or the text
// of a message.
package sender

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/message"
	"chatclub/internal/tracing"
)

// ErrNoToken is in the Err of a Result whose page the TokenSource does not
// know. Its Outcome is NoToken.
var ErrNoToken = errors.New("no token")

// TokenSource knows the pages' access tokens. It must be safe for concurrent use.
type TokenSource interface {
	// Token returns the access token of a page, and whether there is one.
	Token(page string) (string, bool)
}

// LacksToken returns a function that reports whether calls for a page need a token that the
// source does not have. For a page whose id is impossible no call is made anyhow.
func LacksToken(source TokenSource) func(page string) bool {
	return func(page string) bool {
		_, known := source.Token(page)
		return !known && validPage(page)
	}
}

// Config is the configuration of a Sender. The zero value is not useful.
type Config struct {
	BaseURL     string                // GRAPH_URL with the API's version, such as https://graph.facebook.com/v23.0
	Tokens      TokenSource           // required
	Transport   http.RoundTripper     // nil: an own one, sized to MaxInFlight
	MaxInFlight int                   // calls at a time, at least 1; of more than that the own transport lets the rest wait
	CallTimeout time.Duration         // for the whole of a call: wait, connect, write, answer
	AppSecret   string                // the app's, with which each call is proven to come from its server; empty: no proof
	Now         func() time.Time      // nil: time.Now
	Registerer  prometheus.Registerer // nil: metrics are not shown
	Tracer      *tracing.Tracer       // nil: no traces
}

func (c Config) validate() (*url.URL, error) {
	var faults []error
	base, err := url.Parse(c.BaseURL)
	switch {
	case err != nil: // not quoted: it may hold a password
		faults = append(faults, errors.New("BaseURL is not a URL"))
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		faults = append(faults, errors.New("BaseURL must begin with http:// or https:// and a host"))
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		faults = append(faults, errors.New("BaseURL must have no user, query or fragment"))
	}
	if c.Tokens == nil {
		faults = append(faults, errors.New("Tokens is missing"))
	}
	if c.MaxInFlight < 1 {
		faults = append(faults, fmt.Errorf("MaxInFlight %d must be at least 1", c.MaxInFlight))
	}
	if c.CallTimeout <= 0 {
		faults = append(faults, fmt.Errorf("CallTimeout %v must be positive", c.CallTimeout))
	}
	return base, errors.Join(faults...)
}

// Sender makes calls. Make one with New. Safe for concurrent use.
type Sender struct {
	base      *url.URL // its path ends in a slash
	tokens    TokenSource
	transport http.RoundTripper
	traced    bool // transport tells when it has a connection, so that "nothing was written" can be known
	timeout   time.Duration
	secret    []byte // of the app; empty: none
	now       func() time.Time
	metrics   *metrics
	tracer    *tracing.Tracer
}

// maxAnswer bounds the read part of an answer. A longer one costs its connection.
const maxAnswer = 64 << 10

// New makes a Sender; the error names every fault of cfg.
func New(cfg Config) (*Sender, error) {
	base, err := cfg.validate()
	if err != nil {
		return nil, fmt.Errorf("new sender: %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Transport == nil {
		if cfg.Transport, err = newTransport(cfg, base); err != nil {
			return nil, fmt.Errorf("new sender: %w", err)
		}
	}
	_, traced := cfg.Transport.(*http.Transport)
	return &Sender{
		base:      base.JoinPath("/"),
		tokens:    cfg.Tokens,
		transport: cfg.Transport,
		traced:    traced,
		timeout:   cfg.CallTimeout,
		secret:    []byte(cfg.AppSecret),
		now:       cfg.Now,
		metrics:   newMetrics(cfg.Registerer),
		tracer:    cfg.Tracer,
	}, nil
}

// Close closes the connections that no call uses. Call it after the last Send.
func (s *Sender) Close() {
	if t, ok := s.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Send makes one call for o and returns its result, at the latest when
// ctx or the call's time is over.
//
// When ctx ends before anything was written the Outcome is Canceled and no call
// was made. From then on the call may have had its effect: without an answer
// the Outcome is Transient. A transport given in Config that is not an
// *http.Transport counts as having written from the start.
func (s *Sender) Send(ctx context.Context, o message.Outbound) (r Result) {
	switch token, known := s.tokens.Token(o.Page); {
	case ctx.Err() != nil:
		r = Result{Outcome: Canceled, Err: fmt.Errorf("send: %w", ctx.Err())}
	case !validPage(o.Page):
		r = Result{Outcome: BadMessage, Err: fmt.Errorf("send: page %.40q is not a page id", o.Page)}
	case !known:
		r = Result{Outcome: NoToken, Err: fmt.Errorf("send: %w for page %s", ErrNoToken, o.Page)}
	default:
		r = s.post(ctx, token, o)
	}
	s.metrics.result(o, r)
	return r
}

// Ask returns what the API says to a question about a page, by its token: Sent if it knows
// both. The metrics of calls do not count it.
func (s *Sender) Ask(ctx context.Context, page string) Result {
	token, known := s.tokens.Token(page)
	if !known || !validPage(page) {
		return Result{Outcome: NoToken, Err: fmt.Errorf("ask: %w for page %.40q", ErrNoToken, page)}
	}
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req := s.request(callCtx, page, nil)
	req.Method = http.MethodGet
	s.authorize(req, token)
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return lost(ctx, callCtx, true, err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what was read of it decides
	r := Classify(resp.StatusCode, body)
	if e, ok := errors.AsType[*apiError](r.Err); ok {
		e.hide(token)
	}
	return r
}

// authorize gives a request a page's token.
func (s *Sender) authorize(req *http.Request, token string) {
	req.Header["Authorization"] = []string{"Bearer " + token}
	if len(s.secret) > 0 {
		req.URL.RawQuery = "appsecret_proof=" + proof(s.secret, token)
	}
}

// Reach returns nil if the API answers. It asks without a token and for nothing, so any
// answer will do but those of a gateway or proxy: 407, 502 or more, or a page in HTML.
func (s *Sender) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req := s.request(ctx, "me", nil) // the root may be the page of a fake
	req.Method = http.MethodGet
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return lost(ctx, ctx, true, err).Err
	}
	defer resp.Body.Close()
	isPage := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
	if resp.StatusCode >= http.StatusBadGateway || resp.StatusCode == http.StatusProxyAuthRequired || isPage {
		return fmt.Errorf("reach: HTTP %d of no Send API, %.40q", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return nil
}

func (s *Sender) post(ctx context.Context, token string, o message.Outbound) Result {
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var touched atomic.Bool // a connection was in the call's hands
	traceCtx := callCtx
	if s.traced {
		traceCtx = httptrace.WithClientTrace(callCtx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { touched.Store(true) },
		})
	} else {
		touched.Store(true)
	}
	const template = "/{page}/messages"
	req := s.request(traceCtx, o.Page+"/messages", encode(o))
	s.authorize(req, token)
	span := s.tracer.Call(req, template)
	start := s.now()
	r, err := s.call(req, o.Page)
	if err != nil {
		r = lost(ctx, callCtx, touched.Load(), err)
	}
	if e, ok := errors.AsType[*apiError](r.Err); ok {
		e.hide(token, textsOf(o)...)
	}
	endSpan(span, r)
	if r.Outcome != Canceled {
		r.Latency = s.now().Sub(start)
		s.metrics.duration(r.Outcome, r.Latency)
	}
	return r
}

// proof is Meta's appsecret_proof of a token: its HMAC-SHA256 with the app's secret,
// in hexadecimal digits. An app may be set so that calls without it are refused.
func proof(secret []byte, token string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(token))
	return hex.EncodeToString(mac.Sum(nil))
}

// endSpan ends the span of a call with its result.
func endSpan(span tracing.Span, r Result) {
	if r.Status != 0 {
		span.Status(r.Status)
	}
	if r.Outcome != Sent {
		span.Fail(r.Outcome.String())
	}
	span.End()
}

// request makes a POST to path below the base, which needs no escapes. It is
// http.NewRequestWithContext without parsing the same base for every call.
func (s *Sender) request(ctx context.Context, path string, body []byte) *http.Request {
	u := *s.base
	u.Path += path
	if u.RawPath != "" {
		u.RawPath += path
	}
	req := &http.Request{
		Method: http.MethodPost, URL: &u, Host: u.Host,
		Header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"chatclub"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		// For a connection that the server closed before anything was written:
		// the transport takes another then.
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	return req.WithContext(ctx)
}

// call makes the request for a page and classifies its answer. It fails only when no
// answer came. Once the header is there the status and whatever was read of the
// body decide: the connection may break after the platform has accepted.
func (s *Sender) call(req *http.Request, page string) (Result, error) {
	s.metrics.requests.Inc()
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	// Not http.Client: it would follow redirects, copy the header and wrap
	// errors in an error with the URL.
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return Result{}, err
	}
	defer resp.Body.Close()
	// To its end, because only then the connection can be used again.
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	r := Classify(resp.StatusCode, body)
	r.readHints(resp.Header, page, s.now())
	if r.Err != nil && err != nil {
		r.Err = fmt.Errorf("%w; read answer: %w", r.Err, err)
	}
	return r, nil
}

// lost is the Result of a call without an answer. When a context is to blame,
// the transport's error is left out. It may be the context's cause, which is not
// ours to tell.
func lost(caller, call context.Context, touched bool, err error) Result {
	if callerErr := caller.Err(); callerErr != nil && !touched {
		return Result{Outcome: Canceled, Err: fmt.Errorf("send: %w", callerErr)}
	}
	if callErr := call.Err(); callErr != nil {
		err = callErr
	}
	return Result{Outcome: Transient, Err: fmt.Errorf("send: %w", err)}
}

// maxPage bounds a page id; Meta's have 15 to 17 digits.
const maxPage = 64

// validPage reports whether a page id can be put into a URL's path as it is.
// With letters, digits, - and _ only, it can neither leave its place in the path
// nor end it.
func validPage(page string) bool {
	for _, c := range []byte(page) {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_':
		default:
			return false
		}
	}
	return page != "" && len(page) <= maxPage
}
