package core

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"chatclub/internal/rooms"
)

// pageJSON is a page in the answer of GET /pages.
type pageJSON struct {
	Page            string     `json:"page"`
	Rooms           int        `json:"rooms"`
	Members         int        `json:"members"`
	Audience        int        `json:"audience"` // people the page may send to: they wrote within 24 hours
	MessagesPerHour int        `json:"messages_per_hour"`
	CopiesPerHour   int        `json:"copies_per_hour"`
	Copies24h       int        `json:"copies_24h"`
	Quota24h        int        `json:"quota_24h"`   // what the platform wants a page to stay below
	QuotaShare      float64    `json:"quota_share"` // Copies24h of Quota24h
	Paused          bool       `json:"paused"`
	PausedUntil     *time.Time `json:"paused_until,omitempty"` // missing: until resumed
	PauseReason     string     `json:"pause_reason,omitempty"`
}

func (c *Core) getPages(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	pages, err := c.cfg.Store.Pages(r.Context(), r.URL.Query().Get("after"), limit)
	if err != nil {
		return nil, err
	}
	list := make([]pageJSON, len(pages))
	for i, p := range pages {
		list[i] = pageJSON{
			Page: p.Page, Rooms: p.Rooms, Members: p.Members, Audience: p.Audience, MessagesPerHour: p.Events,
			CopiesPerHour: p.Copies, Copies24h: p.Copies24h, Quota24h: quotaPerPerson * p.Audience, Paused: p.Paused,
		}
		if p.Audience > 0 {
			list[i].QuotaShare = math.Round(1e4*float64(p.Copies24h)/float64(list[i].Quota24h)) / 1e4
		}
		if p.Paused {
			list[i].PauseReason = p.PauseReason
			if !p.PausedUntil.IsZero() {
				list[i].PausedUntil = &p.PausedUntil
			}
		}
	}
	return map[string]any{"pages": list}, nil
}

// roomJSON is a room in the answer of GET /rooms.
type roomJSON struct {
	Room            int       `json:"room"`
	Code            string    `json:"code,omitempty"`
	Members         int       `json:"members"`
	MessagesPerHour int       `json:"messages_per_hour"`
	CopiesPerHour   int       `json:"copies_per_hour"`
	Opened          time.Time `json:"opened"`
}

func (c *Core) getRooms(r *http.Request) (any, error) {
	page, limit, err := listOf(r)
	if err != nil {
		return nil, err
	}
	after, err := number(r, "after", 0, 0, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	views, err := c.cfg.Store.Rooms(r.Context(), page, after, limit)
	if err != nil {
		return nil, err
	}
	list := make([]roomJSON, len(views))
	for i, v := range views {
		list[i] = roomJSON{v.Room.Number, v.Room.Code, v.Members, v.Events, v.Copies, v.Opened}
	}
	return map[string]any{"page": page, "rooms": list}, nil
}

// reportJSON is a report in the answer of GET /reports.
type reportJSON struct {
	Reporter string    `json:"reporter"`
	Accused  string    `json:"accused"`
	Name     string    `json:"name"` // of the accused, the last time
	Room     int       `json:"room"`
	Times    int       `json:"times"` // how often the reporter reported the accused
	At       time.Time `json:"at"`    // of the last time
}

func (c *Core) getReports(r *http.Request) (any, error) {
	page, limit, err := listOf(r)
	if err != nil {
		return nil, err
	}
	after, err := afterReport(r.URL.Query().Get("after"))
	if err != nil {
		return nil, err
	}
	reports, err := c.cfg.Store.Reports(r.Context(), page, after, limit)
	if err != nil {
		return nil, err
	}
	list := make([]reportJSON, len(reports))
	for i, v := range reports {
		list[i] = reportJSON{v.Reporter, v.Accused, v.Name, v.Room, v.Times, v.At}
	}
	answer := map[string]any{"page": page, "reports": list}
	if len(reports) == limit {
		last := reports[limit-1]
		answer["next"] = fmt.Sprintf("%d/%s", last.At.UnixMilli(), last.ID)
	}
	return answer, nil
}

// afterReport reads what an answer gave as next.
func afterReport(next string) (rooms.ReportView, error) {
	if next == "" {
		return rooms.ReportView{}, nil
	}
	at, id, _ := strings.Cut(next, "/")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil || id == "" {
		return rooms.ReportView{}, badField("after", "must be the next of an answer")
	}
	return rooms.ReportView{ID: id, At: time.UnixMilli(ms)}, nil
}
