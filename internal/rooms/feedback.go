package rooms

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Gone takes a user out of its room, because it could not be sent to at that
// time. A user who wrote since then, or who is unknown, is not changed.
// Idempotent.
func (s *Store) Gone(ctx context.Context, page, psid string, at time.Time) error {
	err := s.withUser(ctx, page, psid, func(ctx context.Context, tx transaction, u user, found bool) error {
		if !found || u.lastInbound > at.UnixMilli() {
			return nil
		}
		return s.evict(ctx, tx, u)
	})
	return failed("leave room", classify(err))
}

// evict takes a user, whose row is locked, out of its room, saves it and commits,
// with the other writes behind that.
func (s *Store) evict(ctx context.Context, tx transaction, u user, more ...query) error {
	isMember := false
	var in membership
	err := tx.run(
		ctx,
		query{sql: `UPDATE pages SET guests = guests WHERE page = $1`, args: []any{u.page}},
		one(&isMember, `SELECT room, name FROM members WHERE page = $1 AND psid = $2`, []any{u.page, u.psid}, &in.Number, &in.name),
	)
	if err != nil {
		return err
	}
	var writes []query
	if isMember {
		writes = u.vacate(in, s.cfg.Now())
	}
	return tx.commit(ctx, slices.Concat(writes, []query{u.save()}, more)...)
}

// CloseWindow records that the platform refused to send to a user at that time,
// because the user had been silent for too long. The user stays a member of its
// room and gets no copies until its next event. A user who wrote since then, or
// who is unknown, is not changed. Idempotent.
func (s *Store) CloseWindow(ctx context.Context, page, psid string, at time.Time) error {
	return s.changeUser(ctx, "close window", page, psid, query{
		sql:  `UPDATE people SET window_closed_at = $3 WHERE page = $1 AND psid = $2 AND last_inbound <= $3`,
		args: []any{page, psid, at.UnixMilli()},
	})
}

// HoldCopies records that every message to a user fails, as seen at that time. The
// user stays a member of its room and gets no copies of what is written before
// until, or before its next event. Nor do broadcasts go to it. A user who wrote
// since then, or who is unknown, is not changed, and nothing shortens the time.
// Idempotent.
func (s *Store) HoldCopies(ctx context.Context, page, psid string, at, until time.Time) error {
	return s.changeUser(ctx, "hold copies", page, psid, query{
		sql:  `UPDATE people SET failing_until = $4 WHERE page = $1 AND psid = $2 AND last_inbound <= $3 AND failing_until < $4`,
		args: []any{page, psid, at.UnixMilli(), until.UnixMilli()},
	})
}

// ReleaseCopies undoes HoldCopies. Idempotent.
func (s *Store) ReleaseCopies(ctx context.Context, page, psid string) error {
	return s.changeUser(ctx, "release copies", page, psid, query{
		sql: `UPDATE people SET failing_until = 0 WHERE page = $1 AND psid = $2 AND failing_until > 0`, args: []any{page, psid},
	})
}

// changeUser runs a statement about a user.
func (s *Store) changeUser(ctx context.Context, what, page, psid string, q query) error {
	err := errors.Join(checkKey("page", page), checkKey("user", psid))
	if err == nil {
		err = s.do(ctx, q)
	}
	return failed(what, classify(err))
}

// Pause stops the copies and answers of a page's events until that time, for
// good if it is zero. Queued messages still go out, and broadcasts wait.
//
// at is the time at which the cause of the pause happened. A cause that is older than the
// last resumption changes nothing, nor does one with an end while the page is paused for
// another reason. A pause is never shortened by another pause, only by Resume. Idempotent.
func (s *Store) Pause(ctx context.Context, page, reason string, at, until time.Time) error {
	if err := errors.Join(checkKey("page", page), checkWord("reason", reason)); err != nil {
		return fmt.Errorf("pause page: %w", err)
	}
	ms := int64(never)
	if !until.IsZero() {
		ms = until.UnixMilli()
	}
	err := s.do(ctx, query{
		sql: `
		INSERT INTO pages (page, guests, paused_until, pause_reason, pause_at)
		VALUES ($1, 0, $2, $3, $4)
		ON CONFLICT (page) DO UPDATE
		SET paused_until = excluded.paused_until, pause_reason = excluded.pause_reason,
			pause_at = CASE WHEN pages.pause_at < excluded.pause_at THEN excluded.pause_at ELSE pages.pause_at END
		WHERE pages.paused_until < excluded.paused_until AND pages.resumed_at < excluded.pause_at
			AND (excluded.paused_until = $6 OR pages.pause_reason = excluded.pause_reason OR pages.paused_until <= $5)`,
		args: []any{page, ms, reason, at.UnixMilli(), s.cfg.Now().UnixMilli(), int64(never)},
	})
	return failed("pause page", classify(err))
}

// Resume ends a page's pause. The time at is that of the cause; a pause whose cause is
// younger stays. A zero at is an operator's decision, which ends any pause. Idempotent.
func (s *Store) Resume(ctx context.Context, page string, at time.Time) error {
	err := checkKey("page", page)
	switch {
	case err != nil:
	case at.IsZero():
		err = s.do(ctx, s.resumeNow(page, ""))
	default:
		err = s.do(ctx, query{
			sql: `
			INSERT INTO pages (page, guests, resumed_at) VALUES ($1, 0, $2)
			ON CONFLICT (page) DO UPDATE
			SET paused_until = CASE WHEN pages.pause_at <= excluded.resumed_at THEN 0 ELSE pages.paused_until END,
				pause_reason = CASE WHEN pages.pause_at <= excluded.resumed_at THEN '' ELSE pages.pause_reason END,
				resumed_at = CASE WHEN pages.resumed_at < excluded.resumed_at THEN excluded.resumed_at ELSE pages.resumed_at END`,
			args: []any{page, at.UnixMilli()},
		})
	}
	return failed("resume page", classify(err))
}

// EndPause ends a page's pause if it is for that reason. A cause from before at, which is
// told later, changes nothing any more. Idempotent.
func (s *Store) EndPause(ctx context.Context, page, reason string, at time.Time) error {
	err := errors.Join(checkKey("page", page), checkWord("reason", reason))
	if err == nil {
		err = s.do(ctx, s.resumeNow(page, reason), query{
			sql: `UPDATE pages SET resumed_at = $2 WHERE page = $1 AND resumed_at < $2`, args: []any{page, at.UnixMilli()},
		})
	}
	return failed("end pause", classify(err))
}

// resumeNow returns the query that ends a pause, whatever its reason is where none is
// given. Its cause does not pause the page again when it is reported once more, even if
// its clock is ahead of ours.
func (s *Store) resumeNow(page, reason string) query {
	return query{
		sql: `
		UPDATE pages SET paused_until = 0, pause_reason = '', resumed_at = CASE WHEN pause_at < $2 THEN $2 ELSE pause_at END
		WHERE page = $1 AND paused_until > $2 AND (CAST($3 AS TEXT) = '' OR pause_reason = $3)`,
		args: []any{page, s.cfg.Now().UnixMilli(), reason},
	}
}

// DelayBroadcasts makes the next recipient of each of a page's broadcasts due not
// before that time.
func (s *Store) DelayBroadcasts(ctx context.Context, page string, until time.Time) error {
	if err := checkKey("page", page); err != nil {
		return fmt.Errorf("delay broadcasts: %w", err)
	}
	err := s.do(ctx, query{
		sql: `
		UPDATE broadcasts SET due = $2 WHERE id IN (
			SELECT id FROM broadcasts WHERE page = $1 AND state = 'running' AND due < $2 ORDER BY id` + s.db.lock() + `)`,
		args: []any{page, until.UnixMilli()},
	})
	return failed("delay broadcasts", classify(err))
}
