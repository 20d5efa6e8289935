// Package submit takes messages to people by HTTP, and puts them on their pages'
// partitions. It guarantees that
//
//   - a request is answered 202 only after the broker has confirmed all of its messages;
//   - the answer to a wrong request names the wrong field, and nothing of it is published;
//   - a request that is repeated with the same ids publishes them again, and the page's
//     dispatcher sends each once;
//   - requests take bounded memory.
package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"chatclub/internal/audit"
	"chatclub/internal/message"
	"chatclub/internal/metric"
	"chatclub/internal/queue"
)

const (
	// Pattern is the pattern of http.ServeMux for a Handler.
	Pattern = "POST /messages"

	// maxBatch is the most messages of one request.
	maxBatch = 1000
	// maxBody bounds a request: 1,000 texts of 2,000 characters of three bytes each, and
	// the fields around them.
	maxBody = 8 << 20
	// maxMemory bounds the bodies at a time, each counted with eachMemory for what is
	// decoded of it, and once a body is read with requestMemory, and messageMemory for each
	// message: a dozen clients that are slow to send small ones shut out nobody.
	maxMemory, eachMemory        = 12 * (maxBody + eachMemory), requestMemory + maxBatch*messageMemory
	requestMemory, messageMemory = 128 << 10, 1 << 10
	// maxPartition bounds the bodies with messages on one partition, some 140 small ones. Five
	// partitions that confirm nothing shut out no other, but for those that lists name beside them.
	maxPartition = 2 * (maxBody + eachMemory)
	// publishTimeout bounds the wait for the broker's confirms.
	publishTimeout = 10 * time.Second
	// retryAfter is the client's pause before it tries again, in seconds.
	retryAfter = 1
)

// Config is the configuration of a Handler. Broker must be set.
type Config struct {
	Broker     queue.Broker
	KnowsPage  func(page string) bool // reports whether a page has a token; nil: this program does not know
	MaxBacklog int                    // messages that may wait on a page's partition and its lanes when more are taken; 0: any number
	Registerer prometheus.Registerer  // nil: metrics go nowhere
	Log        *slog.Logger           // nil: no log
	Now        func() time.Time       // nil: time.Now
}

// Handler serves POST /messages, for the admin port. The body is a message as
// docs/protocol.md has it, or a list of up to 1,000:
//
//	202 {"ids": […]}                  all are confirmed; "warning": that no page was looked up
//	400 {"error": …, "field": …}      a field is wrong; nothing was published
//	429, with Retry-After             too much waits for a page; nothing was published
//	503, with Retry-After and ids     the broker did not confirm all: repeat with these ids
//
// The header Idempotency-Key is a message's id, where the body has none. The zero value is
// not useful; New makes a Handler. Safe for concurrent use.
type Handler struct {
	cfg     Config
	memory  *semaphore.Weighted
	backlog *backlog
	taken   map[int]prometheus.Counter // requests by status

	mu   sync.Mutex
	busy map[int]int64 // memory of the requests that are published, by partition
}

// New returns a Handler, or an error that names the wrong field.
func New(cfg Config) (*Handler, error) {
	if cfg.Broker == nil || cfg.MaxBacklog < 0 {
		return nil, errors.New("new submit handler: Broker must be set, and MaxBacklog not negative")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	set := metric.Set{Subsystem: "submit", Registerer: cfg.Registerer}
	return &Handler{
		cfg: cfg, memory: semaphore.NewWeighted(maxMemory), busy: make(map[int]int64),
		taken:   metric.Counters(set.CounterVec("requests_total", "Requests to POST /messages, by the answer's status.", "status"), 202, 400, 413, 429, 503),
		backlog: &backlog{broker: cfg.Broker, now: cfg.Now, known: make(map[int]depth)},
	}, nil
}

// unchecked is the warning of a program without a pages file.
const unchecked = "this program has no pages file: a message of a page without a token is dead after five minutes"

// refusal is an answer other than 202.
type refusal struct {
	status       int
	field, error string
}

func wrong(field, format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, field, fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body := http.StatusAccepted, map[string]any{}
	ids, no := h.serve(w, r)
	if ids != nil {
		body["ids"] = ids
	}
	if no == nil && h.cfg.KnowsPage == nil {
		body["warning"] = unchecked
	}
	if no != nil {
		status, body["error"] = no.status, no.error
		if no.field != "" {
			body["field"], body["error"] = no.field, no.field+": "+no.error
		}
	}
	h.taken[status].Inc()
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		h.cfg.Log.DebugContext(r.Context(), "answer to a request not written", "err", err)
	}
}

// serve returns the ids of what was given to the broker, and why the answer is not 202.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (ids []string, no *refusal) {
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, "", fmt.Sprintf("the body has more than %d bytes", maxBody)}
	size := int64(maxBody + eachMemory)
	switch {
	case r.ContentLength > maxBody:
		return nil, tooLarge
	case r.ContentLength >= 0:
		size = r.ContentLength + eachMemory
	}
	if !h.memory.TryAcquire(size) {
		return nil, &refusal{http.StatusServiceUnavailable, "", "too many bodies at a time"}
	}
	defer func() { h.memory.Release(size) }()
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, is := errors.AsType[*http.MaxBytesError](err); is {
		return nil, tooLarge
	}
	if err != nil {
		return nil, wrong("body", "%v", err)
	}
	list, no := read(raw, r.Header.Get("Idempotency-Key"), h.cfg.Now(), h.cfg.KnowsPage)
	if no != nil {
		return nil, no
	}
	if kept := int64(len(raw) + requestMemory + len(list)*messageMemory); kept < size {
		h.memory.Release(size - kept)
		size = kept
	}
	audit.Note(r.Context(), slog.Int("messages", len(list)))
	ids = make([]string, len(list))
	on := make(map[int]bool)
	for i, o := range list {
		ids[i] = o.ID
		on[h.cfg.Broker.Topology().PartitionOf(o.Page)] = true
	}
	if !h.count(on, size) {
		return nil, &refusal{http.StatusServiceUnavailable, "", "too many requests for the same partition are not confirmed yet"}
	}
	defer h.count(on, -size)
	if no := h.backlog.check(r.Context(), list, h.cfg.MaxBacklog); no != nil {
		return nil, no
	}
	return ids, h.publish(r, list)
}

// count adds a request's size to its partitions, or takes it off if it is negative. It
// returns false, and adds nothing, if one has no room.
func (h *Handler) count(on map[int]bool, size int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for partition := range on {
		if h.busy[partition]+size > maxPartition {
			return false
		}
	}
	for partition := range on {
		h.busy[partition] += size
	}
	return true
}

// publish publishes messages, each on its page's partition.
func (h *Handler) publish(r *http.Request, list []message.Outbound) *refusal {
	trace := message.CarryTrace(nil, map[string]string{message.HeaderTrace: r.Header.Get(message.HeaderTrace)})
	msgs := make([]queue.Message, len(list))
	for i, o := range list {
		body, err := o.Encode()
		if err != nil {
			return wrong("body", "%v", err)
		}
		msgs[i] = queue.Message{Queue: h.cfg.Broker.Topology().OutboundOf(o.Page), ID: o.ID, Body: body, Headers: trace}
	}
	// A begun publish is ended, though the client may be gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), publishTimeout)
	defer cancel()
	if err := h.cfg.Broker.Publish(ctx, msgs...); err != nil {
		h.cfg.Log.WarnContext(r.Context(), "messages are not confirmed", "messages", len(msgs), "err", err)
		return &refusal{http.StatusServiceUnavailable, "", "the broker did not confirm all; repeat the request with these ids"}
	}
	return nil
}
