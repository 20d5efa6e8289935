package dispatch

import (
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
	InFlight int        `json:"in_flight"`       // calls
	Refused  int        `json:"refused"`         // calls refused since it was last free
}

// viewer is a gate that can be looked into.
type viewer interface {
	Views(limit int) []excess.View
}

// busyPages are the pages that are not simply free.
func (d *Dispatcher) busyPages() []BusyPage {
	pages := []BusyPage{}
	v, ok := d.Gate.(viewer)
	if !ok {
		return pages
	}
	for _, p := range v.Views(listLimit) {
		b := BusyPage{Page: p.Page, Class: p.Class, State: "excess", Pace: math.Round(10*p.Pace) / 10, InFlight: p.InFlight, Refused: p.Refused}
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
//	GET  /pages              → {"busy": [BusyPage, …], "stopped": [StoppedPage, …]}, at most 1000 each
//	POST /pages/{id}/resume  → 204 when the page was stopped, otherwise 404
//
// What it tells and changes is this replica's alone.
func (d *Dispatcher) PagesHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pages", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := struct {
			Busy    []BusyPage    `json:"busy"`
			Stopped []StoppedPage `json:"stopped"`
		}{d.busyPages(), d.stops.list(listLimit)}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			d.Log.Debug("answer GET /pages", "err", err)
		}
	})
	mux.HandleFunc("POST /pages/{id}/resume", func(w http.ResponseWriter, r *http.Request) {
		page := r.PathValue("id")
		if !d.stops.resume(page) {
			http.Error(w, "page is not stopped on this replica", http.StatusNotFound)
			return
		}
		d.Log.Info("page resumed by request", "page", page)
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// Ready returns nil while calls to the API are possible, otherwise why not.
func (d *Dispatcher) Ready() error {
	if d.valve.isShut() {
		return errAPIDown
	}
	return d.Broker.Ready()
}
