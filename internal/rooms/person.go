package rooms

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"chatclub/internal/command"
	"chatclub/internal/plaintext"
)

// person is a user under a name by which the acting user knows it.
type person struct {
	psid, name string
	room       int // where it has or had the name
}

func scanPerson(r row, p *person) error { return r.Scan(&p.psid, &p.name, &p.room) }

// about handles Block and Report, which concern another person.
func (e *eventTx) about(ctx context.Context) error {
	found, notice, err := e.findPerson(ctx)
	if err != nil || notice != Silence {
		e.res.Notice = notice
		return err
	}
	e.res.Subject = found.name
	now := e.s.cfg.Now().UnixMilli()
	switch {
	case found.psid == e.ev.User:
		e.res.Notice = Oneself
	case e.ev.Command.Kind == command.Report:
		e.res.Notice = Reported
		e.report(found, now)
	default:
		e.res.Notice = Blocked
		e.write(`
			INSERT INTO blocks (page, blocker, blocked, name, name_key, at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (page, blocker, blocked) DO UPDATE SET name = excluded.name, name_key = excluded.name_key`,
			e.ev.Page, e.ev.User, found.psid, found.name, plaintext.Fold(found.name), now)
	}
	return nil
}

// findPerson returns the person that the command is about. It stands at the command's
// number in the list that the user saw last, or has its name, or gave it up not long
// ago, in the user's room or in the room that it left last. If it is nobody, the
// notice says so.
func (e *eventTx) findPerson(ctx context.Context) (found person, notice Notice, err error) {
	c, now := e.ev.Command, e.s.cfg.Now().UnixMilli()
	e.res.Subject = c.Name
	if c.Number > 0 {
		found, ok, err := e.shown(ctx)
		if err == nil && !ok {
			return person{}, NoMember, nil
		}
		return found, Silence, err
	}
	here, left := int64(e.in.Number), int64(0)
	if e.user.leftUntil > now {
		left = e.user.leftRoom
	}
	if here == 0 && left == 0 {
		return person{}, Nowhere, nil
	}
	var present, past []person
	args := []any{e.ev.Page, here, left}
	err = e.tx.run(
		ctx,
		all(&present, `SELECT psid, name, room FROM members WHERE page = $1 AND room IN ($2, $3)`, args, scanPerson),
		all(&past, `
			SELECT psid, name, room FROM past_names
			WHERE page = $1 AND room IN ($2, $3) AND until > $4 AND skeleton IN `+places(5, plaintext.MaxSkeletons),
			append(append(args, now), forms(c.Name)...), scanPerson),
	)
	if err != nil {
		return person{}, Silence, err
	}
	list := slices.DeleteFunc(append(present, past...), func(p person) bool { return !plaintext.LooksLike(p.name, c.Name) })
	if len(list) == 0 {
		return person{}, NoMember, nil
	}
	// Names that look alike may be in its two rooms, and given up in one. The written
	// name counts first, then a person in the user's room.
	return slices.MinFunc(list, func(a, b person) int {
		return cmp.Compare(e.distance(a), e.distance(b))
	}), Silence, nil
}

// distance says how far a person is from the name of the command.
func (e *eventTx) distance(p person) (n int) {
	if plaintext.Fold(p.name) != plaintext.Fold(e.ev.Command.Name) {
		n += 2
	}
	if p.room != e.in.Number {
		n++
	}
	return n
}

// shown returns the person at the command's number in the list that the user saw last.
func (e *eventTx) shown(ctx context.Context) (found person, ok bool, err error) {
	n := e.ev.Command.Number
	e.res.Subject = strconv.Itoa(n)
	var members string
	err = e.tx.run(ctx, one(&ok, `SELECT room, members FROM shown_members WHERE page = $1 AND psid = $2 AND at > $3`,
		[]any{e.ev.Page, e.ev.User, e.s.cfg.Now().Add(-nameKept).UnixMilli()}, &found.room, &members))
	list := strings.Split(members, separator)
	if err != nil || !ok || n > len(list)/2 {
		return person{}, false, err
	}
	found.psid, found.name = list[2*n-2], list[2*n-1]
	return found, true, nil
}

const (
	// textsKept is the number of the accused's texts in a report, and maxTexts the
	// number from which on it takes no more when it is repeated.
	textsKept = 10
	maxTexts  = 30
)

// report records the user's report of another person, with what that one wrote
// in the room in the last day. It replaces the user's previous report of that
// person, whose texts stay. An event that is repeated after it was pruned counts
// once more.
func (e *eventTx) report(accused person, now int64) {
	e.write(`
		UPDATE reports SET times = times + 1, room = $4, name = $5, at = $6 WHERE page = $1 AND reporter = $2 AND accused = $3`,
		e.ev.Page, e.ev.User, accused.psid, int64(accused.room), accused.name, now)
	e.write(`
		INSERT INTO reports (page, event_id, reporter, room, accused, name, at)
		SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS BIGINT)
		WHERE NOT EXISTS (SELECT 1 FROM reports WHERE page = $1 AND reporter = $3 AND accused = $5)
		ON CONFLICT (page, event_id) DO NOTHING`,
		e.ev.Page, e.ev.ID, e.ev.User, int64(accused.room), accused.psid, accused.name, now)
	e.write(`
		INSERT INTO report_texts (page, report, event_id, at, text)
		SELECT e.page, r.event_id, e.event_id, e.at, e.text
		FROM reports r JOIN processed_events e ON e.page = r.page AND e.psid = r.accused AND e.room = r.room
		WHERE r.page = $1 AND r.reporter = $2 AND r.accused = $3 AND e.text IS NOT NULL AND e.at > $4
			AND (SELECT COUNT(*) FROM report_texts t WHERE t.page = r.page AND t.report = r.event_id) < $5
		ORDER BY e.at DESC, e.event_id DESC LIMIT $6
		ON CONFLICT (page, report, event_id) DO NOTHING`,
		e.ev.Page, e.ev.User, accused.psid, now-nameKept.Milliseconds(), int64(maxTexts), int64(textsKept))
}

// maxBlocks is the number of a user's blocks that are searched for a name: the latest.
const maxBlocks = 1000

// unblock undoes the blocks of all users whom the user blocked under that name,
// or who have that name in its room now, or of the one of that number.
func (e *eventTx) unblock(ctx context.Context) error {
	c := e.ev.Command
	e.res.Subject, e.res.Notice = c.Name, NotBlocked
	var at person
	if c.Number > 0 {
		var ok bool
		var err error
		if at, ok, err = e.shown(ctx); err != nil || !ok {
			e.res.Notice = NoMember
			return err
		}
		e.res.Subject = at.name
	}
	type block struct {
		psid, name string
		here       *string // its name in the user's room
	}
	var blocks []block
	err := e.tx.run(ctx, all(&blocks, `
		SELECT b.blocked, b.name, m.name FROM blocks b
		LEFT JOIN members m ON m.page = b.page AND m.psid = b.blocked AND m.room = $3
		WHERE b.page = $1 AND b.blocker = $2 ORDER BY b.at DESC, b.blocked LIMIT $4`,
		[]any{e.ev.Page, e.ev.User, int64(e.in.Number), int64(maxBlocks)},
		func(r row, b *block) error { return r.Scan(&b.psid, &b.name, &b.here) }))
	for _, b := range blocks {
		if c.Number > 0 && b.psid != at.psid || c.Number == 0 && !plaintext.LooksLike(b.name, c.Name) &&
			(b.here == nil || !plaintext.LooksLike(*b.here, c.Name)) {
			continue
		}
		e.res.Notice = Unblocked
		e.write(`DELETE FROM blocks WHERE page = $1 AND blocker = $2 AND blocked = $3`, e.ev.Page, e.ev.User, b.psid)
	}
	return err
}
