package rooms

import (
	"time"
)

// never is later than every time: a ban for good.
const never = 1<<62 - 1

// person is a user's row. Who has loaded it in a transaction has it locked.
type person struct {
	page, psid   string
	name, lang   string
	lastInbound  int64
	lastNumber   int64 // of the room to come back to, with its code
	lastCode     string
	mutedUntil   int64
	bannedUntil  int64
	banTold      int64
	floodAt      int64
	floodTold    int64
	windowClosed *int64
}

func (p *person) load(found *bool, lock string) query {
	return one(found, `
		SELECT name, lang, last_inbound, last_number, last_code, muted_until, banned_until, ban_told, flood_at, flood_told, window_closed_at
		FROM people WHERE page = $1 AND psid = $2`+lock,
		[]any{p.page, p.psid},
		&p.name, &p.lang, &p.lastInbound, &p.lastNumber, &p.lastCode, &p.mutedUntil, &p.bannedUntil, &p.banTold,
		&p.floodAt, &p.floodTold, &p.windowClosed)
}

// create makes the row of a new user, unless somebody else just did.
func (p *person) create() query {
	return query{sql: `
		INSERT INTO people (page, psid, name, lang, last_inbound, window_closed_at, last_number, last_code,
			muted_until, banned_until, ban_told, flood_at, flood_told)
		VALUES ($1, $2, '', '', 0, NULL, 1, '', 0, 0, 0, 0, 0)
		ON CONFLICT (page, psid) DO NOTHING`, args: []any{p.page, p.psid}}
}

func (p *person) save() query {
	return query{sql: `
		UPDATE people SET name = $3, lang = $4, last_inbound = $5, last_number = $6, last_code = $7, muted_until = $8,
			banned_until = $9, ban_told = $10, flood_at = $11, flood_told = $12, window_closed_at = $13
		WHERE page = $1 AND psid = $2`,
		args: []any{p.page, p.psid, p.name, p.lang, p.lastInbound, p.lastNumber, p.lastCode, p.mutedUntil,
			p.bannedUntil, p.banTold, p.floodAt, p.floodTold, p.windowClosed}}
}

// heard notes an event of the user's own: its window is open again.
func (p *person) heard(ev Event) {
	p.lastInbound = max(p.lastInbound, ev.At.UnixMilli())
	p.windowClosed = nil
	if ev.Lang != "" {
		p.lang = ev.Lang
	}
}

// banned tells whether the user may do nothing at that time, and whether this
// is the first it hears of it.
func (p *person) banned(at int64) (yes, news bool) {
	if at >= p.bannedUntil {
		return false, false
	}
	news = p.banTold == 0
	p.banTold = 1
	return true, news
}

// floods takes one event from the user's allowance and tells whether there was
// none left, and whether this is the first it hears of it. It is a generic
// cell rate algorithm: limit events at once, and one more every period/limit.
// The user is told again only after its allowance was full once.
func (p *person) floods(at int64, limit int, period time.Duration) (yes, news bool) {
	if limit == 0 {
		return false, false
	}
	if p.floodAt <= at {
		p.floodAt, p.floodTold = at, 0
	}
	full := p.floodAt + max(1, period.Milliseconds()/int64(limit))
	if full <= at+period.Milliseconds() {
		p.floodAt = full
		return false, false
	}
	news = p.floodTold == 0
	p.floodTold = 1
	return true, news
}

// untilTime is a moment of a row as a time, zero for never.
func untilTime(ms int64) time.Time {
	if ms >= never {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
