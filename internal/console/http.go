package console

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"chatclub/fakeapi/web/parts"
	"chatclub/internal/audit"
	"chatclub/internal/message"
)

// static holds the page's files beside the parts that it has in common with the
// fake platform's. It loads nothing from elsewhere.
//
//go:embed static
var static embed.FS

// Handler serves the page at /, its parts below /web/, and
//
//	GET  /state          a stream: "state" for each State, "phones" when one changed
//	POST /actions/NAME   {"page":"…"}, {"dispatcher":"…"} or {}: does it; answers {"receipt":7}
//
// and, beside a deployment, what deadLetters.mount and login.protect say. With a Demo, what is asked about phones, the ledger and the platform's settings is
// answered by the platform. It has no guard against other sites: put it behind one.
func (k *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { serve(w, r, "index.html") })
	serveParts(mux)
	mux.HandleFunc("GET /state", k.stream)
	mux.HandleFunc("POST /actions/{name}", k.act)
	if k.dead != nil {
		k.dead.mount(mux)
	}
	if d := k.cfg.Demo; d != nil {
		for _, pattern := range []string{"/phones", "/phones/", "/pictures/", "/ledger", "/ledger/", "/control"} {
			mux.HandleFunc(pattern, d.Forward)
		}
	}
	if k.login != nil {
		return k.login.protect(mux)
	}
	return mux
}

// serveParts serves the page's parts, and the icon: a browser asks for it on its own, also
// beside a refusal.
func serveParts(mux *http.ServeMux) {
	mux.HandleFunc("GET /web/{name...}", func(w http.ResponseWriter, r *http.Request) { serve(w, r, r.PathValue("name")) })
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, r *http.Request) { serve(w, r, "icon.svg") })
}

// serve answers with a file.
func serve(w http.ResponseWriter, r *http.Request, name string) {
	body, header := parts.Find(static, name)
	if body == nil {
		http.NotFound(w, r)
		return
	}
	for name, value := range header {
		w.Header().Set(name, value)
	}
	_, _ = w.Write(body) //nolint:gosec // an embedded file, of a type of ours; the reader may be gone
}

// writeTimeout ends the stream of a reader that takes nothing.
const writeTimeout = 10 * time.Second

// stream sends states, and the phones' changes, until the reader is gone.
func (k *Console) stream(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	send := func(event string, data []byte) error {
		if err := out.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data); err != nil {
			return err
		}
		return out.Flush()
	}
	var rev uint64
	var phones <-chan struct{} // nil: there are none
	for {
		if k.login != nil && !k.login.isIn(r) { // the session has ended
			_ = send("login", []byte("{}"))
			return
		}
		k.mu.Lock()
		latest, changed := k.latest, k.changed
		k.mu.Unlock()
		if send("state", latest) != nil {
			return
		}
		for again := true; again; {
			if d := k.cfg.Demo; d != nil {
				var list any
				before := rev
				if list, rev, phones = d.Phones(rev); rev != before {
					b, err := json.Marshal(list)
					if err != nil || send("phones", b) != nil {
						return
					}
				}
			}
			select {
			case <-changed:
				again = false
			case <-phones:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// maxBody bounds the body of an action.
const maxBody = 4 << 10

// act does an action.
func (k *Console) act(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if k.cfg.Demo == nil && k.login == nil {
		refuse(w, http.StatusForbidden, onlyShows)
		return
	}
	var on Target
	err := message.ReadBody(io.LimitReader(r.Body, maxBody), &on)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body is not what an action is told: "+err.Error())
		return
	}
	audit.Note(r.Context(), slog.String("page", on.Page))
	receipt := 0
	if k.cfg.Demo != nil {
		receipt, err = k.cfg.Demo.Act(r.Context(), name, on)
	} else {
		err = k.operate(r.Context(), name, on.Page)
	}
	switch {
	case errors.Is(err, ErrUnknown):
		refuse(w, http.StatusNotFound, err.Error())
	case err != nil:
		refuse(w, http.StatusConflict, err.Error())
	default:
		answerJSON(w, http.StatusOK, map[string]int{"receipt": receipt})
	}
}

// ErrUnknown is the error of an action that does not exist.
var ErrUnknown = errors.New("there is no such action")

// onlyShows is the answer to an action on a page without a password.
const onlyShows = "this page only shows: set ADMIN_TOKEN, and log in"

// refuse answers with an error.
func refuse(w http.ResponseWriter, status int, why string) {
	answerJSON(w, status, map[string]string{"error": why})
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the reader may be gone
}
