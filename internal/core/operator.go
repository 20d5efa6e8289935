package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"chatclub/internal/rooms"
)

// operatorStore is what the operators' requests need of rooms.Store.
type operatorStore interface {
	Pages(ctx context.Context, after string, limit int) ([]rooms.PageView, error)
	Rooms(ctx context.Context, page string, after, limit int) ([]rooms.RoomView, error)
	Reports(ctx context.Context, page string, after rooms.ReportView, limit int) ([]rooms.ReportView, error)
	Ban(ctx context.Context, page, user string, until time.Time) error
}

const (
	// maxRequest is far more than a request with the longest text needs.
	maxRequest = 64 << 10
	// listUsual bounds a list where the request does not, listLimit where it
	// does. Of each page GET /pages counts the people one by one: an index for
	// them would be changed by every event.
	listUsual = 100
	listLimit = 1000
	// requestsAtOnce leaves the database to events, which share its connections.
	requestsAtOnce = 2
	// quotaPerPerson is how much the platform lets a page send in 24 hours for
	// each person that it may send to.
	quotaPerPerson = 200
)

// errField is a fault in a request: its field and what is wrong with it.
type errField struct {
	field, fault string
}

func (e *errField) Error() string { return e.field + ": " + e.fault }

func badField(field, format string, args ...any) error {
	return &errField{field, fmt.Sprintf(format, args...)}
}

// Handler serves the operators, as JSON, for the admin port:
//
//	GET    /pages?after=&limit=            pages with members, messages per hour, and how much of the quota is used
//	POST   /pages/{page}/pause             {"for": "1h", "reason": "…"}; without for until resumed
//	POST   /pages/{page}/resume
//	POST   /pages/{page}/users/{psid}/ban  {"for": "24h"} or {"forever": true}
//	DELETE /pages/{page}/users/{psid}/ban
//	GET    /rooms?page=&after=&limit=      rooms of a page with members and messages per hour
//	GET    /reports?page=&after=&limit=    what users reported, the latest first; after is the next of the answer before
//	POST   /broadcast                      see Broadcast; answered 202
//	GET    /broadcasts?page=&limit=        broadcasts of the last week, the newest first
//	GET    /broadcasts/{id}                how far one is
//	DELETE /broadcasts/{id}                stops it; what is queued goes out
//
// A fault in the request is answered 400 (404 for what is unknown, 409 for an id
// that is taken) and
// {"error": "field: what is wrong", "field": "field"}; a database or broker
// that is away 503.
func (c *Core) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
			var answer any
			err := checkIDs(r)
			if err == nil {
				answer, err = serve(r)
			}
			c.respond(w, r, answer, err)
		})
	}
	turns := make(chan struct{}, requestsAtOnce)
	brief := func(pattern string, serve func(*http.Request) (any, error)) {
		handle(pattern, func(r *http.Request) (any, error) { return inTurn(turns, r, serve) })
	}
	brief("GET /pages", c.getPages)
	brief("POST /pages/{page}/pause", c.postPause)
	brief("POST /pages/{page}/resume", c.postResume)
	brief("POST /pages/{page}/users/{psid}/ban", c.postBan)
	brief("DELETE /pages/{page}/users/{psid}/ban", c.deleteBan)
	brief("GET /rooms", c.getRooms)
	brief("GET /reports", c.getReports)
	handle("POST /broadcast", c.postBroadcast)
	handle("GET /broadcasts", c.getBroadcasts)
	handle("GET /broadcasts/{id}", c.getBroadcast)
	handle("DELETE /broadcasts/{id}", c.deleteBroadcast)
	return mux
}

// inTurn serves a request when one of turns is free, within the time that an
// operation of the database has.
func inTurn(turns chan struct{}, r *http.Request, serve func(*http.Request) (any, error)) (answer any, err error) {
	err = onStore(r.Context(), func(ctx context.Context) error {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-turns }()
		answer, err = serve(r.WithContext(ctx))
		return err
	})
	return answer, err
}

// respond writes the answer, or the error in its place.
func (c *Core) respond(w http.ResponseWriter, r *http.Request, answer any, err error) {
	status := http.StatusOK
	if a, ok := answer.(accepted); ok {
		status, answer = http.StatusAccepted, a.answer
	}
	if err != nil {
		fault := struct {
			Error string `json:"error"`
			Field string `json:"field,omitempty"`
		}{Error: err.Error()}
		field, isField := errors.AsType[*errField](err)
		switch {
		case isField:
			status, fault.Field = http.StatusBadRequest, field.field
		case errors.Is(err, errTaken):
			status, fault.Field = http.StatusConflict, "id"
		case errors.Is(err, rooms.ErrUnknown):
			status = http.StatusNotFound
		case errors.Is(err, rooms.ErrData):
			status = http.StatusBadRequest
		default:
			status, fault.Error = http.StatusServiceUnavailable, "the database does not answer"
			c.cfg.Log.WarnContext(r.Context(), "operator's request", "path", r.URL.Path, "err", err)
		}
		answer = fault
	}
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		c.cfg.Log.DebugContext(r.Context(), "answer operator", "err", err)
	}
}

// decode reads a request's JSON; an empty body is an empty object.
func decode(r *http.Request, into any) error {
	if r.ContentLength == 0 {
		return nil
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return badField(wrong.Field, "must not be a %s", wrong.Value)
	}
	if err != nil {
		return badField("body", "%v", err)
	}
	return nil
}

// limitOf reads how many to list.
func limitOf(r *http.Request) (int, error) { return number(r, "limit", listUsual, 1, listLimit) }

func number(r *http.Request, field string, missing, least, most int) (int, error) {
	text := r.URL.Query().Get(field)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badField(field, "must be a number from %d to %d", least, most)
	}
	return n, nil
}

// listOf reads of which page to list something, and how many.
func listOf(r *http.Request) (page string, limit int, err error) {
	if page = r.URL.Query().Get("page"); page == "" {
		return "", 0, badField("page", "must be given")
	}
	limit, err = limitOf(r)
	return page, limit, err
}

// maxID bounds ids, and the reason of a pause, as package rooms does.
const maxID = 512

// checkIDs names an id in the address that the databases do not take.
func checkIDs(r *http.Request) error {
	query := r.URL.Query()
	for _, id := range []struct{ field, text string }{
		{"page", query.Get("page")},
		{"after", query.Get("after")},
		{"page", r.PathValue("page")},
		{"psid", r.PathValue("psid")},
	} {
		if err := plain(id.field, id.text, maxID); err != nil {
			return err
		}
	}
	return nil
}

// plain refuses what is longer than that, no UTF-8 or holds control characters.
func plain(field, text string, most int) error {
	if len(text) > most || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return badField(field, "must have at most %d bytes of UTF-8 without control characters", most)
	}
	return nil
}

// Operators are the patterns, for http.ServeMux, of all that Handler serves.
func Operators() []string {
	return []string{"/pages", "/pages/", "/rooms", "/reports", "/broadcast", "/broadcasts", "/broadcasts/"}
}

// span reads a duration above zero.
func span(field, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, badField(field, "%.40q must be a time such as 30m or 24h", text)
	}
	return d, nil
}

func (c *Core) postPause(r *http.Request) (any, error) {
	var ask struct {
		For    string `json:"for"`
		Reason string `json:"reason"`
	}
	if err := decode(r, &ask); err != nil {
		return nil, err
	}
	var until time.Time
	if ask.For != "" {
		d, err := span("for", ask.For)
		if err != nil {
			return nil, err
		}
		until = c.cfg.Now().Add(d)
	}
	const by = "operator: "
	if err := plain("reason", ask.Reason, maxID-len(by)); err != nil {
		return nil, err
	}
	return nil, c.cfg.Store.Pause(r.Context(), r.PathValue("page"), by+ask.Reason, time.Time{}, until)
}

func (c *Core) postResume(r *http.Request) (any, error) {
	paused, err := c.cfg.Store.Resume(r.Context(), r.PathValue("page"), time.Time{})
	if err == nil && !paused {
		err = fmt.Errorf("page: %w or not paused", rooms.ErrUnknown)
	}
	return nil, err
}

func (c *Core) postBan(r *http.Request) (any, error) {
	var ask struct {
		For     string `json:"for"`
		Forever bool   `json:"forever"`
	}
	if err := decode(r, &ask); err != nil {
		return nil, err
	}
	if (ask.For == "") == !ask.Forever {
		return nil, badField("for", `either "for": "24h" or "forever": true must be given`)
	}
	var until time.Time
	if !ask.Forever {
		d, err := span("for", ask.For)
		if err != nil {
			return nil, err
		}
		until = c.cfg.Now().Add(d)
	}
	return nil, c.ban(r, until)
}

func (c *Core) deleteBan(r *http.Request) (any, error) { return nil, c.ban(r, c.cfg.Now()) }

func (c *Core) ban(r *http.Request, until time.Time) error {
	err := c.cfg.Store.Ban(r.Context(), r.PathValue("page"), r.PathValue("psid"), until)
	if errors.Is(err, rooms.ErrUnknown) {
		return fmt.Errorf("psid: %w on this page", rooms.ErrUnknown)
	}
	return err
}
