package rooms

import (
	"context"

	"chatclub/internal/command"
	"chatclub/internal/plaintext"
)

// maxListed is how many rooms a list has: as many as a message has buttons
// for, with some left.
const maxListed = 10

// list lists the public rooms that have members, those with a free place first.
func (e *eventTx) list(ctx context.Context) error {
	var total int64
	e.res.Notice = RoomList
	err := e.tx.run(
		ctx,
		one(nil, `SELECT COUNT(*) FROM rooms WHERE page = $1 AND code = '' AND members > 0`, []any{e.ev.Page}, &total),
		all(&e.res.Rooms, `
			SELECT number, members FROM rooms WHERE page = $1 AND code = '' AND members > 0
			ORDER BY CASE WHEN members < $2 THEN 0 ELSE 1 END, number LIMIT $3`,
			[]any{e.ev.Page, int64(e.s.cfg.Capacity), int64(maxListed)},
			func(r row, l *Listed) error { return r.Scan(&l.Number, &l.Members) }),
	)
	e.res.Count = int(total)
	return err
}

// rename changes the user's name, unless another member of its room has it.
func (e *eventTx) rename(ctx context.Context) error {
	name := e.ev.Command.Name
	if e.in.Number != 0 {
		if err := e.lockPage(ctx); err != nil {
			return err
		}
		taken := false
		err := e.tx.run(ctx, one(&taken, `SELECT 1 FROM members WHERE page = $1 AND room = $2 AND name_key = $3 AND psid <> $4`,
			[]any{e.ev.Page, int64(e.in.Number), plaintext.Fold(name), e.ev.User}, new(int64)))
		if err != nil {
			return err
		}
		if taken {
			e.res.Notice, e.res.Subject = NameTaken, name
			return nil
		}
		e.write(`UPDATE members SET name = $3, name_key = $4 WHERE page = $1 AND psid = $2`,
			e.ev.Page, e.ev.User, name, plaintext.Fold(name))
	}
	e.user.name = name
	e.res.Notice, e.res.Name = Renamed, name
	return nil
}

// who lists the members of the user's room.
func (e *eventTx) who(ctx context.Context) error {
	if e.in.Number == 0 {
		e.res.Notice = Nowhere
		return nil
	}
	err := e.tx.run(ctx, column(&e.res.Names, `SELECT name FROM members WHERE page = $1 AND room = $2`,
		e.ev.Page, int64(e.in.Number)))
	sorted(e.res.Names)
	e.res.Notice, e.res.Count = Members, len(e.res.Names)-1
	return err
}

// other is another user, under the name by which the acting user knows it.
type other struct{ psid, name string }

func scanOther(r row, o *other) error { return r.Scan(&o.psid, &o.name) }

// about handles Block and Report, which concern another member of the room.
func (e *eventTx) about(ctx context.Context) error {
	e.res.Subject = e.ev.Command.Name
	if e.in.Number == 0 {
		e.res.Notice = Nowhere
		return nil
	}
	var found []other
	err := e.tx.run(ctx, all(&found, `SELECT psid, name FROM members WHERE page = $1 AND room = $2 AND name_key = $3`,
		[]any{e.ev.Page, int64(e.in.Number), plaintext.Fold(e.ev.Command.Name)}, scanOther))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		e.res.Notice = NoMember
		return nil
	}
	member, now := found[0], e.s.cfg.Now().UnixMilli()
	e.res.Subject = member.name
	switch {
	case member.psid == e.ev.User:
		e.res.Notice = Oneself
	case e.ev.Command.Kind == command.Report:
		e.res.Notice = Reported
		e.report(member, now)
	default:
		e.res.Notice = Blocked
		e.write(`
			INSERT INTO blocks (page, blocker, blocked, name, name_key, at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (page, blocker, blocked) DO UPDATE SET name = excluded.name, name_key = excluded.name_key`,
			e.ev.Page, e.ev.User, member.psid, member.name, plaintext.Fold(member.name), now)
	}
	return nil
}

// report records the user's report of another member. It replaces the user's
// previous report of that member. An event that is repeated after it was pruned
// counts once more.
func (e *eventTx) report(accused other, now int64) {
	e.write(`
		UPDATE reports SET times = times + 1, room = $4, name = $5, at = $6 WHERE page = $1 AND reporter = $2 AND accused = $3`,
		e.ev.Page, e.ev.User, accused.psid, int64(e.in.Number), accused.name, now)
	e.write(`
		INSERT INTO reports (page, event_id, reporter, room, accused, name, at)
		SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS BIGINT)
		WHERE NOT EXISTS (SELECT 1 FROM reports WHERE page = $1 AND reporter = $3 AND accused = $5)
		ON CONFLICT (page, event_id) DO NOTHING`,
		e.ev.Page, e.ev.ID, e.ev.User, int64(e.in.Number), accused.psid, accused.name, now)
}

// unblock undoes the blocks of all users whom the user blocked under that name,
// or who have that name in its room now.
func (e *eventTx) unblock(ctx context.Context) error {
	e.res.Subject = e.ev.Command.Name
	var blocked []other
	err := e.tx.run(ctx, all(&blocked, `
		SELECT b.blocked, b.name FROM blocks b
		LEFT JOIN members m ON m.page = b.page AND m.psid = b.blocked AND m.room = $4
		WHERE b.page = $1 AND b.blocker = $2 AND (b.name_key = $3 OR m.name_key = $3)`,
		[]any{e.ev.Page, e.ev.User, plaintext.Fold(e.ev.Command.Name), int64(e.in.Number)}, scanOther))
	if err != nil {
		return err
	}
	e.res.Notice = NotBlocked
	for _, o := range blocked {
		e.res.Notice = Unblocked
		e.write(`DELETE FROM blocks WHERE page = $1 AND blocker = $2 AND blocked = $3`, e.ev.Page, e.ev.User, o.psid)
	}
	return nil
}
