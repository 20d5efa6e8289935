package dispatch

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"chatclub/internal/excess"
)

// listLimit bounds each list in the answer of GET /pages.
const listLimit = 1000

// BusyPage is a page in excess, or one that was refused calls.
type BusyPage struct {
	excess.View
	Waiting int `json:"waiting"` // messages in this replica's hands and in no call
}

// askTimeout bounds the wait for the engine, which answers between two steps.
const askTimeout = time.Second

// busyPages asks the engine for the pages that are in excess; none when it does
// not run.
func (d *Dispatcher) busyPages(ctx context.Context) []BusyPage {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer := make(chan []BusyPage, 1)
	select {
	case d.posts <- func(e *engine) { answer <- e.busyPages() }:
		return <-answer
	case <-ctx.Done():
		return []BusyPage{}
	}
}

func (e *engine) busyPages() []BusyPage {
	pages := []BusyPage{}
	for _, v := range e.gate.Views(listLimit) {
		b := BusyPage{View: v}
		if l := e.pages.lines[v.Key]; l != nil {
			b.Waiting = l.waiting
		}
		pages = append(pages, b)
	}
	return pages
}

// PagesHandler serves the dispatcher's view of its pages for the admin port:
//
//	GET  /pages              → {"busy": [BusyPage, …], "suspended": [SuspendedPage, …]}, at most 1000 each
//	POST /pages/{id}/resume  → 204 when the page was suspended, otherwise 404
//
// What it tells and changes is this replica's alone.
func (d *Dispatcher) PagesHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pages", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := struct {
			Busy      []BusyPage      `json:"busy"`
			Suspended []SuspendedPage `json:"suspended"`
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
