package rooms

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// join puts the sender, whose row is locked, into a room and returns its name,
// a new one if it has none.
func (s *Store) join(ctx context.Context, tx *sql.Tx, ev Event, name sql.NullString) (string, error) {
	newcomers := 0
	if !name.Valid {
		newcomers = 1
	}
	var guests int64
	err := tx.QueryRowContext(ctx, `
		INSERT INTO pages (page, guests) VALUES ($1, $2)
		ON CONFLICT (page) DO UPDATE SET guests = pages.guests + excluded.guests
		RETURNING guests`,
		ev.Page, newcomers).Scan(&guests)
	if err != nil {
		return "", fmt.Errorf("lock page: %w", err)
	}
	if !name.Valid {
		name.String = fmt.Sprintf("Guest %d", guests)
		_, err := tx.ExecContext(ctx, `UPDATE users SET name = $3 WHERE page = $1 AND psid = $2`, ev.Page, ev.User, name.String)
		if err != nil {
			return "", fmt.Errorf("name user: %w", err)
		}
	}
	number, err := s.takePlace(ctx, tx, ev.Page)
	if err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO memberships (page, room, psid, joined_at) VALUES ($1, $2, $3, $4)`,
		ev.Page, number, ev.User, s.now().UnixMilli())
	if err != nil {
		return "", fmt.Errorf("insert membership: %w", err)
	}
	return name.String, nil
}

// takePlace counts one more member in the lowest numbered room with a free
// place, or opens the next room. The page's row is locked, so that nobody else
// counts at the same time.
func (s *Store) takePlace(ctx context.Context, tx *sql.Tx, page string) (number int, err error) {
	err = tx.QueryRowContext(ctx, `
		UPDATE rooms SET members = members + 1
		WHERE page = $1 AND number = (SELECT MIN(number) FROM rooms WHERE page = $1 AND members < $2)
		RETURNING number`,
		page, s.capacity).Scan(&number)
	if err == nil {
		return number, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("take place: %w", err)
	}
	err = tx.QueryRowContext(ctx, `
		INSERT INTO rooms (page, number, members, created_at)
		SELECT CAST($1 AS TEXT), COALESCE(MAX(number), 0) + 1, 1, CAST($2 AS BIGINT) FROM rooms WHERE page = $1
		RETURNING number`,
		page, s.now().UnixMilli()).Scan(&number)
	if err != nil {
		return 0, fmt.Errorf("open room: %w", err)
	}
	return number, nil
}

// Leave takes the user out of its room, because at that time it could no
// longer be sent to. A user who wrote since then, or who is unknown, stays as
// it is. Idempotent.
func (s *Store) Leave(ctx context.Context, page, user string, at time.Time) error {
	if err := errors.Join(checkKey("page", page), checkKey("user", user)); err != nil {
		return fmt.Errorf("leave room: %w", err)
	}
	err := s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// Lock the user, then the page: the order of Receive.
		silent, err := affects(ctx, tx, `
			UPDATE users SET last_inbound = last_inbound WHERE page = $1 AND psid = $2 AND last_inbound <= $3`,
			page, user, at.UnixMilli())
		if err != nil || !silent {
			return err
		}
		if _, err := affects(ctx, tx, `UPDATE pages SET guests = guests WHERE page = $1`, page); err != nil {
			return err
		}
		var number int
		err = tx.QueryRowContext(ctx, `DELETE FROM memberships WHERE page = $1 AND psid = $2 RETURNING room`, page, user).Scan(&number)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = affects(ctx, tx, `UPDATE rooms SET members = members - 1 WHERE page = $1 AND number = $2`, page, number)
		return err
	})
	if err != nil {
		return fmt.Errorf("leave room: %w", classify(err))
	}
	return nil
}

// CloseWindow notes that at that time the platform refused to send to the user
// because it had been silent for too long. The user keeps its place and gets
// no copies until its next event. A user who wrote since then, or who is
// unknown, stays as it is. Idempotent.
func (s *Store) CloseWindow(ctx context.Context, page, user string, at time.Time) error {
	if err := errors.Join(checkKey("page", page), checkKey("user", user)); err != nil {
		return fmt.Errorf("close window: %w", err)
	}
	_, err := s.exec(ctx, `
		UPDATE users SET window_closed_at = $3 WHERE page = $1 AND psid = $2 AND last_inbound <= $3`,
		page, user, at.UnixMilli())
	if err != nil {
		return fmt.Errorf("close window: %w", classify(err))
	}
	return nil
}

// affects executes a statement and tells whether it met a row.
func affects(ctx context.Context, tx *sql.Tx, query string, args ...any) (bool, error) {
	res, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
