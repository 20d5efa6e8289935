package rooms

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Broadcasts are worked on by their holders. A holder has a broadcast until its
// lease ends or it gives it back, and what it writes of one that it has no
// longer changes nothing.

// claimBatch is how many broadcasts a holder takes at a time, so that several
// that begin together have their parts.
const claimBatch = 100

// Claim is what ClaimBroadcasts found.
type Claim struct {
	New  []Broadcast // taken now, the oldest first
	Held []string    // ids of those whose lease was prolonged
	More bool        // there may be others to take
}

// ClaimBroadcasts takes running broadcasts that nobody holds, and prolongs the
// leases of holder's own that are past their first third.
func (s *Store) ClaimBroadcasts(ctx context.Context, holder string, lease time.Duration) (Claim, error) {
	var c Claim
	lock, skip := s.db.lock(), ""
	if lock != "" {
		skip = " SKIP LOCKED" // another core is just taking it
	}
	now := s.cfg.Now()
	until := now.Add(lease).UnixMilli()
	// By id, as all that changes several, so that no two wait for each other.
	err := s.do(ctx, all(&c.Held, `
		UPDATE broadcasts SET until = $2 WHERE id IN (
			SELECT id FROM broadcasts WHERE state = 'running' AND holder = $1 AND until < $3 ORDER BY id`+lock+`) RETURNING id`,
		[]any{holder, until, now.Add(lease * 2 / 3).UnixMilli()},
		func(r row, id *string) error { return r.Scan(id) },
	), all(&c.New, `
		UPDATE broadcasts SET holder = $1, until = $2 WHERE id IN (
			SELECT id FROM broadcasts WHERE state = 'running' AND holder <> $1 AND until <= $3 ORDER BY created LIMIT $4`+lock+skip+`)
		RETURNING `+broadcastColumns,
		[]any{holder, until, now.UnixMilli(), int64(claimBatch)}, scanBroadcast))
	if err != nil {
		return Claim{}, fmt.Errorf("claim broadcasts: %w", err)
	}
	c.More = len(c.New) == claimBatch
	slices.SortFunc(c.New, func(a, b Broadcast) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return c, nil
}

// DelayBroadcasts lets no recipient of a page's broadcasts have a turn before
// that time.
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
	if err != nil {
		return fmt.Errorf("delay broadcasts: %w", classify(err))
	}
	return nil
}

// ReleaseBroadcasts gives back those of these ids that holder has, all of them
// if none is given, for others to take at once.
func (s *Store) ReleaseBroadcasts(ctx context.Context, holder string, ids ...string) error {
	const release = `UPDATE broadcasts SET holder = '', until = 0 WHERE state = 'running' AND holder = $1`
	queries := []query{{sql: release, args: []any{holder}}}
	if len(ids) > 0 {
		queries = nil
	}
	for _, id := range ids {
		queries = append(queries, query{sql: release + ` AND id = $2`, args: []any{holder, id}})
	}
	if err := s.do(ctx, queries...); err != nil {
		return fmt.Errorf("release broadcasts: %w", err)
	}
	return nil
}

// Turn is of a broadcast whose next recipients are asked for: those behind its
// Cursor.
type Turn struct {
	Broadcast
	Limit int
}

// Next is the answer to a Turn.
type Next struct {
	Held   bool      // false: the holder no longer has it, or it is running no longer
	Cursor string    // as it is kept
	Queued int       // as it is kept
	Due    time.Time // as it is kept
	Paused bool      // its page is
	To     []string  // those who are behind the asked one's Cursor at this moment, in order; at most Limit
}

// NextRecipients answers in the order of turns, in one round trip.
func (s *Store) NextRecipients(ctx context.Context, holder string, turns []Turn) ([]Next, error) {
	answers := make([]Next, len(turns))
	var queries []query
	now := s.cfg.Now().UnixMilli()
	for i, a := range turns {
		n := &answers[i]
		from, args := s.audience(a.Page, a.Room)
		queries = append(queries, query{
			sql: `
			SELECT b.cursor, b.queued, b.due, COALESCE(p.paused_until, 0)
			FROM broadcasts b LEFT JOIN pages p ON p.page = b.page
			WHERE b.id = $1 AND b.holder = $2 AND b.state = 'running'`,
			args: []any{a.ID, holder},
			each: func(r row) error {
				var due, paused int64
				err := r.Scan(&n.Cursor, &n.Queued, &due, &paused)
				n.Held, n.Due, n.Paused = true, time.UnixMilli(due).UTC(), paused > now
				return err
			},
		}, column(&n.To, `SELECT m.psid`+from+` AND m.psid > $4 ORDER BY m.psid LIMIT $5`, append(args, a.Cursor, int64(a.Limit))...))
	}
	if err := s.do(ctx, queries...); err != nil {
		return nil, fmt.Errorf("select recipients: %w", err)
	}
	return answers, nil
}

// Step is what a broadcast's Cursor, Queued, Due and State become.
type Step struct {
	Broadcast
	Was string // the Cursor before
}

// AdvanceBroadcasts writes down how far broadcasts have come, in one round
// trip, and returns the state of each afterwards; an operator who stopped it
// meanwhile has the last word. The state is empty, and nothing is written, for
// one that the holder no longer has where it was. Idempotent.
func (s *Store) AdvanceBroadcasts(ctx context.Context, holder string, steps []Step) ([]BroadcastState, error) {
	states := make([]BroadcastState, len(steps))
	queries := make([]query, len(steps))
	for i, b := range steps {
		queries[i] = query{
			sql: `
			UPDATE broadcasts SET cursor = $3, queued = $4, due = $5, state = CASE WHEN state = 'running' THEN $6 ELSE state END
			WHERE id = $1 AND holder = $2 AND cursor IN ($3, $7) RETURNING state`,
			args: []any{b.ID, holder, b.Cursor, int64(b.Queued), b.Due.UnixMilli(), string(b.State), b.Was},
			each: func(r row) error { return r.Scan(&states[i]) },
		}
	}
	slices.SortFunc(queries, func(a, b query) int { return cmp.Compare(a.args[0].(string), b.args[0].(string)) }) //nolint:forcetypeassert // the id
	if err := s.do(ctx, queries...); err != nil {
		return nil, fmt.Errorf("advance broadcasts: %w", err)
	}
	return states, nil
}
