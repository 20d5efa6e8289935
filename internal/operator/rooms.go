package operator

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"chatclub/internal/rooms"
)

// roomJSON is a room in the answer of GET /rooms.
type roomJSON struct {
	Room            int       `json:"room"`
	Code            string    `json:"code,omitempty"`
	Members         int       `json:"members"`
	MessagesPerHour int       `json:"messages_per_hour"`
	CopiesPerHour   int       `json:"copies_per_hour"`
	Opened          time.Time `json:"opened"`
}

func (h *Handler) getRooms(r *http.Request) (any, error) {
	page, limit, err := listOf(r)
	if err != nil {
		return nil, err
	}
	after, err := number(r, "after", 0, 0, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	views, err := h.cfg.Store.Rooms(r.Context(), page, after, limit)
	if err != nil {
		return nil, unknown(err, "page", "unknown")
	}
	return map[string]any{"page": page, "rooms": answers(views, roomAnswer)}, nil
}

func roomAnswer(v rooms.RoomView) roomJSON {
	return roomJSON{v.Room.Number, v.Room.Code, v.Members, v.Events, v.Copies, v.Opened}
}

// reportJSON is a report in the answer of GET /reports.
type reportJSON struct {
	Reporter string    `json:"reporter"`
	Accused  string    `json:"accused"`
	Name     string    `json:"name"` // of the accused, at the last time
	Room     int       `json:"room"`
	Times    int       `json:"times"` // how often the reporter reported the accused
	At       time.Time `json:"at"`    // the last time
	// What the accused wrote in the room in the day before a report, the oldest
	// first.
	Texts []textJSON `json:"texts"`
}

// textJSON is a text with the addresses of attachments behind it, and when it came.
type textJSON struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

func (h *Handler) getReports(r *http.Request) (any, error) {
	page, limit, err := listOf(r)
	if err != nil {
		return nil, err
	}
	after, err := afterReport(r.URL.Query().Get("after"))
	if err != nil {
		return nil, err
	}
	reports, err := h.cfg.Store.Reports(r.Context(), page, after, limit)
	if err != nil {
		return nil, unknown(err, "page", "unknown")
	}
	answer := map[string]any{"page": page, "reports": answers(reports, reportAnswer)}
	if len(reports) == limit {
		last := reports[limit-1]
		answer["next"] = fmt.Sprintf("%d/%s", last.At.UnixMilli(), last.ID)
	}
	return answer, nil
}

func reportAnswer(v rooms.ReportView) reportJSON {
	texts := answers(v.Texts, func(t rooms.ReportedText) textJSON { return textJSON(t) })
	return reportJSON{v.Reporter, v.Accused, v.Name, v.Room, v.Times, v.At, texts}
}

// afterReport reads the next of an answer.
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
