package rooms

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// A broadcast is worked on by its holder, until the lease ends or the holder
// releases it. A holder that has lost a broadcast can change nothing of it.

// claimBatch is the number of broadcasts that a holder claims at a time, so that
// several holders that begin together share them.
const claimBatch = 100

// Claim is the result of Broadcasts.Claim.
type Claim struct {
	New  []Broadcast // claimed now, the oldest first
	Held []string    // ids of those whose lease was renewed
	More bool        // there may be more to claim
}

// Claim claims running broadcasts without a holder, and renews the
// holder's own leases that are past their first third. It does neither by a clock that is
// ahead, see ErrAhead: by that all leases have ended, and all deadlines have passed.
func (bs Broadcasts) Claim(ctx context.Context, holder string, lease time.Duration) (Claim, error) {
	if err := bs.s.CheckClock(ctx); err != nil {
		return Claim{}, fmt.Errorf("claim broadcasts: %w", err)
	}
	var c Claim
	lock := bs.s.db.lock()
	now := bs.s.cfg.Now()
	until := now.Add(lease).UnixMilli()
	// Every statement that changes several broadcasts locks them in the order of
	// their ids, so that no two wait for each other. One that another core is just
	// claiming is left to it.
	err := bs.s.do(ctx, all(&c.Held, `
		UPDATE broadcasts SET until = $2 WHERE id IN (
			SELECT id FROM broadcasts WHERE state = 'running' AND holder = $1 AND until < $3 ORDER BY id`+lock+`) RETURNING id`,
		[]any{holder, until, now.Add(lease * 2 / 3).UnixMilli()},
		func(r row, id *string) error { return r.Scan(id) },
	), all(&c.New, `
		UPDATE broadcasts SET holder = $1, until = $2 WHERE id IN (
			SELECT id FROM broadcasts WHERE state = 'running' AND holder <> $1 AND until <= $3 ORDER BY created LIMIT $4`+bs.s.skipLocked()+`)
		RETURNING `+broadcastColumns,
		[]any{holder, until, now.UnixMilli(), int64(claimBatch)}, scanBroadcast))
	if err != nil {
		return Claim{}, fmt.Errorf("claim broadcasts: %w", err)
	}
	c.More = len(c.New) == claimBatch
	slices.SortFunc(c.New, func(a, b Broadcast) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return c, nil
}

// Release ends the holder's leases of these broadcasts, of all its
// broadcasts if no id is given, so that others can claim them at once.
func (bs Broadcasts) Release(ctx context.Context, holder string, ids ...string) error {
	const release = `
		UPDATE broadcasts SET holder = '', until = 0 WHERE id IN (
			SELECT id FROM broadcasts WHERE state = 'running' AND holder = $1`
	order := ` ORDER BY id` + bs.s.db.lock() + `)`
	queries := []query{{sql: release + order, args: []any{holder}}}
	if len(ids) > 0 {
		queries = nil
	}
	for _, id := range slices.Sorted(slices.Values(ids)) {
		queries = append(queries, query{sql: release + ` AND id = $2` + order, args: []any{holder, id}})
	}
	return failed("release broadcasts", bs.s.do(ctx, queries...))
}

// Recipients is the answer of Broadcasts.NextRecipients.
type Recipients struct {
	Held   bool      // false: the holder lost the broadcast, or it runs no longer
	Cursor string    // as stored
	Queued int       // as stored
	Due    time.Time // as stored
	Paused bool      // the page is paused
	To     []string  // the recipients behind the broadcast's Cursor at this moment, in order
}

// NextRecipients returns at most limit recipients of a broadcast, those behind its
// Cursor, in one round trip. Like Claim it returns ErrAhead by a clock that is ahead.
func (bs Broadcasts) NextRecipients(ctx context.Context, holder string, b Broadcast, limit int) (Recipients, error) {
	var answer Recipients
	err := bs.s.doOnTime(ctx, query{
		sql: `
		SELECT b.cursor, b.queued, b.due, COALESCE(p.paused_until, 0)
		FROM broadcasts b LEFT JOIN pages p ON p.page = b.page
		WHERE b.id = $1 AND b.holder = $2 AND b.state = 'running'`,
		args: []any{b.ID, holder},
		scan: func(r row) error {
			var due, paused int64
			err := r.Scan(&answer.Cursor, &answer.Queued, &due, &paused)
			answer.Held, answer.Due, answer.Paused = true, time.UnixMilli(due).UTC(), paused > bs.s.cfg.Now().UnixMilli()
			return err
		},
	}, bs.recipients(b, limit, &answer.To))
	return answer, failed("select recipients", err)
}

// recipients reads the recipients behind the Cursor of a broadcast. Both tables are
// bounded by it: PostgreSQL may merge them, and would read all people up to the cursor
// of a table that is not.
func (bs Broadcasts) recipients(b Broadcast, limit int, to *[]string) query {
	from, args := bs.audience(b.Page, b.Room)
	return column(to, `SELECT m.psid`+from+` AND m.psid > $5 AND u.psid > $5 ORDER BY m.psid LIMIT $6`,
		append(args, b.Cursor, int64(limit))...)
}

// Progress holds the new Cursor, Queued, Due and State of a broadcast.
type Progress struct {
	Broadcast
	From string // the Cursor before
}

// Advance records the progress of a broadcast, and returns its state afterwards. A
// broadcast that an operator stopped meanwhile stays stopped. If the holder has lost
// the broadcast, or its Cursor is another one, nothing is written and the state is
// empty. Idempotent.
func (bs Broadcasts) Advance(ctx context.Context, holder string, p Progress) (state BroadcastState, err error) {
	err = bs.s.do(ctx, query{
		sql: `
		UPDATE broadcasts SET cursor = $3, queued = $4, due = $5, state = CASE WHEN state = 'running' THEN $6 ELSE state END
		WHERE id = $1 AND holder = $2 AND cursor IN ($3, $7) RETURNING state`,
		args: []any{p.ID, holder, p.Cursor, int64(p.Queued), p.Due.UnixMilli(), string(p.State), p.From},
		scan: func(r row) error { return r.Scan(&state) },
	})
	return state, failed("advance broadcast", err)
}
