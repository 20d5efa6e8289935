package rooms

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ReportView is what a user told the operators of another, once or more often.
type ReportView struct {
	ID                            string // of the event that reported it first; unique on the page
	Page, Reporter, Accused, Name string
	Room, Times                   int
	At                            time.Time // of the last time, as are Name and Room
}

// Reports returns the latest reports of a page, at most limit, the latest
// first. With an after, of which only At and ID count, it returns those that
// come behind it.
func (s *Store) Reports(ctx context.Context, page string, after ReportView, limit int) ([]ReportView, error) {
	var list []ReportView
	before := int64(never)
	if !after.At.IsZero() {
		before = after.At.UnixMilli()
	}
	err := s.do(ctx, all(&list, `
		SELECT event_id, page, reporter, accused, name, room, times, at FROM reports
		WHERE page = $1 AND (at, event_id) < ($2, $3) ORDER BY at DESC, event_id DESC LIMIT $4`,
		[]any{page, before, after.ID, int64(limit)},
		func(r row, v *ReportView) error {
			var at int64
			err := r.Scan(&v.ID, &v.Page, &v.Reporter, &v.Accused, &v.Name, &v.Room, &v.Times, &at)
			v.At = time.UnixMilli(at).UTC()
			return err
		}))
	if err != nil {
		return nil, fmt.Errorf("select reports: %w", classify(err))
	}
	return list, nil
}

// ErrUnknown says that there is no such user, page or room.
var ErrUnknown = errors.New("unknown")

// Ban keeps a user from everything until that time, the zero time is for good,
// and takes it out of its room at once. A time that has passed ends a ban. The
// error is ErrUnknown when the page has no such user.
func (s *Store) Ban(ctx context.Context, page, user string, until time.Time) error {
	if err := errors.Join(checkKey("page", page), checkKey("user", user)); err != nil {
		return fmt.Errorf("ban user: %w", err)
	}
	err := s.inTx(ctx, func(ctx context.Context, tx transaction) error {
		p := person{page: page, psid: user}
		found := false
		if err := tx.run(ctx, p.load(&found, s.db.lock())); err != nil {
			return err
		}
		if !found {
			return ErrUnknown
		}
		p.bannedUntil, p.banTold = never, 0
		if !until.IsZero() {
			p.bannedUntil = until.UnixMilli()
		}
		if p.bannedUntil <= s.cfg.Now().UnixMilli() {
			return tx.commit(ctx, p.save())
		}
		return s.evict(ctx, tx, page, user, p.save())
	})
	if err != nil {
		return fmt.Errorf("ban user: %w", classify(err))
	}
	return nil
}
