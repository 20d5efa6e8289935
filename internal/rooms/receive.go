package rooms

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Event is one thing that a user did on a page. (Page, ID) identifies it.
type Event struct {
	Page string
	User string // PSID
	ID   string
	At   time.Time // when it happened, by the platform's clock
}

// Status says what is known of an event.
type Status int

// The states of an event.
const (
	Fresh      Status = iota // told for the first time
	Unfinished               // told before, but Done was never called: its copies may be missing
	Finished                 // told before, and Done
)

func (s Status) String() string {
	switch s {
	case Fresh:
		return "fresh"
	case Unfinished:
		return "unfinished"
	case Finished:
		return "finished"
	}
	return "Status(" + strconv.Itoa(int(s)) + ")"
}

// Result is what an event led to. Of a Finished one only Status is set; of an
// Unfinished one everything else is as it was when the event was Fresh.
type Result struct {
	Status Status   `json:"-"`
	Room   int      `json:"room"`   // number of the sender's room
	Name   string   `json:"name"`   // display name of the sender
	Joined bool     `json:"joined"` // the event brought the sender into the room
	Others []string `json:"others"` // PSIDs of the other members that can be sent to, sorted
}

// errRepeated rolls the transaction of a repeated event back.
var errRepeated = errors.New("event was received before")

// Receive records an event in one transaction. The sender becomes a user if
// it was none, gets a name ("Guest 17"), and if it is in no room it joins the
// lowest numbered one with a free place, or a new one when all are full.
//
// After every copy of the event is safe the caller calls Done. Until then the
// event told again returns Unfinished with the same result, afterwards
// Finished. The error is ErrData when the event can never be stored; any other
// error may pass, and then Receive may be called again.
func (s *Store) Receive(ctx context.Context, ev Event) (Result, error) {
	if err := errors.Join(checkKey("page", ev.Page), checkKey("user", ev.User), checkKey("id", ev.ID)); err != nil {
		return Result{}, fmt.Errorf("receive event: %w", err)
	}
	var res Result
	err := s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var err error
		res, err = s.receive(ctx, tx, ev)
		return err
	})
	if errors.Is(err, errRepeated) {
		res, err = s.recall(ctx, ev)
	}
	if err != nil {
		return Result{}, fmt.Errorf("receive event: %w", classify(err))
	}
	return res, nil
}

// receive does the work first and records the event last: the usual event,
// which is not repeated, then costs one statement less. Two transactions with
// one event meet at its sender's row, and the second finds the first's record.
func (s *Store) receive(ctx context.Context, tx *sql.Tx, ev Event) (Result, error) {
	name, err := touchUser(ctx, tx, ev)
	if err != nil {
		return Result{}, err
	}
	res := Result{Name: name.String}
	if res.Room, res.Others, err = room(ctx, tx, ev); err != nil {
		return Result{}, err
	}
	if res.Room == 0 {
		if res.Name, err = s.join(ctx, tx, ev, name); err != nil {
			return Result{}, err
		}
		if res.Room, res.Others, err = room(ctx, tx, ev); err != nil {
			return Result{}, err
		}
		res.Joined = true
	}
	outcome, err := json.Marshal(res)
	if err != nil {
		return Result{}, fmt.Errorf("encode outcome: %w", err)
	}
	inserted, err := tx.ExecContext(ctx, `
		INSERT INTO processed_events (page, event_id, at, outcome) VALUES ($1, $2, $3, $4)
		ON CONFLICT (page, event_id) DO NOTHING`,
		ev.Page, ev.ID, s.now().UnixMilli(), string(outcome))
	if err != nil {
		return Result{}, fmt.Errorf("record event: %w", err)
	}
	n, err := inserted.RowsAffected()
	if err != nil {
		return Result{}, fmt.Errorf("record event: %w", err)
	}
	if n == 0 {
		return Result{}, errRepeated
	}
	return res, nil
}

// touchUser makes the sender a user, or notes that it was here; either way its
// row is locked from now on. The name is NULL for a new user.
func touchUser(ctx context.Context, tx *sql.Tx, ev Event) (name sql.NullString, err error) {
	err = tx.QueryRowContext(ctx, `
		INSERT INTO users (page, psid, last_inbound) VALUES ($1, $2, $3)
		ON CONFLICT (page, psid) DO UPDATE SET
			last_inbound = CASE WHEN excluded.last_inbound > users.last_inbound
				THEN excluded.last_inbound ELSE users.last_inbound END,
			window_closed_at = NULL
		RETURNING name`,
		ev.Page, ev.User, ev.At.UnixMilli()).Scan(&name)
	if err != nil {
		return name, fmt.Errorf("upsert user: %w", err)
	}
	return name, nil
}

// room returns the sender's room and the other members that can be sent to;
// room number 0 when the sender is in none.
func room(ctx context.Context, tx *sql.Tx, ev Event) (number int, others []string, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT mine.room, u.psid
		FROM memberships mine
		LEFT JOIN (memberships m JOIN users u ON u.page = m.page AND u.psid = m.psid AND u.window_closed_at IS NULL)
			ON m.page = mine.page AND m.room = mine.room AND m.psid <> mine.psid
		WHERE mine.page = $1 AND mine.psid = $2`,
		ev.Page, ev.User)
	if err != nil {
		return 0, nil, fmt.Errorf("select room: %w", err)
	}
	defer rows.Close() // rows.Err below tells
	for rows.Next() {
		var other sql.NullString
		if err := rows.Scan(&number, &other); err != nil {
			return 0, nil, fmt.Errorf("read room: %w", err)
		}
		if other.Valid {
			others = append(others, other.String)
		}
	}
	if err := rows.Err(); err != nil {
		return 0, nil, fmt.Errorf("read room: %w", err)
	}
	// Here and not in SQL, where the order would depend on the collation.
	slices.Sort(others)
	return number, others, nil
}

// recall returns what is known of an event that was received before.
func (s *Store) recall(ctx context.Context, ev Event) (Result, error) {
	var outcome sql.NullString
	err := s.onConn(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, `SELECT outcome FROM processed_events WHERE page = $1 AND event_id = $2`,
			ev.Page, ev.ID).Scan(&outcome)
	})
	if err != nil { // also when it was pruned this moment: then the next try receives it anew
		return Result{}, fmt.Errorf("recall event: %w", err)
	}
	if !outcome.Valid {
		return Result{Status: Finished}, nil
	}
	var res Result
	if err := json.Unmarshal([]byte(outcome.String), &res); err != nil {
		return Result{}, fmt.Errorf("decode outcome: %w", err)
	}
	res.Status = Unfinished
	return res, nil
}

// Done records that every copy of the event is safe. Idempotent.
func (s *Store) Done(ctx context.Context, page, id string) error {
	_, err := s.exec(ctx, `UPDATE processed_events SET outcome = NULL WHERE page = $1 AND event_id = $2`, page, id)
	if err != nil {
		return fmt.Errorf("finish event: %w", classify(err))
	}
	return nil
}
