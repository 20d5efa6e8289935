package operator

import (
	"net/http"
	"time"

	"chatclub/internal/rooms"
)

// Message is a user's message, or another event, in the answer of GET /messages.
type Message struct {
	Page     string    `json:"page"`
	MID      string    `json:"mid"`
	Received time.Time `json:"received"`
	Finished bool      `json:"finished"`         // its copies are on the queue, if there were any
	User     string    `json:"user,omitempty"`   // of a message for a room, as is the room
	Room     int       `json:"room,omitempty"`   //
	Copies   int       `json:"copies,omitempty"` // for how many others they are; known until it is finished
	Rejected bool      `json:"rejected,omitempty"`
	Paused   bool      `json:"paused,omitempty"`
}

func (h *Handler) getMessages(r *http.Request) (any, error) {
	mid := r.URL.Query().Get("mid")
	if mid == "" {
		return nil, badField("mid", "must be given")
	}
	found, err := h.cfg.Store.FindEvents(r.Context(), r.URL.Query().Get("page"), mid)
	if err != nil {
		return nil, err
	}
	return map[string]any{"messages": answers(found, messageAnswer)}, nil
}

func messageAnswer(e rooms.EventView) Message {
	return Message{e.Page, e.ID, e.Received, e.Finished, e.User, e.Room, e.Copies, e.Rejected, e.Paused}
}
