package rooms

import (
	"context"
	"fmt"
	"time"
)

// batch is how many rows are deleted or listed at a time. It takes some
// milliseconds, in which SQLite's one connection is not free for events.
const batch = 1000

// countsKept is how long the hours' counts are kept: the day over which the
// platform's quota is measured, and the hour that began before it.
const countsKept = 25 * time.Hour

// broadcastsKept is how long after its deadline an ended broadcast is kept. Until
// then its id cannot be used again.
const broadcastsKept = 7 * 24 * time.Hour

// reportsKept is how long a report is kept after it was last repeated.
const reportsKept = 90 * 24 * time.Hour

// Prune deletes the events received before that time, and old counts, names,
// reports with their texts, and broadcasts. It returns how many events it deleted. A deleted event that is
// repeated counts as a new one. Prune has no time limit.
func (s *Store) Prune(ctx context.Context, before time.Time) (int64, error) {
	var total int64
	for {
		var n int64
		err := s.inLongTx(ctx, func(ctx context.Context, tx transaction) error {
			return tx.commit(ctx, query{
				sql: `
				DELETE FROM processed_events WHERE (page, event_id) IN
					(SELECT page, event_id FROM processed_events WHERE at < $1 LIMIT $2)`,
				args: []any{before.UnixMilli(), int64(batch)}, affected: &n,
			}, query{
				sql: `DELETE FROM reports WHERE at < $1`, args: []any{s.cfg.Now().Add(-reportsKept).UnixMilli()},
			}, query{
				sql: `DELETE FROM past_names WHERE until <= $1`, args: []any{s.cfg.Now().UnixMilli()},
			}, query{
				sql: `DELETE FROM shown_members WHERE at <= $1`, args: []any{s.cfg.Now().Add(-nameKept).UnixMilli()},
			}, query{
				sql: `DELETE FROM room_hours WHERE hour < $1`, args: []any{hourOf(s.cfg.Now().Add(-countsKept))},
			}, query{
				sql:  `DELETE FROM broadcasts WHERE state <> 'running' AND deadline < $1`,
				args: []any{s.cfg.Now().Add(-broadcastsKept).UnixMilli()},
			})
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
	if err != nil {
		return nil, fmt.Errorf("select silent members: %w", err)
	}
	return list, nil
}
