package rooms

import (
	"context"

	"chatclub/internal/plaintext"
)

// maxListed is how many rooms List tells: as many as a message has buttons
// for, with some left.
const maxListed = 10

// list tells the public rooms that somebody is in, those with a free place
// first.
func (v *visit) list(ctx context.Context) error {
	var total int64
	v.res.Notice = RoomList
	err := v.tx.run(
		ctx,
		one(nil, `SELECT COUNT(*) FROM rooms WHERE page = $1 AND code = '' AND members > 0`, []any{v.ev.Page}, &total),
		all(&v.res.Rooms, `
			SELECT number, members FROM rooms WHERE page = $1 AND code = '' AND members > 0
			ORDER BY CASE WHEN members < $2 THEN 0 ELSE 1 END, number LIMIT $3`,
			[]any{v.ev.Page, int64(v.s.cfg.Capacity), int64(maxListed)},
			func(r row, l *Listed) error { return r.Scan(&l.Number, &l.Members) }),
	)
	v.res.Count = int(total)
	return err
}

// rename changes the user's name, if nobody else in its room has it.
func (v *visit) rename(ctx context.Context) error {
	name := v.ev.Arg
	if v.place.Number != 0 {
		if err := v.lockPage(ctx); err != nil {
			return err
		}
		taken := false
		err := v.tx.run(ctx, one(&taken, `SELECT 1 FROM members WHERE page = $1 AND room = $2 AND name_key = $3 AND psid <> $4`,
			[]any{v.ev.Page, int64(v.place.Number), plaintext.Fold(name), v.ev.User}, new(int64)))
		if err != nil {
			return err
		}
		if taken {
			v.res.Notice, v.res.Subject = NameTaken, name
			return nil
		}
		v.write(`UPDATE members SET name = $3, name_key = $4 WHERE page = $1 AND psid = $2`,
			v.ev.Page, v.ev.User, name, plaintext.Fold(name))
	}
	v.person.name = name
	v.res.Notice, v.res.Name = Renamed, name
	return nil
}

// who tells the members of the user's room.
func (v *visit) who(ctx context.Context) error {
	if v.place.Number == 0 {
		v.res.Notice = Nowhere
		return nil
	}
	err := v.tx.run(ctx, column(&v.res.Names, `SELECT name FROM members WHERE page = $1 AND room = $2`,
		v.ev.Page, int64(v.place.Number)))
	sorted(v.res.Names)
	v.res.Notice, v.res.Count = Members, len(v.res.Names)-1
	return err
}

// somebody is another user as the one who asks knows him.
type somebody struct{ psid, name string }

// about is Block, Unblock and Report: what one wants of another.
func (v *visit) about(ctx context.Context) error {
	v.res.Subject = v.ev.Arg
	if v.ev.Action == Unblock {
		return v.unblock(ctx)
	}
	if v.place.Number == 0 {
		v.res.Notice = Nowhere
		return nil
	}
	var met []somebody
	err := v.tx.run(ctx, all(&met, `SELECT psid, name FROM members WHERE page = $1 AND room = $2 AND name_key = $3`,
		[]any{v.ev.Page, int64(v.place.Number), plaintext.Fold(v.ev.Arg)}, scanSomebody))
	if err != nil {
		return err
	}
	if len(met) == 0 {
		v.res.Notice = NoMember
		return nil
	}
	other, now := met[0], v.s.cfg.Now().UnixMilli()
	v.res.Subject = other.name
	switch {
	case other.psid == v.ev.User:
		v.res.Notice = Oneself
	case v.ev.Action == Report:
		v.res.Notice = Reported
		v.report(other, now)
	default:
		v.res.Notice = Blocked
		v.write(`
			INSERT INTO blocks (page, blocker, blocked, name, name_key, at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (page, blocker, blocked) DO UPDATE SET name = excluded.name, name_key = excluded.name_key`,
			v.ev.Page, v.ev.User, other.psid, other.name, plaintext.Fold(other.name), now)
	}
	return nil
}

// report writes down what the user says of another member, in the place of
// what it said of the same one before. An event that is told again after it
// was pruned counts once more.
func (v *visit) report(other somebody, now int64) {
	v.write(`
		UPDATE reports SET times = times + 1, room = $4, name = $5, at = $6 WHERE page = $1 AND reporter = $2 AND accused = $3`,
		v.ev.Page, v.ev.User, other.psid, int64(v.place.Number), other.name, now)
	v.write(`
		INSERT INTO reports (page, event_id, reporter, room, accused, name, at)
		SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS BIGINT)
		WHERE NOT EXISTS (SELECT 1 FROM reports WHERE page = $1 AND reporter = $3 AND accused = $5)
		ON CONFLICT (page, event_id) DO NOTHING`,
		v.ev.Page, v.ev.ID, v.ev.User, int64(v.place.Number), other.psid, other.name, now)
}

// unblock undoes the blocks of all whom the user blocked under that name, or
// who are called so in its room now.
func (v *visit) unblock(ctx context.Context) error {
	var blocked []somebody
	err := v.tx.run(ctx, all(&blocked, `
		SELECT b.blocked, b.name FROM blocks b
		LEFT JOIN members m ON m.page = b.page AND m.psid = b.blocked AND m.room = $4
		WHERE b.page = $1 AND b.blocker = $2 AND (b.name_key = $3 OR m.name_key = $3)`,
		[]any{v.ev.Page, v.ev.User, plaintext.Fold(v.ev.Arg), int64(v.place.Number)}, scanSomebody))
	if err != nil {
		return err
	}
	v.res.Notice = NotBlocked
	for _, other := range blocked {
		v.res.Notice = Unblocked
		v.write(`DELETE FROM blocks WHERE page = $1 AND blocker = $2 AND blocked = $3`, v.ev.Page, v.ev.User, other.psid)
	}
	return nil
}

func scanSomebody(r row, s *somebody) error { return r.Scan(&s.psid, &s.name) }
