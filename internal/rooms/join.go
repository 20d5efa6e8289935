package rooms

import (
	"context"
	"strconv"
	"strings"

	"chatclub/internal/plaintext"
)

// enter is Write and Start: of one who is in a room, or comes into one by it.
func (v *visit) enter(ctx context.Context) error {
	if v.place.Number == 0 {
		to := Room{Number: int(v.person.lastNumber), Code: v.person.lastCode}
		if err := v.move(ctx, to); err != nil {
			return err
		}
	} else if v.ev.Action == Start {
		v.res.Notice, v.res.Count = Here, v.place.members-1
	}
	if v.ev.Action == Write {
		v.res.Relay = sorted(v.relay)
	}
	return nil
}

// join goes to the room that is asked for.
func (v *visit) join(ctx context.Context) error {
	asked := v.ev.Arg
	number, err := strconv.Atoi(asked)
	switch {
	case asked == "" && v.place.Number != 0:
		v.res.Notice, v.res.Count = Here, v.place.members-1
		return nil
	case asked == "":
		return v.enter(ctx)
	case v.place.Number != 0 && (err != nil && v.place.Code == asked || err == nil && v.place.Code == "" && v.place.Number == number):
		v.res.Notice = Already
		return nil
	case err != nil:
		return v.move(ctx, Room{Code: asked})
	}
	exists := false
	err = v.tx.run(ctx, one(&exists, `SELECT 1 FROM rooms WHERE page = $1 AND number = $2 AND code = ''`,
		[]any{v.ev.Page, int64(number)}, new(int64)))
	if err != nil {
		return err
	}
	if !exists {
		v.res.Notice, v.res.Subject = NoRoom, asked
		return nil
	}
	return v.move(ctx, Room{Number: number})
}

// move brings the user out of its room, if it is in one, into a room with a
// free place of those with to's code: the first counted from to's number, else
// the lowest; when all are full it opens the next.
func (v *visit) move(ctx context.Context, to Room) error {
	if err := v.lockPage(ctx); err != nil {
		return err
	}
	room, fresh, err := v.find(ctx, to)
	if err != nil {
		return err
	}
	if to.Number != 0 && room.Number != to.Number && v.ev.Action == Join && v.ev.Arg != "" {
		v.res.Subject = v.ev.Arg
	}
	if room.Number == v.place.Number {
		v.res.Notice = Already // the next one is where it is
		return nil
	}
	v.vacate()
	now := v.s.cfg.Now().UnixMilli()
	var taken []string
	v.relay = nil
	if !fresh {
		here := []query{column(&taken, `SELECT name_key FROM members WHERE page = $1 AND room = $2`, v.ev.Page, int64(room.Number))}
		if v.ev.Action == Write {
			here = append(here, v.relayOf(room))
		}
		if err := v.tx.run(ctx, here...); err != nil {
			return err
		}
		v.write(`UPDATE rooms SET members = members + 1 WHERE page = $1 AND number = $2`, v.ev.Page, int64(room.Number))
	} else {
		v.write(`INSERT INTO rooms (page, number, code, members, created_at) VALUES ($1, $2, $3, 1, $4)`,
			v.ev.Page, int64(room.Number), room.Code, now)
		v.write(`UPDATE pages SET last_room = $2 WHERE page = $1`, v.ev.Page, int64(room.Number))
	}
	name := freeName(v.person.name, taken)
	v.write(`INSERT INTO members (page, room, psid, name, name_key, joined_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		v.ev.Page, int64(room.Number), v.ev.User, name, plaintext.Fold(name), now)
	v.person.lastNumber, v.person.lastCode = int64(room.Number), room.Code
	if room.Code != "" {
		v.person.lastNumber = 0 // the rooms of a code come and go, and with them their numbers
	}
	v.res.Joined, v.res.Notice, v.res.Room, v.res.Name, v.res.Count = true, Welcome, room, name, len(taken)
	return nil
}

// lockPage lets nobody else join, leave or change a name on the page, and
// gives a user without a name one.
func (v *visit) lockPage(ctx context.Context) error {
	guests, newcomers := int64(0), int64(0)
	if v.person.name == "" {
		newcomers = 1
	}
	err := v.tx.run(ctx, one(nil, `
		INSERT INTO pages (page, guests) VALUES ($1, $2)
		ON CONFLICT (page) DO UPDATE SET guests = pages.guests + excluded.guests
		RETURNING guests`, []any{v.ev.Page, newcomers}, &guests))
	if err == nil && newcomers == 1 {
		v.person.name = "Guest " + strconv.FormatInt(guests, 10)
	}
	return err
}

// find chooses the room to go to; fresh says that there is none yet.
func (v *visit) find(ctx context.Context, to Room) (room Room, fresh bool, err error) {
	var number *int64
	var last, highest int64
	const free = `SELECT number FROM rooms WHERE page = $1 AND code = $2 AND members < $4 AND number `
	err = v.tx.run(
		ctx,
		one(nil, `SELECT COALESCE((`+free+`>= $3 ORDER BY number LIMIT 1), (`+free+`< $3 ORDER BY number LIMIT 1))`,
			[]any{v.ev.Page, to.Code, int64(to.Number), int64(v.s.cfg.Capacity)}, &number),
		// Both, because a core of the version before writes down no last_room.
		one(nil, `SELECT p.last_room, (SELECT COALESCE(MAX(number), 0) FROM rooms WHERE page = $1) FROM pages p WHERE p.page = $1`,
			[]any{v.ev.Page}, &last, &highest),
	)
	if number != nil {
		return Room{Number: int(*number), Code: to.Code}, false, err
	}
	return Room{Number: int(max(last, highest)) + 1, Code: to.Code}, true, err
}

// relayOf is loadRelay for a room that the user is about to join.
func (v *visit) relayOf(room Room) query {
	return v.relayQuery(`
		SELECT string_agg(m.psid, CAST($5 AS TEXT))
		FROM members m JOIN people u ON u.page = m.page AND u.psid = m.psid
		WHERE m.page = $1 AND m.room = $6 AND m.psid <> $2
			AND u.window_closed_at IS NULL AND u.last_inbound > $3 AND u.muted_until <= $4
			AND m.psid NOT IN (SELECT blocker FROM blocks WHERE page = $1 AND blocked = $2)
			AND m.psid NOT IN (SELECT blocked FROM blocks WHERE page = $1 AND blocker = $2)`,
		v.ev.Page, v.ev.User, v.at-Window.Milliseconds(), v.at, separator, int64(room.Number))
}

// leave is by the user's own wish.
func (v *visit) leave(ctx context.Context) error {
	if v.place.Number == 0 {
		v.res.Notice = Nowhere
		return nil
	}
	if err := v.lockPage(ctx); err != nil {
		return err
	}
	v.vacate()
	v.res.Notice = Left
	return nil
}

// idle takes a user who has been silent for too long out of its room. It is
// told if the platform still allows it.
func (v *visit) idle(ctx context.Context) error {
	idle := v.s.cfg.Idle.Milliseconds()
	if idle == 0 || v.place.Number == 0 || v.person.lastInbound > v.at-idle {
		return nil
	}
	if err := v.lockPage(ctx); err != nil {
		return err
	}
	v.vacate()
	if v.person.windowClosed == nil && v.person.lastInbound > v.at-Window.Milliseconds() {
		v.res.Notice = LeftIdle
	}
	return nil
}

// vacate gives up the user's place. The page is locked.
func (v *visit) vacate() {
	if v.place.Number == 0 {
		return
	}
	v.writes = append(v.writes, vacate(v.ev.Page, v.ev.User, v.place.Number)...)
	v.place = place{}
}

// vacate takes a member out of its room. A room by code that empties is gone:
// otherwise everybody could fill the table with words.
func vacate(page, psid string, number int) []query {
	return []query{
		{sql: `DELETE FROM members WHERE page = $1 AND psid = $2`, args: []any{page, psid}},
		{sql: `UPDATE rooms SET members = members - 1 WHERE page = $1 AND number = $2`, args: []any{page, int64(number)}},
		{sql: `DELETE FROM rooms WHERE page = $1 AND number = $2 AND members = 0 AND code <> ''`, args: []any{page, int64(number)}},
	}
}

// freeName is the name, or the name with the lowest number behind it that is
// not taken. taken are folded, and fewer than MaxCapacity.
func freeName(name string, taken []string) string {
	for n := 1; ; n++ {
		candidate := name
		if n > 1 {
			candidate = shorten(name, n)
		}
		free := true
		for _, key := range taken {
			free = free && key != plaintext.Fold(candidate)
		}
		if free {
			return candidate
		}
	}
}

// shorten makes room for a number behind the name.
func shorten(name string, n int) string {
	suffix := " " + strconv.Itoa(n)
	runes := []rune(name)
	runes = runes[:min(len(runes), plaintext.MaxName-len(suffix))]
	return strings.TrimSpace(string(runes)) + suffix
}
