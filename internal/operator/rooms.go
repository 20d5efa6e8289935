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
	return map[string]any{"page": page, "rooms": listed(views)}, nil
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
	answer := map[string]any{"page": page, "reports": listed(reports)}
	if len(reports) == limit {
		last := reports[limit-1]
		answer["next"] = fmt.Sprintf("%d/%s", last.At.UnixMilli(), last.ID)
	}
	return answer, nil
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
