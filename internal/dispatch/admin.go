package dispatch

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"time"

	"chatclub/internal/excess"
)

// listLimit bounds each list in the answer of GET /pages.
const listLimit = 1000

// BusyPage is a page in excess, or one that this replica sends for.
type BusyPage struct {
	Page     string     `json:"page"`
	Class    string     `json:"class"`
	State    string     `json:"state"`           // excess, owner
	Since    *time.Time `json:"since,omitempty"` // in excess
	Pace     float64    `json:"pace,omitempty"`  // calls per second, of an owner
	Waiting  int        `json:"waiting"`         // messages in this replica's hands and in no call
	InFlight int        `json:"in_flight"`       // calls
	Refused  int        `json:"refused"`         // calls refused since it was last free
}

// viewer is a gate that tells which of its pages are not free.
type viewer interface {
	Views(limit int) []excess.View
}

// askTimeout bounds the wait for the engine, which answers between two steps.
const askTimeout = time.Second

// waitingNow asks the engine how many messages of each page wait in its hands;
// nil when it does not run.
func (d *Dispatcher) waitingNow(ctx context.Context) map[excess.Key]int {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer := make(chan map[excess.Key]int, 1)
	select {
	case d.asks <- answer:
		return <-answer
	case <-ctx.Done():
		return nil
	}
}

// waiting counts the messages in hand by page.
func (e *engine) waiting() map[excess.Key]int {
	n := make(map[excess.Key]int)
	for id, q := range e.pages {
		n[id.Key] += q.waiting()
	}
	return n
}

// busyPages returns the pages that are not simply free.
func (d *Dispatcher) busyPages(ctx context.Context) []BusyPage {
	pages := []BusyPage{}
	v, ok := d.Gate.(viewer)
	if !ok {
		return pages
	}
	views := v.Views(listLimit)
	if len(views) == 0 {
		return pages
	}
	waiting := d.waitingNow(ctx)
	for _, p := range views {
		b := BusyPage{
			Page: p.Page, Class: p.Class, State: "excess", Pace: math.Round(10*p.Pace) / 10,
			Waiting: waiting[p.Key], InFlight: p.InFlight, Refused: p.Refused,
		}
		if p.Owned {
			b.State = "owner"
		}
		if !p.Since.IsZero() {
			b.Since = &p.Since
		}
		pages = append(pages, b)
	}
	return pages
}

// PagesHandler serves the dispatcher's view of its pages for the admin port:
//
//	GET  /pages              → {"busy": [BusyPage, …], "stopped": [SuspendedPage, …]}, at most 1000 each
//	POST /pages/{id}/resume  → 204 when the page was suspended, otherwise 404
//
// It shows and changes the state of this replica alone.
func (d *Dispatcher) PagesHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pages", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := struct {
			Busy    []BusyPage      `json:"busy"`
			Stopped []SuspendedPage `json:"stopped"`
		}{d.busyPages(r.Context()), d.suspended.list(listLimit)}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			d.Log.Debug("answer GET /pages", "err", err)
		}
	})
	mux.HandleFunc("POST /pages/{id}/resume", func(w http.ResponseWriter, r *http.Request) {
		page := r.PathValue("id")
		if !d.suspended.resume(page) {
			http.Error(w, "page is not suspended on this replica", http.StatusNotFound)
			return
		}
		d.Log.Info("page resumed by request", "page", page)
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// Ready returns nil while calls to the API are possible, otherwise why not.
func (d *Dispatcher) Ready() error {
	if open, _ := d.breaker.State(); open {
		return errAPIDown
	}
	if d.unanswered.Load() {
		return errAPISilent
	}
	return d.Broker.Ready()
}
