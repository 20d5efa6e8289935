package rooms

import (
	"context"
	"strconv"
	"time"

	"chatclub/internal/command"
	"chatclub/internal/plaintext"
)

// enter handles messages and Start, which bring a user who is in no room into
// one.
func (e *eventTx) enter(ctx context.Context) error {
	if e.in.Number == 0 {
		to := Room{Number: int(e.user.lastNumber), Code: e.user.lastCode}
		if err := e.move(ctx, to); err != nil {
			return err
		}
		if e.ev.Time != nil && e.ev.IsMessage() {
			e.owe(e.ev.Time(len(e.relay))) // whose recipients are known only now
		}
	} else if e.ev.Command.Kind == command.Start {
		e.res.Notice, e.res.Count = Here, e.in.members-1
	}
	if e.ev.IsMessage() {
		e.res.Relay = sorted(e.relay)
	}
	return nil
}

// join brings the user into the room that it asks for.
func (e *eventTx) join(ctx context.Context) error {
	asked := e.ev.Command.Room
	number, err := strconv.Atoi(asked)
	switch {
	case asked == "" && e.in.Number != 0:
		e.res.Notice, e.res.Count = Here, e.in.members-1
		return nil
	case asked == "":
		return e.enter(ctx)
	case e.in.Number != 0 && (err != nil && e.in.Code == asked || err == nil && e.in.Code == "" && e.in.Number == number):
		e.res.Notice = Already
		return nil
	case err != nil:
		return e.move(ctx, Room{Code: asked})
	}
	exists := false
	err = e.tx.run(ctx, one(&exists, `SELECT 1 FROM rooms WHERE page = $1 AND number = $2 AND code = ''`,
		[]any{e.ev.Page, int64(number)}, new(int64)))
	if err != nil {
		return err
	}
	if !exists {
		e.res.Notice, e.res.Subject = NoRoom, asked
		return nil
	}
	return e.move(ctx, Room{Number: number})
}

// move brings the user, out of its room if it is in one, into a room of to's
// code with a free place. That is the first one counted from to's number, else
// the lowest. If all are full, a new room opens.
func (e *eventTx) move(ctx context.Context, to Room) error {
	if err := e.lockPage(ctx); err != nil {
		return err
	}
	room, isNew, err := e.find(ctx, to)
	if err != nil {
		return err
	}
	if to.Number != 0 && room.Number != to.Number && e.ev.Command.Room != "" {
		e.res.Subject = e.ev.Command.Room
	}
	if room.Number == e.in.Number {
		e.res.Notice = Already // the next room is its own
		return nil
	}
	e.vacate()
	now := e.s.cfg.Now().UnixMilli()
	var n roomNames
	e.relay = nil
	if !isNew {
		queries := append(e.loadNames(&n, room.Number, candidates(e.user.name)), e.loadRelay(`$6`, int64(room.Number)))
		if err := e.tx.run(ctx, queries...); err != nil {
			return err
		}
		e.write(`UPDATE rooms SET members = members + 1 WHERE page = $1 AND number = $2`, e.ev.Page, int64(room.Number))
	} else {
		e.write(`INSERT INTO rooms (page, number, code, members, created_at) VALUES ($1, $2, $3, 1, $4)`,
			e.ev.Page, int64(room.Number), room.Code, now)
		e.write(`UPDATE pages SET `+counterOf(room)+` = $2 WHERE page = $1`, e.ev.Page, int64(room.Number))
	}
	name := n.free(e.user.name, now)
	if len(n.own) > 0 && n.own[0].name != name {
		e.res.Was, e.res.Relay = n.own[0].name, sorted(e.relay)
		e.owe(e.lines(len(e.relay))) // it joins in any case
	}
	e.write(`INSERT INTO members (page, room, psid, name, name_key, joined_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		e.ev.Page, int64(room.Number), e.ev.User, name, plaintext.Fold(name), now)
	e.user.lastNumber, e.user.lastCode = int64(room.Number), room.Code
	if room.Code != "" {
		e.user.lastNumber = 0 // the rooms of a code come and go, and their numbers with them
	}
	e.res.Joined, e.res.Notice, e.res.Room, e.res.Name, e.res.Count = true, Welcome, room, name, n.members
	return nil
}

// lockPage locks the page's row, so that no other user joins, leaves or changes
// its name meanwhile. It names a user who has no name.
func (e *eventTx) lockPage(ctx context.Context) error {
	guests, unnamed := int64(0), int64(0)
	if e.user.name == "" {
		unnamed = 1
	}
	err := e.tx.run(ctx, one(nil, `
		INSERT INTO pages (page, guests) VALUES ($1, $2)
		ON CONFLICT (page) DO UPDATE SET guests = pages.guests + excluded.guests
		RETURNING guests`, []any{e.ev.Page, unnamed}, &guests))
	if err == nil && unnamed == 1 {
		e.user.name = "Guest " + strconv.FormatInt(guests, 10)
	}
	return err
}

// find returns the room for move. isNew says that it does not exist yet.
func (e *eventTx) find(ctx context.Context, to Room) (room Room, isNew bool, err error) {
	var number *int64
	var last int64
	first := int64(1) // of the numbers of its kind
	if to.Code != "" {
		first = firstCode
	}
	const free = `SELECT number FROM rooms WHERE page = $1 AND code = $2 AND members < $4 AND number `
	err = e.tx.run(
		ctx,
		one(nil, `SELECT COALESCE((`+free+`>= $3 ORDER BY number LIMIT 1), (`+free+`< $3 ORDER BY number LIMIT 1))`,
			[]any{e.ev.Page, to.Code, int64(to.Number), int64(e.s.cfg.Capacity)}, &number),
		one(nil, `SELECT `+counterOf(to)+` FROM pages WHERE page = $1`, []any{e.ev.Page}, &last),
	)
	if number != nil {
		return Room{Number: int(*number), Code: to.Code}, false, err
	}
	return Room{Number: int(max(first-1, last)) + 1, Code: to.Code}, true, err
}

// firstCode is the first number of a room by code. Public rooms are numbered from
// 1, without gaps by rooms that nobody can see.
const firstCode = 1_000_000_001

// counterOf returns the column that holds the highest number given to a room of
// that kind.
func counterOf(r Room) string {
	if r.Code != "" {
		return "last_code_room"
	}
	return "last_room"
}

// leave takes the user out of its room by its own wish.
func (e *eventTx) leave(ctx context.Context) error {
	e.user.leftAt = max(e.user.leftAt, e.at)
	if e.in.Number == 0 {
		e.res.Notice = Nowhere
		return nil
	}
	if err := e.lockPage(ctx); err != nil {
		return err
	}
	e.vacate()
	e.res.Notice = Left
	return nil
}

// leaveIdle takes a user who has been silent for too long out of its room. The
// user is told if the platform still allows it.
func (e *eventTx) leaveIdle(ctx context.Context) error {
	idle := e.s.cfg.Idle.Milliseconds()
	if idle == 0 || e.in.Number == 0 || e.user.lastInbound > e.at-idle {
		return nil
	}
	if err := e.lockPage(ctx); err != nil {
		return err
	}
	e.vacate()
	if e.user.windowClosed == nil && e.user.failingUntil <= e.at && e.user.lastInbound > e.at-Window.Milliseconds() {
		e.res.Notice = LeftIdle
	}
	return nil
}

// vacate ends the user's membership, if it has one. The page is locked.
func (e *eventTx) vacate() {
	if e.in.Number == 0 {
		return
	}
	e.writes = append(e.writes, e.user.vacate(e.in, e.s.cfg.Now())...)
	e.in = membership{}
}

// vacate returns the statements that take a member out of its room, and notes
// that it left. An empty room with a code is deleted, because users could
// otherwise fill the table with codes.
func (u *user) vacate(in membership, now time.Time) []query {
	number := int64(in.Number)
	u.leftRoom, u.leftUntil = number, now.Add(nameKept).UnixMilli()
	return append(
		u.keepName(in, now),
		query{sql: `DELETE FROM members WHERE page = $1 AND psid = $2`, args: []any{u.page, u.psid}},
		query{sql: `UPDATE rooms SET members = members - 1 WHERE page = $1 AND number = $2`, args: []any{u.page, number}},
		query{sql: `DELETE FROM rooms WHERE page = $1 AND number = $2 AND members = 0 AND code <> ''`, args: []any{u.page, number}},
	)
}
