package rooms

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"chatclub/internal/plaintext"
)

// maxListed is the number of rooms in a list: as many as a message has buttons for,
// with some left.
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

// rename changes the user's name, and tells the others in its room. The name must
// look like none that another has there, or gave up not long ago.
func (e *eventTx) rename(ctx context.Context) error {
	name := e.ev.Command.Name
	n := roomNames{own: []pastName{{name: e.user.name}}}
	if e.in.Number != 0 {
		if err := e.lockPage(ctx); err != nil {
			return err
		}
		n.own = nil
		if err := e.tx.run(ctx, e.loadNames(&n, e.in.Number, []string{name})...); err != nil {
			return err
		}
	}
	now := e.s.cfg.Now().UnixMilli()
	e.res.Subject = name
	switch {
	case plaintext.Reserved(name) && !n.gaveUp(name) && plaintext.Fold(name) != plaintext.Fold(e.in.name):
		e.res.Notice = NameHouse
		return nil
	case n.isTaken(name):
		e.res.Notice = NameTaken
		return nil
	case name != e.in.name && n.mayTake(name) > now:
		e.res.Notice, e.res.Until = NameOften, untilTime(n.mayTake(name))
		return nil
	case name != e.in.name && !e.pay(e.lines(len(e.relay))):
		return nil
	}
	if e.in.Number != 0 && name != e.in.name {
		e.writes = append(e.writes, e.user.keepName(e.in, e.s.cfg.Now())...)
		e.write(`UPDATE members SET name = $3, name_key = $4 WHERE page = $1 AND psid = $2`,
			e.ev.Page, e.ev.User, name, plaintext.Fold(name))
		e.res.Was, e.res.Relay = e.in.name, sorted(e.relay)
	}
	e.user.name = name
	e.res.Notice, e.res.Name, e.res.Subject = Renamed, name, ""
	return nil
}

// maxPart is the number of UTF-16 units that the platform takes in one text, and
// lineMarks the number that an answer has about a name: its number, a dot, a space and
// the line's end.
const (
	maxPart   = 2000
	lineMarks = 6
)

// partsOf returns how many texts a list of names takes.
func partsOf(list []person) int {
	units := 0
	for _, p := range list {
		units += plaintext.Len(p.name) + lineMarks
	}
	return 1 + units/maxPart
}

// who lists the members of the user's room, and keeps the list for the numbers
// that the user takes from it.
func (e *eventTx) who(ctx context.Context) error {
	if e.in.Number == 0 {
		e.res.Notice = Nowhere
		return nil
	}
	var list []person
	err := e.tx.run(ctx, all(&list, `SELECT psid, name, room FROM members WHERE page = $1 AND room = $2`,
		[]any{e.ev.Page, int64(e.in.Number)}, scanPerson))
	if err != nil {
		return err
	}
	if n := partsOf(list); n > 1 && !e.pay(e.lines(n)) {
		return nil
	}
	slices.SortFunc(list, func(a, b person) int { return cmp.Compare(a.name, b.name) })
	var kept []string
	for _, p := range list {
		e.res.Names, kept = append(e.res.Names, p.name), append(kept, p.psid, p.name)
	}
	e.write(`
		INSERT INTO shown_members (page, psid, room, members, at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (page, psid) DO UPDATE SET room = excluded.room, members = excluded.members, at = excluded.at`,
		e.ev.Page, e.ev.User, int64(e.in.Number), strings.Join(kept, separator), e.s.cfg.Now().UnixMilli())
	e.res.Notice, e.res.Count = Members, len(list)-1
	return nil
}
