package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"time"

	"chatclub/internal/excess"
)

// listLimit bounds each list in the answer of GET /pages.
const listLimit = 1000

// Status is what a dispatcher knows at a moment, the answer of GET /pages. Numbers
// of what happened grow from when the page was last forgotten, a minute after it
// had nothing to do.
type Status struct {
	InFlight   int             `json:"in_flight"`  // calls
	Limit      int             `json:"limit"`      // calls at a time
	APIDown    bool            `json:"api_down"`   // the API takes no calls, and is probed
	Partitions []int           `json:"partitions"` // of which something was delivered lately
	Pages      []PageStatus    `json:"pages"`      // those in excess first, then those with the most calls
	Suspended  []SuspendedPage `json:"suspended"`
}

// PageStatus is one page and class.
type PageStatus struct {
	Page     string     `json:"page"`
	Class    string     `json:"class"`
	Since    *time.Time `json:"since,omitempty"` // in excess
	Lanes    []string   `json:"lanes,omitempty"` // queues
	Sick     bool       `json:"sick,omitempty"`  // calls for it fail, and it is probed
	Limit    float64    `json:"limit"`           // calls per second, as the settings say
	Pace     float64    `json:"pace"`            // calls per second
	Waiting  int        `json:"waiting"`         // messages in this replica's hands and in no call
	Oldest   float64    `json:"oldest"`          // age in seconds of the first of them that may be sent
	InFlight int        `json:"in_flight"`       // calls
	Arrived  int64      `json:"arrived"`         // messages
	Sent     int64      `json:"sent"`            // messages
	Calls    int64      `json:"calls"`           // that were accepted
	Refused  int64      `json:"refused"`         // calls
	Waited   float64    `json:"waited"`          // seconds from when messages were made to their calls, of all sent together
}

// askTimeout bounds the wait for the engine, which answers between two steps.
const askTimeout = time.Second

// ask returns the engine's answer, or none when that does not run.
func ask[T any](ctx context.Context, d *Dispatcher, question func(*engine) T, none T) T {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer := make(chan T, 1)
	select {
	case d.posts <- func(e *engine) { answer <- question(e) }:
		return <-answer
	case <-ctx.Done():
		return none
	}
}

// answer writes what a request of the admin port gets.
func (d *Dispatcher) answer(w http.ResponseWriter, r *http.Request, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		d.Log.Debug("answer a request", "pattern", r.Pattern, "err", err)
	}
}

// status asks the engine; it has no pages when that does not run.
func (d *Dispatcher) status(ctx context.Context) Status {
	s := ask(ctx, d, (*engine).status, Status{Partitions: []int{}, Pages: []PageStatus{}})
	slices.SortFunc(s.Pages, func(a, b PageStatus) int { // here, and not where the engine would wait for it
		return cmp.Or(
			cmp.Compare(a.rank(), b.rank()), cmp.Compare(b.Calls+b.Refused, a.Calls+a.Refused),
			cmp.Compare(a.Page, b.Page), cmp.Compare(a.Class, b.Class),
		)
	})
	s.Pages = s.Pages[:min(listLimit, len(s.Pages))]
	s.Suspended = d.suspended.list(listLimit)
	return s
}

// rank orders pages: those in excess come first.
func (p PageStatus) rank() int {
	if p.Since != nil {
		return 0
	}
	return 1
}

func (e *engine) status() Status {
	now := e.Now()
	s := Status{
		InFlight: e.calls.inFlight, Limit: e.calls.limit.Limit(), APIDown: e.breaker.IsOpen(), Partitions: e.sources.owned(now),
		Pages: make([]PageStatus, 0, len(e.pages.traffic)),
	}
	lanes := make(map[excess.Key][]string)
	for _, k := range e.lanes.list {
		lanes[k.line.key] = append(lanes[k.line.key], k.queue)
	}
	for k, t := range e.pages.traffic {
		v := e.gate.View(k)
		p := PageStatus{
			Page: k.Page, Class: k.Class, Sick: e.breaker.IsPageOpen(k.Page), Limit: e.Limit(k.Class), Pace: math.Round(10*v.Pace) / 10, InFlight: v.InFlight,
			Arrived: t.arrived, Sent: t.sent, Calls: t.calls, Refused: t.refused, Waited: t.waited.Seconds(),
			Lanes: lanes[k],
		}
		if l := e.pages.lines[k]; l != nil {
			p.Waiting = l.waiting
			if len(l.ready) > 0 {
				p.Oldest = l.ready[0].msgs[0].out.Age(now).Seconds()
			}
		}
		if !v.Since.IsZero() {
			p.Since = &v.Since
		}
		s.Pages = append(s.Pages, p)
	}
	return s
}

// PagesHandler serves the dispatcher's view of its pages for the admin port:
//
//	GET  /pages              → a Status, with at most 1000 in each list
//	POST /pages/{id}/resume  → 204 when the page was suspended, otherwise 404 and {"error": "…"}
//
// What it tells and changes is this replica's alone.
func (d *Dispatcher) PagesHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pages", func(w http.ResponseWriter, r *http.Request) {
		d.answer(w, r, http.StatusOK, d.status(r.Context()))
	})
	mux.HandleFunc("POST /pages/{id}/resume", func(w http.ResponseWriter, r *http.Request) {
		page := r.PathValue("id")
		if !d.suspended.resume(page, d.Now()) {
			d.answer(w, r, http.StatusNotFound, map[string]string{"error": "page: not suspended on this replica"})
			return
		}
		d.Log.Info("page resumed by request", "page", page)
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
