package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"chatclub/internal/audit"
	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/rooms"
)

// Page is a page in the answer of GET /pages.
type Page struct {
	Page            string     `json:"page"`
	Rooms           int        `json:"rooms"`
	Members         int        `json:"members"`
	Audience        int        `json:"audience"` // users that the page may send to: they wrote within 24 hours; counted every minute or so
	MessagesPerHour int        `json:"messages_per_hour"`
	CopiesPerHour   int        `json:"copies_per_hour"`
	Copies24h       int        `json:"copies_24h"`
	Quota24h        int        `json:"quota_24h"`   // the platform wants a page to stay below it
	QuotaShare      float64    `json:"quota_share"` // Copies24h of Quota24h
	Paused          bool       `json:"paused"`
	PausedUntil     *time.Time `json:"paused_until,omitempty"` // missing: until resumed
	PauseReason     string     `json:"pause_reason,omitempty"`
}

// AllPages lists every page, as many at a time as a Handler answers. ask makes a GET
// request of one. An error comes with the known pages.
func AllPages(ask func(path string, answer any) error) (all []Page, err error) {
	for after := ""; ; after = all[len(all)-1].Page {
		var answer struct {
			Pages []Page `json:"pages"`
		}
		if err := ask(fmt.Sprintf("/pages?limit=%d&after=%s", maxLimit, url.QueryEscape(after)), &answer); err != nil {
			return all, err
		}
		all = append(all, answer.Pages...)
		if len(answer.Pages) < maxLimit {
			return all, nil
		}
	}
}

func (h *Handler) getPages(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	pages, err := h.cfg.Store.Pages(r.Context(), r.URL.Query().Get("after"), limit)
	if err != nil {
		return nil, err
	}
	answers := make([]Page, len(pages))
	for i := range pages {
		answers[i] = h.pageAnswer(pages[i])
	}
	return map[string]any{"pages": answers}, nil
}

// Pause is a pause of core's own in the answer of GET /pauses.
type Pause struct {
	Page   string     `json:"page"`
	Until  *time.Time `json:"until,omitempty"` // missing: until resumed
	Reason string     `json:"reason"`
}

func (h *Handler) getPauses(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	pages, err := h.cfg.Store.PausedPages(r.Context(), limit)
	if err != nil {
		return nil, err
	}
	list := make([]Pause, len(pages))
	for i, p := range pages {
		list[i] = Pause{Page: p.Page, Reason: p.PauseReason}
		if !p.PausedUntil.IsZero() {
			list[i].Until = &pages[i].PausedUntil
		}
	}
	return map[string]any{"pauses": list}, nil
}

func (h *Handler) pageAnswer(p rooms.PageView) Page {
	a := Page{
		Page: p.Page, Rooms: p.Rooms, Members: p.Members, Audience: p.Audience, MessagesPerHour: p.Events,
		CopiesPerHour: p.Copies, Copies24h: p.Copies24h, Quota24h: rooms.QuotaPerUser * p.Audience, Paused: p.Paused,
	}
	if p.Audience > 0 {
		a.QuotaShare = math.Round(1e4*float64(p.Copies24h)/float64(a.Quota24h)) / 1e4
	}
	if p.Paused {
		a.PauseReason = p.PauseReason
		if !p.PausedUntil.IsZero() {
			a.PausedUntil = &p.PausedUntil
		}
	}
	if o := h.cfg.Orders(p.Page); o != nil {
		if _, paused := o.Paused(h.cfg.Now()); paused {
			a.Paused, a.PausedUntil, a.PauseReason = true, nil, strings.TrimSuffix("operator: "+o.Reason, ": ")
			if !o.Until.IsZero() {
				a.PausedUntil = &o.Until
			}
		}
	}
	return a
}

// errGive says that an order was not given, because of the broker.
var errGive = errors.New("give order")

// postOrder gives an order about a page: see orders.Read. A resumption also ends core's
// own pause of the page, once dispatchers have the order: they need no database, and do not
// wait for one.
func (h *Handler) postOrder(r *http.Request) (any, error) {
	o, err := orders.Read(r, h.cfg.Now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	if err := h.cfg.Give(ctx, o); err != nil {
		return nil, fmt.Errorf("%w: %w", errGive, err)
	}
	if o.Kind != orders.Resume {
		return nil, nil
	}
	return h.limited(func(r *http.Request) (any, error) {
		return nil, h.cfg.Store.Resume(r.Context(), o.Page, time.Time{})
	})(r.WithContext(ctx))
}

func (h *Handler) postBan(r *http.Request) (any, error) {
	var req struct {
		For     string `json:"for"`
		Forever bool   `json:"forever"`
	}
	if err := message.ReadBody(r.Body, &req); err != nil {
		return nil, err
	}
	if (req.For == "") == !req.Forever {
		return nil, badField("for", `either "for": "24h" or "forever": true must be given`)
	}
	var until time.Time
	if !req.Forever {
		d, err := span("for", req.For)
		if err != nil {
			return nil, err
		}
		until = h.cfg.Now().Add(d)
	}
	return nil, h.ban(r, until)
}

func (h *Handler) deleteBan(r *http.Request) (any, error) { return nil, h.ban(r, h.cfg.Now()) }

func (h *Handler) ban(r *http.Request, until time.Time) error {
	end := slog.Time("until", until)
	if until.IsZero() {
		end = slog.String("until", "forever")
	}
	audit.Note(r.Context(), end)
	err := h.cfg.Store.Ban(r.Context(), r.PathValue("page"), r.PathValue("psid"), until)
	return unknown(err, "psid", "unknown on this page")
}

func (h *Handler) deleteUser(r *http.Request) (any, error) {
	err := h.cfg.Store.Forget(r.Context(), r.PathValue("page"), r.PathValue("psid"))
	return nil, unknown(err, "psid", "unknown on this page")
}
