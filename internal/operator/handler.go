// Package operator is the operators' HTTP API: pages, rooms, reports, pauses,
// bans, deletions and broadcasts, as JSON. It guarantees that
//
//   - the answer to a wrong request names the wrong field;
//   - all requests but those about broadcasts take at most two database connections
//     from the events, and end within ten seconds.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"chatclub/internal/broadcast"
	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/rooms"
)

const (
	// maxRequest is far more than a request with the longest text needs.
	maxRequest = 64 << 10
	// maxQueries leaves the database connections to events.
	maxQueries = 2
	// queryTimeout bounds a query, including its wait for one of maxQueries. It
	// is the time that rooms gives one operation.
	queryTimeout = 10 * time.Second
)

// Store is the part of rooms.Store that a Handler needs. Each method is
// described there.
type Store interface {
	Pages(ctx context.Context, after string, limit int) ([]rooms.PageView, error)
	PausedPages(ctx context.Context, limit int) ([]rooms.PageView, error)
	Resume(ctx context.Context, page string, at time.Time) error
	Ban(ctx context.Context, page, psid string, until time.Time) error
	Forget(ctx context.Context, page, psid string) error
	Rooms(ctx context.Context, page string, after, limit int) ([]rooms.RoomView, error)
	FindEvents(ctx context.Context, page, id string) ([]rooms.EventView, error)
	FindPeople(ctx context.Context, page, psid string) ([]rooms.PersonView, error)
	Reports(ctx context.Context, page string, after rooms.ReportView, limit int) ([]rooms.ReportView, error)
	Broadcasts() rooms.Broadcasts
}

// Config is the configuration of a Handler. Store, Scheduler, Give and Orders must
// be set.
type Config struct {
	Store     Store
	Scheduler *broadcast.Scheduler
	Give      func(context.Context, orders.Order) error // has every dispatcher and core obey an order
	Orders    func(page string) *orders.Page            // the orders about a page, nil if there are none
	MaxRate   func(page string) float64                 // messages per second that the platform takes for a page, in texts; nil, or 0: any number
	Log       *slog.Logger                              // nil: no log
	Now       func() time.Time                          // default time.Now
}

// withDefaults returns c with its defaults filled in, or an error that names the missing
// fields.
func (c Config) withDefaults() (Config, error) {
	if c.Store == nil || c.Scheduler == nil || c.Give == nil || c.Orders == nil {
		return c, errors.New("Store, Scheduler, Give and Orders must be set")
	}
	if c.MaxRate == nil {
		c.MaxRate = func(string) float64 { return 0 }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

// Handler serves the API, for the admin port:
//
//	GET    /pages?after=&limit=            pages with members, messages per hour, and how much of the quota is used
//	GET    /pauses?limit=                  the pages that core pauses by itself: the token is lost, or Meta blocks the page
//	POST   /pages/{page}/pause             {"for": "1h", "reason": "…"}; without for until resumed
//	POST   /pages/{page}/resume
//	PUT    /pages/{page}/limits            {"text": 80, "media": 5}
//	DELETE /pages/{page}/limits
//	POST   /pages/{page}/users/{psid}/ban  {"for": "24h"} or {"forever": true}
//	DELETE /pages/{page}/users/{psid}/ban
//	DELETE /pages/{page}/users/{psid}      deletes all that is kept of a user, except a ban
//	GET    /rooms?page=&after=&limit=      rooms of a page with members and messages per hour
//	GET    /reports?page=&after=&limit=    users' reports, the latest first; after is the next of the answer before
//	GET    /messages?mid=&page=            what core knows of a message, for a day; without a page on all pages
//	GET    /people?psid=&page=             what keeps copies from a person; without a page on all pages
//	POST   /broadcast                      see BroadcastRequest; answered 202
//	GET    /broadcasts?page=&limit=        broadcasts of the last week, the newest first
//	GET    /broadcasts/{id}                the progress of one
//	DELETE /broadcasts/{id}                stops it; queued messages go out
//
// A wrong request is answered 400, 404 for an unknown page, room, user or broadcast,
// 409 for an id that is taken, with {"error": "field: what is wrong", "field": "field"}.
// If the database is away, the answer is 503.
//
// The zero value is not useful; New makes a Handler. Safe for concurrent use.
type Handler struct {
	cfg     Config
	mux     *http.ServeMux
	queries chan struct{} // holds an element for each query in progress
}

// New returns a Handler.
func New(cfg Config) (*Handler, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new operator handler: %w", err)
	}
	h := &Handler{cfg: cfg, mux: http.NewServeMux(), queries: make(chan struct{}, maxQueries)}
	h.handle("GET /pages", h.limited(h.getPages))
	for _, pattern := range orders.Patterns() {
		h.handle(pattern, h.postOrder)
	}
	h.handle("POST /pages/{page}/users/{psid}/ban", h.limited(h.postBan))
	h.handle("DELETE /pages/{page}/users/{psid}/ban", h.limited(h.deleteBan))
	h.handle("DELETE /pages/{page}/users/{psid}", h.limited(h.deleteUser))
	h.handle("GET /rooms", h.limited(h.getRooms))
	h.handle("GET /reports", h.limited(h.getReports))
	h.handle("GET /messages", h.limited(h.getMessages))
	h.handle("GET /pauses", h.limited(h.getPauses))
	h.handle("GET /people", h.limited(h.getPeople))
	h.handle("POST /broadcast", h.postBroadcast)
	h.handle("GET /broadcasts", h.getBroadcasts)
	h.handle("GET /broadcasts/{id}", h.getBroadcast)
	h.handle("DELETE /broadcasts/{id}", h.deleteBroadcast)
	return h, nil
}

// Patterns returns the patterns of http.ServeMux for everything that a Handler
// serves.
func Patterns() []string {
	return []string{"/pages", "/pages/", "/pauses", "/rooms", "/reports", "/messages", "/people", "/broadcast", "/broadcasts", "/broadcasts/"}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// endpoint returns the answer to a request: a value for JSON, or nil.
type endpoint func(*http.Request) (any, error)

func (h *Handler) handle(pattern string, serve endpoint) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		var answer any
		err := checkIDs(r)
		if err == nil {
			answer, err = serve(r)
		}
		h.respond(w, r, answer, err)
	})
}

// limited returns serve with the bounds of queries.
func (h *Handler) limited(serve endpoint) endpoint {
	return func(r *http.Request) (any, error) {
		ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
		defer cancel()
		select {
		case h.queries <- struct{}{}:
			defer func() { <-h.queries }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return serve(r.WithContext(ctx))
	}
}

// listed returns a list, never nil: JSON then has [].
func listed[V any](list []V) []V { return append([]V{}, list...) }

// accepted is an answer about something that will happen later.
type accepted struct{ answer any }

// respond writes the answer, or the error in place of it.
func (h *Handler) respond(w http.ResponseWriter, r *http.Request, answer any, err error) {
	status := http.StatusOK
	if a, ok := answer.(accepted); ok {
		status, answer = http.StatusAccepted, a.answer
	}
	if err != nil {
		status, answer = h.errorAnswer(r, err)
	}
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		h.cfg.Log.DebugContext(r.Context(), "answer to an operator not written", "err", err)
	}
}

// errorAnswer returns the status and the JSON of an error.
func (h *Handler) errorAnswer(r *http.Request, err error) (status int, answer any) {
	a := struct {
		Error string `json:"error"`
		Field string `json:"field,omitempty"`
	}{Error: err.Error()}
	wrong, ok := errors.AsType[*fieldError](err)
	badField, bad := errors.AsType[*message.FieldError](err)
	switch {
	case ok:
		status, a.Field = wrong.status, wrong.field
	case bad:
		status, a.Field, a.Error = http.StatusBadRequest, badField.Field, badField.Field+": "+badField.Problem
	case errors.Is(err, rooms.ErrData):
		status = http.StatusBadRequest
	default:
		status, a.Error = http.StatusServiceUnavailable, "the database does not answer"
		if errors.Is(err, errGive) {
			a.Error = "the broker does not confirm the order; repeat it"
		}
		h.cfg.Log.WarnContext(r.Context(), "operator's request failed", "path", r.URL.Path, "err", err)
	}
	return status, a
}
