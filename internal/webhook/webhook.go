// Package webhook is the HTTP endpoint that Messenger posts events to. It
// answers 200 only after the broker has confirmed every event of the request;
// otherwise it answers 503, and Messenger sends the request again. Nothing of
// a body is parsed before its signature was verified, and what cannot be
// parsed then is kept raw on the dead-letter queue. Who does not know the app's
// secret can hold a bounded number of bodies of at most 1 MiB, and keeps
// nobody's out by sending slowly.
package webhook

import (
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

	"chatclub/internal/queue"
)

const (
	// DefaultPublishTimeout leaves 2 of Messenger's 5 s for the way and for
	// reading the body.
	DefaultPublishTimeout = 3 * time.Second
	// DefaultMaxInFlight requests hold at most 512 MiB of bodies, and those being
	// read as much again; at the usual 1 KiB and 5 ms of a confirm they are
	// 100,000 requests a second.
	DefaultMaxInFlight = 512
	// MaxBody is the largest body read. Messenger's batches stay far below.
	MaxBody = 1 << 20

	// retryAfter tells a proxy or a test client when to come back, in seconds.
	// Messenger has a schedule of its own.
	retryAfter = 1
)

// Config is what a Handler needs. Broker, Topology, AppSecret, VerifyToken,
// Registerer and Log must be set.
type Config struct {
	Broker      queue.Publisher
	Topology    queue.Topology
	AppSecret   []byte // signs the bodies
	VerifyToken string // Messenger repeats it when the webhook is set up
	Registerer  prometheus.Registerer
	Log         *slog.Logger

	MaxInFlight    int              // POST requests of Messenger's at a time, and bodies being read (64 at least); 0: DefaultMaxInFlight
	PublishTimeout time.Duration    // for the broker's confirmation; 0: DefaultPublishTimeout
	Now            func() time.Time // nil: time.Now
}

func (c Config) validate() error {
	var faults []error
	for _, f := range []struct {
		name  string
		unset bool
	}{
		{"Broker", c.Broker == nil},
		{"AppSecret", len(c.AppSecret) == 0},
		{"VerifyToken", c.VerifyToken == ""},
		{"Registerer", c.Registerer == nil},
		{"Log", c.Log == nil},
	} {
		if f.unset {
			faults = append(faults, fmt.Errorf("%s must be set", f.name))
		}
	}
	if err := c.Topology.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("Topology: %w", err))
	}
	if c.MaxInFlight < 0 {
		faults = append(faults, fmt.Errorf("MaxInFlight %d is negative", c.MaxInFlight))
	}
	if c.PublishTimeout < 0 {
		faults = append(faults, fmt.Errorf("PublishTimeout %v is negative", c.PublishTimeout))
	}
	return errors.Join(faults...)
}

// Handler serves the webhook's one address: GET for Messenger's verification,
// POST for events. New makes it. Safe for concurrent use.
type Handler struct {
	cfg         Config
	metrics     *metrics
	verifyToken [sha256.Size]byte // its digest: comparing digests hides the length too
	readers     *readers
	slots       chan struct{} // one element per POST that Messenger signed
	degraded    atomic.Bool   // the last publish was not confirmed
}

// New checks the configuration and registers the metrics.
func New(cfg Config) (*Handler, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("new webhook handler: %w", err)
	}
	if cfg.MaxInFlight == 0 {
		cfg.MaxInFlight = DefaultMaxInFlight
	}
	if cfg.PublishTimeout == 0 {
		cfg.PublishTimeout = DefaultPublishTimeout
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	readers := newReaders(max(minReaders, cfg.MaxInFlight))
	slots := make(chan struct{}, cfg.MaxInFlight)
	return &Handler{
		cfg:         cfg,
		metrics:     newMetrics(cfg.Registerer, readers, slots),
		verifyToken: sha256.Sum256([]byte(cfg.VerifyToken)),
		readers:     readers,
		slots:       slots,
	}, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := answer{result: badMethod}
	switch r.Method {
	case http.MethodGet:
		a = h.verify(r)
	case http.MethodPost:
		a = h.post(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
	}
	h.metrics.requests[a.result].Inc()
	a.write(w)
}

// verify answers Messenger's question whether this endpoint is ours.
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

// result is how a request ended.
type result int

// The results; each has a row in outcomes.
const (
	accepted result = iota
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

// outcomes gives each result its metric label, HTTP status and text.
var outcomes = [results]struct {
	label  string
	status int
	text   string
}{
	accepted:    {"ok", http.StatusOK, "EVENT_RECEIVED"},
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

// answer is a result, with a text of its own if it has one.
type answer struct {
	result result
	text   string
}

func (a answer) write(w http.ResponseWriter) {
	o := outcomes[a.result]
	if a.text == "" {
		a.text = o.text
	}
	head := w.Header()
	// The challenge comes from outside: no browser may take it for a page.
	head.Set("Content-Type", "text/plain; charset=utf-8")
	head.Set("X-Content-Type-Options", "nosniff")
	if o.status == http.StatusServiceUnavailable {
		head.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(o.status)
	_, _ = io.WriteString(w, a.text) // the client may be gone; it will ask again
}
