package fakeapi

import (
	"errors"
	"fmt"
	"time"

	"chatclub/fakeapi/ledger"
)

// expect announces the copies of one event, or single ids.
func (c *control) expect(req *Request) (any, error) {
	var in struct {
		Page       string   `json:"page"`
		MID        string   `json:"mid"`
		Recipients []string `json:"recipients"`
		IDs        []string `json:"ids"`
	}
	if err := req.Decode(&in); err != nil {
		return nil, err
	}
	if in.Page == "" || (in.MID == "") != (len(in.Recipients) == 0) || (in.MID == "") == (len(in.IDs) == 0) {
		return nil, errors.New("page, and either mid and recipients, or ids, must be set")
	}
	if in.MID != "" {
		c.api.Announce(in.Page, in.MID, in.Recipients, 0)
		return map[string]int{"announced": len(in.Recipients)}, nil
	}
	ids := make([]ledger.Expected, len(in.IDs))
	for i, id := range in.IDs {
		ids[i] = ledger.Expected{ID: id}
	}
	c.api.ledger.Announce(in.Page, ids...)
	return map[string]int{"announced": len(ids)}, nil
}

// announce enters events in the order of the list. An event without a key counts
// as answered at once: of a poster that publishes the events in this order, the order is
// judged by the list.
func (c *control) announce(req *Request) (any, error) {
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
		return nil, err
	}
	for i, e := range in.Events {
		if e.Page == "" || len(e.IDs) == 0 {
			return nil, fmt.Errorf("events[%d]: page and ids must be set", i)
		}
	}
	for _, e := range in.Events {
		ids := make([]ledger.Expected, len(e.IDs))
		for k, id := range e.IDs {
			ids[k] = ledger.Expected{ID: id.ID, Recipient: id.To}
		}
		event := c.api.ledger.Enter(ledger.Announcement{Page: e.Page, Group: e.Group, Due: e.Due, IDs: ids})
		if e.Key == "" {
			event.Answered()
			continue
		}
		c.waiting.Store(e.Key, event)
	}
	return map[string]int{"announced": len(in.Events)}, nil
}

// answered notes that the system has taken the events with these keys.
func (c *control) answered(req *Request) (any, error) {
	var in struct {
		Keys []string `json:"keys"`
	}
	if err := req.Decode(&in); err != nil {
		return nil, err
	}
	n := 0
	for _, key := range in.Keys {
		if e, ok := c.waiting.LoadAndDelete(key); ok {
			e.(*ledger.Event).Answered()
			n++
		}
	}
	if n < len(in.Keys) {
		return nil, errors.New("keys: some were not announced, or answered before")
	}
	return map[string]int{"answered": n}, nil
}
