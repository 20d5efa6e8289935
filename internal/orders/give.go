package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"time"

	"chatclub/internal/audit"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// publishTimeout bounds the broker's confirm of an order.
	publishTimeout = 10 * time.Second
	// maxRequest is far more than a request needs.
	maxRequest = 64 << 10
)

// Give puts an order on the stream. It is in force everywhere a moment after Give has
// returned nil.
func Give(ctx context.Context, b queue.Broker, o Order) error {
	m, err := o.Message(b.Topology())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := b.Publish(ctx, m); err != nil {
		return fmt.Errorf("give order: %w", err)
	}
	return nil
}

// Read returns the order of a request, by the last part of its path:
//
//	POST   /pages/{page}/pause   {"for": "1h", "reason": "…"}; without for until resumed
//	POST   /pages/{page}/resume
//	PUT    /pages/{page}/limits  {"text": 80, "media": 5, "recipient": 0.5}, calls per second; a missing one is as configured
//	DELETE /pages/{page}/limits  all are as configured
//
// The error names every wrong field, each a *message.FieldError.
func Read(r *http.Request, now time.Time) (Order, error) {
	o := Order{Page: r.PathValue("page"), Time: now.UnixMilli()}
	content := io.LimitReader(r.Body, maxRequest)
	var err error
	switch last := path.Base(r.URL.Path); {
	case last == "pause":
		o.Kind = Pause
		var body struct {
			For    string `json:"for"`
			Reason string `json:"reason"`
		}
		err = message.ReadBody(content, &body)
		if o.Reason = body.Reason; err == nil && body.For != "" {
			var d time.Duration
			if d, err = time.ParseDuration(body.For); err != nil || d < time.Millisecond { // the unit of Until
				err = &message.FieldError{Field: "for", Problem: fmt.Sprintf("%.40q must be a time such as 30m or 24h", body.For)}
			}
			o.Until = now.Add(d).UnixMilli()
		}
	case last == "resume":
		o.Kind = Resume
		err = message.ReadBody(content, &struct{}{})
	case r.Method == http.MethodDelete:
		o.Kind = Limit
		err = message.ReadBody(content, &struct{}{})
	default:
		o.Kind = Limit
		if err = message.ReadBody(content, &o.Limits); err == nil && o.Limits == (message.Limits{}) {
			err = &message.FieldError{Field: "body", Problem: "must have a limit: text, media or recipient"}
		}
	}
	if err == nil {
		err = o.Validate()
	}
	if err == nil {
		audit.Note(r.Context(), slog.Duration("for", o.Length()), slog.String("reason", o.Reason), slog.Any("limits", o.Limits))
	}
	return o, err
}

// Handler serves the requests of Read, for an admin port: 204 when the order is given, 400
// with the wrong field, and 503 when the broker does not confirm it.
func Handler(b queue.Broker, now func() time.Time, log *slog.Logger) http.Handler {
	serve := func(w http.ResponseWriter, r *http.Request) {
		status, body := http.StatusNoContent, map[string]string{}
		o, err := Read(r, now())
		if err == nil {
			err = Give(r.Context(), b, o)
		}
		switch wrong, ok := errors.AsType[*message.FieldError](err); {
		case ok:
			status, body["field"], body["error"] = http.StatusBadRequest, wrong.Field, wrong.Field+": "+wrong.Problem
		case err != nil:
			log.WarnContext(r.Context(), "operator's order failed", "page", o.Page, "err", err)
			status, body["error"] = http.StatusServiceUnavailable, "the broker does not confirm the order; repeat it"
		}
		if err != nil {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		if err != nil {
			_ = json.NewEncoder(w).Encode(body) // the client may be gone
		}
	}
	mux := http.NewServeMux()
	for _, pattern := range Patterns() {
		mux.HandleFunc(pattern, serve)
	}
	return mux
}

// Patterns returns the patterns of http.ServeMux for Handler.
func Patterns() []string {
	return []string{"POST /pages/{page}/pause", "POST /pages/{page}/resume", "PUT /pages/{page}/limits", "DELETE /pages/{page}/limits"}
}
