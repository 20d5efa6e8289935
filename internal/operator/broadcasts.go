package operator

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"chatclub/internal/audit"
	"chatclub/internal/broadcast"
	"chatclub/internal/message"
	"chatclub/internal/plaintext"
	"chatclub/internal/rooms"
)

const (
	// defaultRate leaves nine tenths of a page's 300 calls a second to the users'
	// messages.
	defaultRate = 30
	// maxDeadline is the platform's window. A user who wrote last before it can no
	// longer be sent to.
	maxDeadline    = rooms.Window
	maxBroadcastID = 64
)

// BroadcastRequest is the body of POST /broadcast: a text to the members of a room
// or of all rooms of a page. It is sent with the capacity that everything else
// leaves.
type BroadcastRequest struct {
	Page     string    `json:"page"`
	Room     int       `json:"room"` // its number; 0: all rooms of the page
	Text     string    `json:"text"`
	Rate     float64   `json:"rate"`     // messages per second at most; default 30, or the platform's limit if lower
	Deadline time.Time `json:"deadline"` // not sent afterwards; default in an hour, at most in 24
	Within   string    `json:"within"`   // the deadline as a time from the start, such as 2h; instead of Deadline
	ID       string    `json:"id"`       // default a new one
}

// withDefaults returns q with missing fields filled in, except the deadline, or
// an error that names the wrong field.
func (q BroadcastRequest) withDefaults(maxRate float64) (BroadcastRequest, error) {
	q.Text = plaintext.Clean(q.Text)
	switch {
	case q.Page == "":
		return q, badField("page", "must be given")
	case q.Room < 0:
		return q, badField("room", "must be a room's number, or 0 for all")
	case q.Text == "":
		return q, badField("text", "must have something readable")
	}
	q.Rate = cmp.Or(q.Rate, min(defaultRate, maxRate))
	if !(q.Rate > 0 && q.Rate <= maxRate) {
		return q, badField("rate", "must be above 0 and at most %g messages per second", maxRate)
	}
	if q.Within != "" {
		if !q.Deadline.IsZero() {
			return q, badField("within", "must not be given beside deadline")
		}
		if _, err := span("within", q.Within); err != nil {
			return q, err
		}
	}
	q.ID = cmp.Or(q.ID, rand.Text())
	if len(q.ID) > maxBroadcastID || strings.ContainsFunc(q.ID, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) || q.ID == "." || q.ID == ".." {
		return q, badField("id", "must have at most %d ASCII characters, no space and no slash", maxBroadcastID)
	}
	return q, nil
}

// checkDeadline refuses a deadline that the broadcast cannot meet with so many
// recipients.
func (q BroadcastRequest) checkDeadline(now time.Time, recipients int) error {
	field, left := "deadline", q.Deadline.Sub(now)
	if q.Within != "" {
		field = "within"
	}
	if left <= 0 || left > maxDeadline {
		return badField(field, "must be within the next %.0f hours", maxDeadline.Hours())
	}
	parts := len(broadcast.Parts(q.Text))
	if takes := float64(recipients*parts) / q.Rate; takes > left.Seconds() {
		return badField(field, "%d recipients × %d messages take %.0f s at rate %g, but %v is left",
			recipients, parts, takes, q.Rate, left.Round(time.Second))
	}
	return nil
}

// describes reports whether q is the request for the stored broadcast. A request
// without a deadline matches any, also a deadline within a time from its start: the
// request may be repeated later.
func (q BroadcastRequest) describes(b rooms.Broadcast) bool {
	return q.Page == b.Page && q.Room == b.Room && q.Text == b.Text && q.Rate == b.Rate &&
		(q.Deadline.IsZero() || q.Deadline.UnixMilli() == b.Deadline.UnixMilli())
}

// postBroadcast adds a broadcast. The same request with the same id is answered
// with the state of the broadcast.
func (h *Handler) postBroadcast(r *http.Request) (any, error) {
	var q BroadcastRequest
	if err := message.ReadBody(r.Body, &q); err != nil {
		return nil, err
	}
	if err := checkText("page", q.Page, maxID); err != nil {
		return nil, err
	}
	audit.Note(r.Context(), slog.String("page", q.Page), slog.Int("room", q.Room))
	q, err := q.withDefaults(cmp.Or(h.cfg.MaxRate(q.Page), math.Inf(1)))
	if err != nil {
		return nil, err
	}
	stored, err := h.cfg.Store.Broadcasts().Get(r.Context(), q.ID)
	if errors.Is(err, rooms.ErrUnknown) {
		stored, err = h.addBroadcast(r.Context(), q)
	}
	switch {
	case err != nil:
		return nil, err
	case !q.describes(stored):
		return nil, &fieldError{http.StatusConflict, "id", "is that of a broadcast with another page, room, text, rate or deadline"}
	}
	audit.Note(r.Context(), slog.String("broadcast", stored.ID), slog.Int("recipients", stored.Recipients))
	return accepted{map[string]any{"id": stored.ID, "recipients": stored.Recipients, "state": stored.State}}, nil
}

// addBroadcast returns the broadcast that is stored under the id. That is another
// one if it was stored in between.
func (h *Handler) addBroadcast(ctx context.Context, q BroadcastRequest) (rooms.Broadcast, error) {
	recipients, err := h.cfg.Store.Broadcasts().Audience(ctx, q.Page, q.Room)
	if err != nil && q.Room != 0 {
		return rooms.Broadcast{}, unknown(err, "room", "unknown on this page")
	}
	if err != nil {
		return rooms.Broadcast{}, unknown(err, "page", "unknown")
	}
	now := h.cfg.Now()
	if q.Deadline.IsZero() {
		within := time.Hour
		if q.Within != "" {
			if within, err = span("within", q.Within); err != nil {
				return rooms.Broadcast{}, err
			}
		}
		q.Deadline = now.Add(within).Truncate(time.Millisecond)
	}
	if err := q.checkDeadline(now, recipients); err != nil {
		return rooms.Broadcast{}, err
	}
	return h.cfg.Scheduler.Add(ctx, rooms.Broadcast{
		ID: q.ID, Page: q.Page, Room: q.Room, Text: q.Text, Rate: q.Rate, Deadline: q.Deadline, Recipients: recipients,
	})
}

func (h *Handler) getBroadcasts(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	stored, err := h.cfg.Store.Broadcasts().List(r.Context(), r.URL.Query().Get("page"), limit)
	if err != nil {
		return nil, unknown(err, "page", "unknown")
	}
	return map[string]any{"broadcasts": listed(stored)}, nil
}

func (h *Handler) getBroadcast(r *http.Request) (any, error) {
	b, err := h.cfg.Store.Broadcasts().Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, unknown(err, "broadcast", "unknown")
	}
	return b, nil
}

func (h *Handler) deleteBroadcast(r *http.Request) (any, error) {
	b, err := h.cfg.Scheduler.Stop(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, unknown(err, "broadcast", "unknown")
	}
	return b, nil
}
