package dispatch

import (
	"encoding/json"
	"net/http"
)

// listLimit bounds the answer of GET /pages.
const listLimit = 1000

// PagesHandler serves the dispatcher's view of its pages for the admin port:
//
//	GET  /pages              → {"stopped": [StoppedPage, …]}, at most 1000
//	POST /pages/{id}/resume  → 204 when the page was stopped, otherwise 404
//
// What it tells and changes is this replica's alone.
func (d *Dispatcher) PagesHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pages", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := struct {
			Stopped []StoppedPage `json:"stopped"`
		}{d.stops.list(listLimit)}
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
