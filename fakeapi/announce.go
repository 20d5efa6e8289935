package fakeapi

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"chatclub/fakeapi/ledger"
)

// unanswered are the announced events whose poster said that it will tell when
// the system has taken them, by key. The zero value is empty.
type unanswered struct {
	mu     sync.Mutex
	events map[string]*ledger.Event
}

func (u *unanswered) add(key string, e *ledger.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.events == nil {
		u.events = make(map[string]*ledger.Event)
	}
	u.events[key] = e
}

func (u *unanswered) take(key string) *ledger.Event {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.events[key]
	delete(u.events, key)
	return e
}

func (u *unanswered) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.events)
}

// serveAnnounce enters events in the order of the list. One without a key
// counts as answered at once: whoever publishes them in this order has their
// order judged by it.
func (a *API) serveAnnounce(req *Request, resp *Response) {
	var in struct {
		Events []struct {
			Page  string    `json:"page"`
			Group string    `json:"group"`
			Due   time.Time `json:"due"`
			Key   string    `json:"key"`
			IDs   []struct {
				ID string `json:"id"`
				To string `json:"to"`
			} `json:"ids"`
		} `json:"events"`
	}
	if err := req.Decode(&in); err != nil {
		resp.WriteError(http.StatusBadRequest, err)
		return
	}
	for i, e := range in.Events {
		if e.Page == "" || len(e.IDs) == 0 {
			resp.WriteError(http.StatusBadRequest, fmt.Errorf("events[%d]: page and ids must be set", i))
			return
		}
	}
	for _, e := range in.Events {
		ids := make([]ledger.Expected, len(e.IDs))
		for k, id := range e.IDs {
			ids[k] = ledger.Expected{ID: id.ID, Recipient: id.To}
		}
		event := a.book.Enter(ledger.Announcement{Page: e.Page, Group: e.Group, Due: e.Due, IDs: ids})
		if e.Key == "" {
			event.Answered()
			continue
		}
		a.waiting.add(e.Key, event)
	}
	resp.WriteJSON(map[string]int{"announced": len(in.Events)})
}

// serveAnswered says that the system has taken the events with these keys.
func (a *API) serveAnswered(req *Request, resp *Response) {
	var in struct {
		Keys []string `json:"keys"`
	}
	if err := req.Decode(&in); err != nil {
		resp.WriteError(http.StatusBadRequest, err)
		return
	}
	n := 0
	for _, key := range in.Keys {
		if e := a.waiting.take(key); e != nil {
			e.Answered()
			n++
		}
	}
	if n < len(in.Keys) {
		resp.WriteError(http.StatusBadRequest, errors.New("keys: some were not announced, or answered before"))
		return
	}
	resp.WriteJSON(map[string]int{"answered": n})
}

func (a *API) serveGroups(resp *Response) {
	groups, err := a.book.Groups()
	if err != nil {
		resp.WriteError(http.StatusBadRequest, err)
		return
	}
	resp.WriteJSON(map[string]any{"groups": groups})
}
