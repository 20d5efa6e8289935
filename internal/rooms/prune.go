package rooms

import (
	"context"
	"fmt"
	"time"
)

// batch rows are deleted or listed at a time: some milliseconds, in which
// SQLite's one writer is not free for events.
const batch = 1000

// countsKept is how long the hours' counts are kept: the day that the
// platform's quota looks back on, and the hour that began before it.
const countsKept = 25 * time.Hour

// broadcastsKept is how long after its deadline a broadcast that has ended can
// be asked for, and its id means that one.
const broadcastsKept = 7 * 24 * time.Hour

// reportsKept is how long after its last time a report is kept.
const reportsKept = 90 * 24 * time.Hour

// Prune forgets the events received before that time, the hours' counts,
// reports and broadcasts that nobody asks for any more. It returns how many events it forgot. An
// event told again after that is taken for a new one.
func (s *Store) Prune(ctx context.Context, before time.Time) (int64, error) {
	var total int64
	for {
		var n int64
		err := s.do(ctx, query{
			sql: `
			DELETE FROM processed_events WHERE (page, event_id) IN
				(SELECT page, event_id FROM processed_events WHERE at < $1 LIMIT $2)`,
			args: []any{before.UnixMilli(), int64(batch)}, met: &n,
		}, query{
			sql: `DELETE FROM reports WHERE at < $1`, args: []any{s.cfg.Now().Add(-reportsKept).UnixMilli()},
		}, query{
			sql: `DELETE FROM room_hours WHERE hour < $1`, args: []any{hourOf(s.cfg.Now().Add(-countsKept))},
		}, query{
			sql:  `DELETE FROM broadcasts WHERE state <> 'running' AND deadline < $1`,
			args: []any{s.cfg.Now().Add(-broadcastsKept).UnixMilli()},
		})
		if err != nil {
			return total, fmt.Errorf("prune events: %w", err)
		}
		total += n
		if n < batch {
			return total, nil
		}
	}
}

// Silent is a member who has been silent for Config.Idle.
type Silent struct {
	Page, User string
	Since      time.Time // of its last event
}

// SilentMembers returns those by page and user that come after that one, at
// most 1,000; from the zero Silent on, until there are none, it is all of them.
// Each leaves its room when Receive gets an Idle event of it.
func (s *Store) SilentMembers(ctx context.Context, after Silent) ([]Silent, error) {
	if s.cfg.Idle == 0 {
		return nil, nil
	}
	var list []Silent
	// This reads every member's user. An index by last_inbound would cost
	// every event more than this costs now and then.
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
	if err != nil {
		return nil, fmt.Errorf("select silent members: %w", err)
	}
	return list, nil
}
