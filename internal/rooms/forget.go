package rooms

import "context"

// Forget deletes all that is kept of a user of a page: the user with its name and
// language, its membership, the blocks and reports by it and about it. A user who
// writes again is a new one. Of a banned user only its id and the ban stay, because
// everybody could end a ban by this otherwise.
//
// It does not reach copies that others hold: messages on the queues, and for a
// while the cursor of a broadcast whose last recipient it was. The error is
// ErrUnknown if the page has no such user. Idempotent.
func (s *Store) Forget(ctx context.Context, page, psid string) error {
	found, err := s.forget(ctx, page, psid, never)
	return failed("forget user", classify(orUnknown(err, found)))
}

// forget forgets a user unless it has written since idle. It reports whether there
// was one.
func (s *Store) forget(ctx context.Context, page, psid string, idle int64) (found bool, err error) {
	err = s.withUser(ctx, page, psid, func(ctx context.Context, tx transaction, u user, known bool) error {
		// The page's row, which evict locks, keeps two of its users from being forgotten
		// at a time, who may have blocked each other.
		found = known
		if !found || u.lastInbound > idle {
			return nil // without a row in people nothing is kept of a user
		}
		writes := s.forgetting(page, psid)
		if u.bannedUntil > s.cfg.Now().UnixMilli() {
			banned := user{page: page, psid: psid, lastNumber: 1, bannedUntil: u.bannedUntil, banTold: u.banTold}
			writes = append(writes, banned.save())
		} else {
			writes = append(writes, query{sql: `DELETE FROM people WHERE page = $1 AND psid = $2`, args: []any{page, psid}})
		}
		return s.evict(ctx, tx, u, writes...)
	})
	return found, err
}

// forgetting returns the statements that delete a user's rows beside its
// own row and its membership, which ended before them.
func (s *Store) forgetting(page, psid string) []query {
	find := "INSTR"
	if s.postgres {
		find = "STRPOS"
	}
	var list []query
	for _, sql := range []string{
		`DELETE FROM blocks WHERE page = $1 AND blocker = $2`,
		`DELETE FROM blocks WHERE page = $1 AND blocked = $2`,
		`DELETE FROM reports WHERE page = $1 AND reporter = $2`, // with the texts
		`DELETE FROM reports WHERE page = $1 AND accused = $2`,
		// The events by which it left its rooms, whose ids hold its own.
		`DELETE FROM processed_events WHERE page = $1 AND psid = $2 AND text = ''`,
		`UPDATE processed_events SET psid = NULL, room = NULL, text = NULL WHERE page = $1 AND psid = $2 AND text IS NOT NULL`,
		`DELETE FROM shown_members WHERE page = $1 AND psid = $2`,
		// The lists in which the user stands are shown again. They are as old as its
		// names at most, and of the rooms that it was in.
		`DELETE FROM shown_members WHERE page = $1 AND room IN (
			SELECT room FROM past_names WHERE page = $1 AND psid = $2
			UNION SELECT left_room FROM people WHERE page = $1 AND psid = $2
		) AND ` + find + `(members, CAST($2 AS TEXT)) > 0`,
		`DELETE FROM past_names WHERE page = $1 AND psid = $2`,
	} {
		list = append(list, query{sql: sql, args: []any{page, psid}})
	}
	return list
}
