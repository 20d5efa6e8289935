package rooms

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// BroadcastState says whether a broadcast runs, or how it ended.
type BroadcastState string

// Every state of a broadcast. It changes from running to one of the others, once.
const (
	BroadcastRunning BroadcastState = "running"
	BroadcastDone    BroadcastState = "done"    // all of it is queued
	BroadcastStopped BroadcastState = "stopped" // by an operator; queued messages go out
	BroadcastExpired BroadcastState = "expired" // its deadline came first
)

// Broadcast is a text from the operators to the members of a room or of all rooms
// of a page.
type Broadcast struct {
	ID         string         `json:"id"`
	Page       string         `json:"page"`
	Room       int            `json:"room"`           // its number; 0: all rooms
	Text       string         `json:"text,omitempty"` // missing in lists
	Rate       float64        `json:"rate"`           // messages per second at most
	Deadline   time.Time      `json:"deadline"`
	Created    time.Time      `json:"created"`
	Recipients int            `json:"recipients"` // when it was created
	Queued     int            `json:"queued"`     // recipients up to Cursor, those who came since included
	State      BroadcastState `json:"state"`
	Cursor     string         `json:"-"` // the last recipient whose messages are queued
	Due        time.Time      `json:"-"` // when the next recipient is due
}

// Broadcasts keeps broadcasts in the database of a Store, whose method Broadcasts
// returns it. The zero value is not useful. Safe for concurrent use.
type Broadcasts struct{ s *Store }

// Broadcasts returns the broadcasts in the database.
func (s *Store) Broadcasts() Broadcasts { return Broadcasts{s} }

const broadcastColumns = `id, page, room, text, rate, deadline, created, recipients, state, cursor, queued, due`

func scanBroadcast(r row, b *Broadcast) error {
	var deadline, created, due int64
	err := r.Scan(&b.ID, &b.Page, &b.Room, &b.Text, &b.Rate, &deadline, &created, &b.Recipients, &b.State, &b.Cursor, &b.Queued, &due)
	b.Deadline, b.Created, b.Due = time.UnixMilli(deadline).UTC(), time.UnixMilli(created).UTC(), time.UnixMilli(due).UTC()
	return err
}

// loadBroadcast reads a broadcast by its id.
func loadBroadcast(id string, b *Broadcast, found *bool) query {
	return query{
		sql: `SELECT ` + broadcastColumns + ` FROM broadcasts WHERE id = $1`, args: []any{id},
		scan: func(r row) error { *found = true; return scanBroadcast(r, b) },
	}
}

// Add stores a new broadcast as running, and returns the broadcast that
// is stored under its id. If added is false, nothing was changed and that is
// another one.
func (bs Broadcasts) Add(ctx context.Context, b Broadcast) (stored Broadcast, added bool, err error) {
	if err := errors.Join(checkKey("id", b.ID), checkKey("page", b.Page)); err != nil {
		return Broadcast{}, false, fmt.Errorf("add broadcast: %w", err)
	}
	affected, found := int64(0), false
	created := bs.s.cfg.Now().UnixMilli()
	err = bs.s.do(ctx, query{
		sql: `
		INSERT INTO broadcasts (` + broadcastColumns + `, holder, until)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'running', '', 0, $7, '', 0) ON CONFLICT (id) DO NOTHING`,
		args: []any{b.ID, b.Page, int64(b.Room), b.Text, b.Rate, b.Deadline.UnixMilli(), created, int64(b.Recipients)}, affected: &affected,
	}, loadBroadcast(b.ID, &stored, &found))
	if err == nil && !found {
		err = errNoRow
	}
	return stored, err == nil && affected > 0, failed("add broadcast", classify(err))
}

// Get returns a broadcast by its id. The error is ErrUnknown if there is
// none.
func (bs Broadcasts) Get(ctx context.Context, id string) (Broadcast, error) {
	var b Broadcast
	found := false
	err := bs.s.do(ctx, loadBroadcast(id, &b, &found))
	return b, failed("select broadcast", classify(orUnknown(err, found)))
}

// List returns at most limit broadcasts of a page, of all pages if page is
// empty. The newest comes first, and their texts are left out. The error is
// ErrUnknown if there is no such page.
func (bs Broadcasts) List(ctx context.Context, page string, limit int) ([]Broadcast, error) {
	var list []Broadcast
	exists := false
	err := bs.s.do(ctx, bs.s.knows(&exists, page), all(&list, `
		SELECT id, page, room, '', rate, deadline, created, recipients, state, cursor, queued, due
		FROM broadcasts WHERE page = $1 OR $1 = '' ORDER BY created DESC, id DESC LIMIT $2`,
		[]any{page, int64(limit)}, scanBroadcast))
	return list, failed("select broadcasts", classify(orUnknown(err, page == "" || exists || len(list) > 0)))
}

// Stop stops a broadcast and reports whether it was running. Queued
// messages still go out. The error is ErrUnknown if there is no such broadcast.
func (bs Broadcasts) Stop(ctx context.Context, id string) (b Broadcast, stopped bool, err error) {
	affected, found := int64(0), false
	err = bs.s.do(ctx, query{
		sql: `UPDATE broadcasts SET state = 'stopped' WHERE id = $1 AND state = 'running'`, args: []any{id}, affected: &affected,
	}, loadBroadcast(id, &b, &found))
	err = orUnknown(err, found)
	return b, err == nil && affected > 0, failed("stop broadcast", classify(err))
}

// audience returns the part of a query that selects the recipients of a
// broadcast. They are the members of the room, of all rooms of the page if it is
// 0, who are within the platform's window and whom messages reach. Mutes do not count,
// because the operators write. Its arguments are the first four.
func (bs Broadcasts) audience(page string, room int) (from string, args []any) {
	from = `
		FROM members m JOIN people u ON u.page = m.page AND u.psid = m.psid
		WHERE m.page = $1 AND u.last_inbound > $2 AND u.window_closed_at IS NULL AND u.failing_until <= $4 AND m.room `
	if room == 0 {
		from += `> $3`
	} else {
		from += `= $3`
	}
	now := bs.s.cfg.Now()
	return from, []any{page, now.Add(-Window).UnixMilli(), int64(room), now.UnixMilli()}
}

// Audience returns how many recipients a broadcast to a room of a page would have
// now. The room 0 stands for all rooms. The error is ErrUnknown if there is no
// such page or room.
func (bs Broadcasts) Audience(ctx context.Context, page string, room int) (int, error) {
	if err := checkKey("page", page); err != nil {
		return 0, fmt.Errorf("count audience: %w", err)
	}
	exists, n := false, 0
	known := bs.s.knows(&exists, page)
	if room != 0 {
		known = one(&exists, `SELECT 1 FROM rooms WHERE page = $1 AND number = $2`, []any{page, int64(room)}, new(int64))
	}
	from, args := bs.audience(page, room)
	err := bs.s.do(ctx, known, one(nil, `SELECT COUNT(*)`+from, args, &n))
	return n, failed("count audience", classify(orUnknown(err, exists)))
}
