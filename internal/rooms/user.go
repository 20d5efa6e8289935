package rooms

import (
	"time"
)

// never is later than every time: the end of a permanent ban.
const never = 1<<62 - 1

// user is a user's row in the table people. A transaction that has loaded the
// row holds its lock.
type user struct {
	page, psid   string
	name, lang   string
	lastInbound  int64
	lastNumber   int64 // of the room to come back to, with its code
	lastCode     string
	mutedUntil   int64
	bannedUntil  int64
	banTold      int64 // 1: the user has been told of its ban
	tat          int64 // when its allowance is full again, the GCRA's theoretical arrival time
	floodTold    int64 // 1: the user has been told of its flood
	windowClosed *int64
	failingUntil int64 // gets no copies before
	leftAt       int64 // when it left by its own wish; its events from before bring it into no room
	leftRoom     int64 // the room that it left last, whose people it knows by name until leftUntil
	leftUntil    int64
}

func (u *user) load(found *bool, lock string) query {
	return one(found, `
		SELECT name, lang, last_inbound, last_number, last_code, muted_until, banned_until, ban_told, flood_at, flood_told, window_closed_at, failing_until,
			left_at, left_room, left_until
		FROM people WHERE page = $1 AND psid = $2`+lock,
		[]any{u.page, u.psid},
		&u.name, &u.lang, &u.lastInbound, &u.lastNumber, &u.lastCode, &u.mutedUntil, &u.bannedUntil, &u.banTold,
		&u.tat, &u.floodTold, &u.windowClosed, &u.failingUntil, &u.leftAt, &u.leftRoom, &u.leftUntil)
}

// create inserts the row of a new user, unless another transaction just did.
func (u *user) create() query {
	return query{sql: `
		INSERT INTO people (page, psid, name, lang, last_inbound, window_closed_at, last_number, last_code,
			muted_until, banned_until, ban_told, flood_at, flood_told)
		VALUES ($1, $2, '', '', 0, NULL, 1, '', 0, 0, 0, 0, 0)
		ON CONFLICT (page, psid) DO NOTHING`, args: []any{u.page, u.psid}}
}

func (u *user) save() query {
	return query{
		sql: `
		UPDATE people SET name = $3, lang = $4, last_inbound = $5, last_number = $6, last_code = $7, muted_until = $8,
			banned_until = $9, ban_told = $10, flood_at = $11, flood_told = $12, window_closed_at = $13, failing_until = $14,
			left_at = $15, left_room = $16, left_until = $17
		WHERE page = $1 AND psid = $2`,
		args: []any{
			u.page, u.psid, u.name, u.lang, u.lastInbound, u.lastNumber, u.lastCode, u.mutedUntil,
			u.bannedUntil, u.banTold, u.tat, u.floodTold, u.windowClosed, u.failingUntil,
			u.leftAt, u.leftRoom, u.leftUntil,
		},
	}
}

// noteEvent records an event of the user: its window is open again, and it gets
// copies again.
func (u *user) noteEvent(ev Event) {
	u.lastInbound = max(u.lastInbound, ev.At.UnixMilli())
	u.windowClosed, u.failingUntil = nil, 0
	if ev.Lang != "" {
		u.lang = ev.Lang
	}
}

// checkBan returns whether the user is banned at that time, and whether it must
// be told. It notes that the user is told.
func (u *user) checkBan(at int64) (banned, tell bool) {
	if at >= u.bannedUntil {
		return false, false
	}
	tell = u.banTold == 0
	u.banTold = 1
	return true, tell
}

// takeAllowance takes one event from the user's allowance. It returns whether
// the allowance was used up, and whether the user must be told, which it notes.
// The user is told again only after its allowance was full once.
//
// It is the generic cell rate algorithm (GCRA): limit events at once, and one
// more every period/limit. A limit of 0 allows everything.
func (u *user) takeAllowance(at int64, limit int, period time.Duration) (floods, tell bool) {
	if limit == 0 {
		return false, false
	}
	if u.tat <= at {
		u.tat, u.floodTold = at, 0
	}
	next := u.tat + max(1, period.Milliseconds()/int64(limit))
	if next <= at+period.Milliseconds() {
		u.tat = next
		return false, false
	}
	tell = u.floodTold == 0
	u.floodTold = 1
	return true, tell
}

// untilTime returns a moment of a row as a time, zero for never.
func untilTime(ms int64) time.Time {
	if ms >= never {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
