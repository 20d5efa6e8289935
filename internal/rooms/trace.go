package rooms

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// EventView is an event in the operators' answers, for as long as it is kept: a day.
type EventView struct {
	Page     string    `json:"page"`
	ID       string    `json:"mid"`
	Received time.Time `json:"received"`           // by our clock
	Finished bool      `json:"finished"`           // its copies, if there were any, are confirmed
	User     string    `json:"user,omitempty"`     // its user, and Room the room, if it was a message for a room; otherwise empty
	Room     int       `json:"room,omitempty"`     //
	Copies   int       `json:"copies,omitempty"`   // for how many others it is to be copied; known until it is finished
	Rejected bool      `json:"rejected,omitempty"` // it had no effect, and
	Paused   bool      `json:"paused,omitempty"`   // its page is paused; both known until it is finished
}

// FindEvents returns the events of an id on a page, on all pages if page is empty.
func (s *Store) FindEvents(ctx context.Context, page, id string) ([]EventView, error) {
	const columns = `SELECT e.page, e.event_id, e.at, e.outcome, e.psid, e.room FROM `
	var list []EventView
	var err error
	if page != "" {
		err = s.do(ctx, all(&list, columns+`processed_events e WHERE e.page = $1 AND e.event_id = $2`, []any{page, id}, scanEvent))
	} else {
		err = s.stepPages(ctx, func(ctx context.Context, after, last string) error {
			return s.do(ctx, all(&list, columns+`
				pages p JOIN processed_events e ON e.page = p.page AND e.event_id = $3
				WHERE p.page > $1 AND p.page <= $2 ORDER BY e.page`, []any{after, last, id}, scanEvent))
		})
	}
	return list, failed("find events", classify(err))
}

func scanEvent(r row, v *EventView) error {
	var at int64
	var outcome, user *string
	var room *int64
	if err := r.Scan(&v.Page, &v.ID, &at, &outcome, &user, &room); err != nil {
		return err
	}
	v.Received, v.Finished = time.UnixMilli(at).UTC(), outcome == nil
	if user != nil && room != nil {
		v.User, v.Room = *user, int(*room)
	}
	if outcome == nil {
		return nil
	}
	var res Result
	if err := json.Unmarshal([]byte(*outcome), &res); err != nil {
		return fmt.Errorf("decode outcome: %w", err)
	}
	v.Copies, v.Rejected, v.Paused = len(res.Relay), res.Rejected, res.Paused
	return nil
}

// PersonView is a person of a page in the operators' answers.
type PersonView struct {
	Page   string    `json:"page"`
	User   string    `json:"psid"`
	Room   int       `json:"room,omitempty"` // 0: the person is in none
	Wrote  time.Time `json:"wrote"`          // last
	Closed bool      `json:"closed"`         // the platform lets nobody write to it, until it writes again
	// Until these ends the person gets no copies, or is banned; missing: it is not so.
	Failing *time.Time `json:"failing,omitempty"`
	Muted   *time.Time `json:"muted,omitempty"`
	Banned  *time.Time `json:"banned,omitempty"` // the zero time: for ever
}

// FindPeople returns the people of an id on a page, on all pages if page is empty.
func (s *Store) FindPeople(ctx context.Context, page, psid string) ([]PersonView, error) {
	const columns = `SELECT u.page, u.psid, COALESCE(m.room, 0), u.last_inbound, u.window_closed_at IS NOT NULL, u.failing_until, u.muted_until, u.banned_until FROM `
	const member = ` LEFT JOIN members m ON m.page = u.page AND m.psid = u.psid `
	var list []PersonView
	var err error
	now := s.cfg.Now()
	scan := func(r row, v *PersonView) error { return v.scan(r, now) }
	if page != "" {
		err = s.do(ctx, all(&list, columns+`people u`+member+`WHERE u.page = $1 AND u.psid = $2`, []any{page, psid}, scan))
	} else {
		err = s.stepPages(ctx, func(ctx context.Context, after, last string) error {
			return s.do(ctx, all(&list, columns+`pages p JOIN people u ON u.page = p.page AND u.psid = $3`+member+`
				WHERE p.page > $1 AND p.page <= $2 ORDER BY u.page`, []any{after, last, psid}, scan))
		})
	}
	return list, failed("find people", classify(err))
}

func (v *PersonView) scan(r row, now time.Time) error {
	var wrote, failing, muted, banned int64
	var room int64
	if err := r.Scan(&v.Page, &v.User, &room, &wrote, &v.Closed, &failing, &muted, &banned); err != nil {
		return err
	}
	v.Room, v.Wrote = int(room), time.UnixMilli(wrote).UTC()
	v.Closed = v.Closed || now.Sub(v.Wrote) >= Window
	for _, end := range []struct {
		until int64
		to    **time.Time
	}{{failing, &v.Failing}, {muted, &v.Muted}, {banned, &v.Banned}} {
		if end.until > now.UnixMilli() {
			at := untilTime(end.until)
			*end.to = &at
		}
	}
	return nil
}
