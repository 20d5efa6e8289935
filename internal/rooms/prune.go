package rooms

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// batch is the number of rows that are deleted or listed at a time. It takes some
// milliseconds, in which SQLite's one connection is not free for events.
const batch = 1000

// countsKept is the time for which the hours' counts are kept: the day over which the
// platform's quota is measured, and the hour that began before it.
const countsKept = 25 * time.Hour

// broadcastsKept is the time after its deadline for which an ended broadcast is kept.
// Until then its id cannot be used again.
const broadcastsKept = 7 * 24 * time.Hour

// reportsKept is the time for which a report is kept after it was last repeated.
const reportsKept = 90 * 24 * time.Hour

// peopleKept is the time for which a user who is in no room and writes nothing is kept.
// Then it is forgotten with its blocks. It is long, because the blocks of others end
// with it.
const peopleKept = 365 * 24 * time.Hour

// forgetPause is the time between two users who are forgotten because they are silent,
// some ten times the time of one.
const forgetPause = 20 * time.Millisecond

// maxAhead is the most by which a clock may be ahead of the database's: more than clocks
// that are kept together differ, and far less than anything is kept.
const maxAhead = time.Minute

// ErrAhead says that this machine's clock is more than maxAhead ahead.
var ErrAhead = errors.New("this machine's clock is ahead of PostgreSQL's, or that one is behind")

// CheckClock returns ErrAhead if this machine's clock is far ahead of PostgreSQL's: by it
// what all processes keep would be old too early. SQLite has one process.
func (s *Store) CheckClock(ctx context.Context) error { return failed("check clock", s.doOnTime(ctx)) }

// doOnTime runs queries that read. On PostgreSQL it checks the clock, in the same round trip.
func (s *Store) doOnTime(ctx context.Context, queries ...query) error {
	if !s.postgres {
		return s.do(ctx, queries...)
	}
	var now int64
	err := s.do(ctx, append(queries, one(nil, `SELECT (EXTRACT(EPOCH FROM now()) * 1000)::bigint`, nil, &now))...)
	if ahead := s.cfg.Now().Sub(time.UnixMilli(now)); err == nil && ahead > maxAhead {
		err = fmt.Errorf("%w: by %s", ErrAhead, ahead.Round(time.Second))
	}
	return err
}

// Prune deletes the events received before that time, and old counts, names, reports
// with their texts, and broadcasts. It returns how many events it deleted. A deleted
// event that is repeated counts as a new one. Several cores may prune at once. Prune has
// no time limit.
func (s *Store) Prune(ctx context.Context, before time.Time) (int64, error) {
	now := s.cfg.Now()
	events, err := s.prune(ctx, "processed_events", "page, event_id", "at < $1 ORDER BY at", before.UnixMilli())
	for _, old := range []struct {
		table, key, where string
		arg               int64
	}{
		{"reports", "page, event_id", "at < $1 ORDER BY at", now.Add(-reportsKept).UnixMilli()},
		{"past_names", "page, room, skeleton", "until <= $1 ORDER BY until", now.UnixMilli()},
		{"shown_members", "page, psid", "at <= $1 ORDER BY at", now.Add(-nameKept).UnixMilli()},
		{"room_hours", "page, hour, room", "hour < $1 ORDER BY hour", hourOf(now.Add(-countsKept))},
		{"page_hours", "page, hour", "hour < $1 ORDER BY hour", hourOf(now.Add(-countsKept))},
		{"broadcasts", "id", "state <> 'running' AND deadline < $1 ORDER BY id", now.Add(-broadcastsKept).UnixMilli()},
	} {
		if err == nil {
			_, err = s.prune(ctx, old.table, old.key, old.where, old.arg)
		}
	}
	if err == nil {
		// The last recipient of a broadcast that ended is of no more use.
		err = s.do(ctx, query{sql: `
			UPDATE broadcasts SET cursor = '' WHERE id IN (
				SELECT id FROM broadcasts WHERE state <> 'running' AND cursor <> '' ORDER BY id` + s.skipLocked() + `)`})
	}
	return events, failed("prune", err)
}

// prune deletes the rows of a table, some at a time, and returns how many. Rows that
// another transaction has locked are left to it.
func (s *Store) prune(ctx context.Context, table, key, where string, arg int64) (total int64, err error) {
	for n := int64(batch); n == batch; total += n {
		err := s.do(ctx, query{
			sql: `DELETE FROM ` + table + ` WHERE (` + key + `) IN (
				SELECT ` + key + ` FROM ` + table + ` WHERE ` + where + ` LIMIT $2` + s.skipLocked() + `)`,
			args: []any{arg, int64(batch)}, affected: &n,
		})
		if err != nil {
			return total, fmt.Errorf("%s: %w", table, err)
		}
	}
	return total, nil
}

// skipLocked returns the end of a SELECT that locks the rows it reads, except those
// that another transaction has locked.
func (s *Store) skipLocked() string {
	if lock := s.db.lock(); lock != "" {
		return lock + " SKIP LOCKED"
	}
	return ""
}

// PrunePeople forgets the users who are in no room, and have written nothing for a
// year. A banned one is forgotten when its ban has ended. It forgets one user after
// another with pauses. Several cores may do so at once. PrunePeople has no time limit.
func (s *Store) PrunePeople(ctx context.Context) error {
	return failed("prune people", s.prunePeople(ctx))
}

func (s *Store) prunePeople(ctx context.Context) error {
	type key struct {
		page, psid string
		old        bool
	}
	now := s.cfg.Now()
	idle := now.Add(-peopleKept).UnixMilli()
	for last, more := (key{}), true; more; {
		var people []key
		err := s.do(ctx, all(&people, `
			SELECT page, psid, CASE WHEN last_inbound <= $1 AND banned_until <= $2
				AND NOT EXISTS (SELECT 1 FROM members m WHERE m.page = people.page AND m.psid = people.psid) THEN 1 ELSE 0 END
			FROM people WHERE (page, psid) > ($3, $4) ORDER BY page, psid LIMIT $5`,
			[]any{idle, now.UnixMilli(), last.page, last.psid, int64(batch)},
			func(r row, k *key) error {
				var old int64
				err := r.Scan(&k.page, &k.psid, &old)
				k.old = old == 1
				return err
			}))
		if err != nil {
			return err
		}
		for _, last = range people {
			if !last.old {
				continue
			}
			if _, err := s.forget(ctx, last.page, last.psid, idle); err != nil {
				return err
			}
			select { // its page is free for events meanwhile
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(s.cfg.forgetPause):
			}
		}
		more = len(people) == batch
	}
	return nil
}

// stepPages calls do for all pages in order, batch of them at a time: for those behind
// after, up to last. So no statement about all pages keeps SQLite's one connection.
func (s *Store) stepPages(ctx context.Context, do func(ctx context.Context, after, last string) error) error {
	for after := ""; ; {
		var pages []string
		err := s.do(ctx, column(&pages, `SELECT page FROM pages WHERE page > $1 ORDER BY page LIMIT $2`, after, int64(batch)))
		if err != nil || len(pages) == 0 {
			return err
		}
		last := pages[len(pages)-1]
		if err := do(ctx, after, last); err != nil {
			return err
		}
		after = last
	}
}

// Silent is a member who has been silent for Config.Idle.
type Silent struct {
	Page, User string
	Since      time.Time // of its last event
}

// SilentMembers returns at most 1,000 silent members behind after, ordered by
// page and user. Calls that begin with the zero Silent and go on behind the last
// one, until there are none, return all of them. A silent member leaves its room
// when Receive gets its Idle event.
func (s *Store) SilentMembers(ctx context.Context, after Silent) ([]Silent, error) {
	if s.cfg.Idle == 0 {
		return nil, nil
	}
	var list []Silent
	// This reads the row of every member's user. An index by last_inbound would
	// cost every event more than this costs now and then.
	err := s.do(ctx, all(&list, `
		SELECT m.page, m.psid, u.last_inbound FROM members m JOIN people u ON u.page = m.page AND u.psid = m.psid
		WHERE u.last_inbound <= $1 AND (m.page, m.psid) > ($2, $3) ORDER BY m.page, m.psid LIMIT $4`,
		[]any{s.cfg.Now().Add(-s.cfg.Idle).UnixMilli(), after.Page, after.User, int64(batch)},
		func(r row, m *Silent) error {
			var since int64
			err := r.Scan(&m.Page, &m.User, &since)
			m.Since = time.UnixMilli(since)
			return err
		}))
	return list, failed("select silent members", err)
}
