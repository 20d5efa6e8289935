// Package webhook is the HTTP endpoint that Messenger posts events to. It
// guarantees that
//
//   - a request is answered 200 only after the broker has confirmed all of its
//     events; otherwise the answer is 503, and Messenger sends it again;
//   - no part of a body is parsed before its signature was verified, except the form
//     around a signed request;
//   - signed data of Messenger that cannot be parsed is kept raw on the dead-letter queue.
//     What the app's secret signs for others, such as the user of a Facebook Login, is
//     refused;
//   - a body that was taken is not taken again within an hour, up to 65,536 of them;
//   - the bodies of all requests take bounded memory, and clients without the app's
//     secret cannot keep out others by sending slowly.
package webhook

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/audit"
	"chatclub/internal/queue"
	"chatclub/internal/tracing"
)

const (
	// DefaultPublishTimeout leaves 2 of Messenger's 5 s for the network and for
	// reading the body.
	DefaultPublishTimeout = 3 * time.Second
	// DefaultMaxInFlight requests hold at most 512 MiB, with the bodies being read.
	// At the usual 1 KiB a body and 5 ms a confirm they are 100,000 requests a
	// second.
	DefaultMaxInFlight = 512
	// MaxBody is the largest body read. Messenger's batches have up to 1,000
	// updates, and 1,000 short texts in Cyrillic are more than 1 MiB. A larger body
	// could not be kept, because this is the broker's own bound.
	MaxBody = queue.MaxBody

	// retryAfter is the pause before a proxy or a test client tries again, in seconds.
	// Messenger has a schedule of its own.
	retryAfter = 1
)

// Config is the configuration of a Handler. Broker, Topology, AppSecret and
// VerifyToken must be set.
type Config struct {
	Broker      queue.Publisher
	Topology    queue.Topology
	AppSecret   []byte // signs the bodies
	VerifyToken string // Messenger repeats it when the webhook is set up
	All         bool   // every event of Messenger is passed on; otherwise those that core knows
	DeletionURL string // public address of Deletions; may be empty if that is not used

	MaxInFlight    int                   // signed POST requests at a time, bodies being read, and MiB of both together (64 at least); default DefaultMaxInFlight
	PublishTimeout time.Duration         // for the broker's confirmation; default DefaultPublishTimeout
	Registerer     prometheus.Registerer // nil: metrics go nowhere
	Log            *slog.Logger          // nil: no log
	Tracer         *tracing.Tracer       // nil: no traces
	Now            func() time.Time      // default time.Now
}

// withDefaults returns c with its defaults filled in, or an error that names the missing
// fields.
func (c Config) withDefaults() (Config, error) {
	if c.Broker == nil || len(c.AppSecret) == 0 || c.VerifyToken == "" {
		return c, errors.New("Broker, AppSecret and VerifyToken must be set")
	}
	if err := c.Topology.Validate(); err != nil {
		return c, fmt.Errorf("Topology: %w", err)
	}
	c.MaxInFlight = cmp.Or(c.MaxInFlight, DefaultMaxInFlight)
	c.PublishTimeout = cmp.Or(c.PublishTimeout, DefaultPublishTimeout)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

// Handler serves the webhook's address: GET for Messenger's verification, POST for
// events. Deletions serves another one. The zero value is not useful; New makes a Handler. Safe for
// concurrent use.
type Handler struct {
	cfg         Config
	metrics     *metrics
	verifyToken [sha256.Size]byte // its digest, because comparing digests hides the length too
	readers     *readers
	slots       chan struct{}        // holds an element for each signed POST
	degraded    atomic.Bool          // the last publish was not confirmed
	refused     map[string]*refusals // by method
	turns       turns
	taken       taken
}

// New checks the configuration and registers the metrics.
func New(cfg Config) (*Handler, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new webhook handler: %w", err)
	}
	places := max(minReaders, cfg.MaxInFlight)
	readers := newReaders(places, places*memoryEach)
	slots := make(chan struct{}, cfg.MaxInFlight)
	return &Handler{
		cfg:         cfg,
		metrics:     newMetrics(cfg.Registerer, readers, slots),
		verifyToken: sha256.Sum256([]byte(cfg.VerifyToken)),
		readers:     readers,
		slots:       slots,
		refused: map[string]*refusals{
			http.MethodGet:  {setting: "VERIFY_TOKEN", seldom: audit.Seldom{Every: tellEvery}},
			http.MethodPost: {setting: "APP_SECRET", seldom: audit.Seldom{Every: tellEvery}},
		},
	}, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve(w, r, h.verify, h.post) }

// SinceTurn returns the time for which requests have been in hand and none has ended: at most
// the server's time to read a body, and PublishTimeout.
func (h *Handler) SinceTurn() time.Duration { return h.turns.since(h.cfg.Now()) }

// serve answers a request by its method, and counts the result.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, get func(*http.Request) answer, post func(http.ResponseWriter, *http.Request) answer) {
	a := answer{result: badMethod}
	h.turns.begin(h.cfg.Now())
	switch r.Method {
	case http.MethodGet:
		a = get(r)
	case http.MethodPost:
		a = post(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
	}
	h.turns.end(h.cfg.Now()) // before the answer, for which the client may take its time
	h.metrics.requests[a.result].Inc()
	if a.result == forbidden {
		h.refused[r.Method].add(r.Context(), h.cfg.Log, h.cfg.Now())
	}
	a.write(w)
}

// verify answers the request by which Messenger checks that the endpoint is ours.
func (h *Handler) verify(r *http.Request) answer {
	q := r.URL.Query()
	challenge := q.Get("hub.challenge")
	if q.Get("hub.mode") != "subscribe" || challenge == "" {
		return answer{result: badRequest}
	}
	given := sha256.Sum256([]byte(q.Get("hub.verify_token")))
	if subtle.ConstantTimeCompare(given[:], h.verifyToken[:]) != 1 {
		return answer{result: forbidden}
	}
	return answer{result: verified, text: challenge}
}

// result says how a request ended.
type result int

// Every result there is, each with a row in outcomes.
const (
	accepted result = iota
	repeated
	verified
	badRequest
	forbidden
	notFound
	badMethod
	tooLarge
	tooSlow
	overloaded
	unavailable
	results // how many there are
)

// outcomes holds each result's metric label, HTTP status and text.
var outcomes = [results]struct {
	label  string
	status int
	text   string
}{
	accepted:    {"ok", http.StatusOK, "EVENT_RECEIVED"},
	repeated:    {"repeated", http.StatusOK, "EVENT_RECEIVED"},
	verified:    {"verified", http.StatusOK, ""},
	badRequest:  {"bad_request", http.StatusBadRequest, "bad request\n"},
	forbidden:   {"forbidden", http.StatusForbidden, "forbidden\n"},
	notFound:    {"not_found", http.StatusNotFound, "not found\n"},
	badMethod:   {"bad_method", http.StatusMethodNotAllowed, "method not allowed\n"},
	tooLarge:    {"too_large", http.StatusRequestEntityTooLarge, "body too large\n"},
	tooSlow:     {"too_slow", http.StatusRequestTimeout, "body came too slowly\n"},
	overloaded:  {"overloaded", http.StatusServiceUnavailable, "too many requests in flight\n"},
	unavailable: {"unavailable", http.StatusServiceUnavailable, "queue unavailable\n"},
}

// answer is a result, and a text in place of the result's own.
type answer struct {
	result      result
	text        string
	contentType string // default plain text
}

func (a answer) write(w http.ResponseWriter) {
	o := outcomes[a.result]
	if a.text == "" {
		a.text = o.text
	}
	head := w.Header()
	// The challenge comes from outside. No browser may take it for a page.
	head.Set("Content-Type", cmp.Or(a.contentType, "text/plain; charset=utf-8"))
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	if o.status == http.StatusServiceUnavailable {
		head.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(o.status)
	_, _ = io.WriteString(w, a.text) // the client may be gone; Messenger tries again
}
