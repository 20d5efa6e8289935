package rooms

import (
	"context"
	"errors"
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
	events       allowance
	texts, media allowance // its shares of the page's limits
	floodTold    int64     // a bit for each of the three: the user has been told that it is used up
	windowClosed *int64
	failingUntil int64 // gets no copies before
	leftAt       int64 // when it left by its own wish; its events from before bring it into no room
	leftRoom     int64 // the room that it left last, whose people it knows by name until leftUntil
	leftUntil    int64
}

func (u *user) load(found *bool, lock string) query {
	return one(found, `
		SELECT name, lang, last_inbound, last_number, last_code, muted_until, banned_until, ban_told, flood_at, text_at, media_at, flood_told, window_closed_at, failing_until,
			left_at, left_room, left_until
		FROM people WHERE page = $1 AND psid = $2`+lock,
		[]any{u.page, u.psid},
		&u.name, &u.lang, &u.lastInbound, &u.lastNumber, &u.lastCode, &u.mutedUntil, &u.bannedUntil, &u.banTold,
		(*int64)(&u.events), (*int64)(&u.texts), (*int64)(&u.media), &u.floodTold, &u.windowClosed, &u.failingUntil,
		&u.leftAt, &u.leftRoom, &u.leftUntil)
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
			left_at = $15, left_room = $16, left_until = $17, text_at = $18, media_at = $19
		WHERE page = $1 AND psid = $2`,
		args: []any{
			u.page, u.psid, u.name, u.lang, u.lastInbound, u.lastNumber, u.lastCode, u.mutedUntil,
			u.bannedUntil, u.banTold, int64(u.events), u.floodTold, u.windowClosed, u.failingUntil,
			u.leftAt, u.leftRoom, u.leftUntil, int64(u.texts), int64(u.media),
		},
	}
}

// withUser runs fn in a transaction that has locked the row of a user of a page. It reads
// the row in the order of Receive: the user, then the page. fn commits.
func (s *Store) withUser(ctx context.Context, page, psid string, fn func(ctx context.Context, tx transaction, u user, found bool) error) error {
	if err := errors.Join(checkKey("page", page), checkKey("user", psid)); err != nil {
		return err
	}
	return s.inTx(ctx, func(ctx context.Context, tx transaction) error {
		u, found := user{page: page, psid: psid}, false
		if err := tx.run(ctx, u.load(&found, s.db.lock())); err != nil {
			return err
		}
		return fn(ctx, tx, u, found)
	})
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

// allowance is a user's budget, which comes back over FloodPeriod: a token bucket, kept
// as the moment when it is full again (the generic cell rate algorithm, GCRA). What
// costs more than all of it is taken when it is full, and then leaves a debt.
type allowance int64

// takes returns whether there is enough for a cost at that time. All are
// milliseconds, of which size are in a full one.
func (a allowance) takes(at, cost, size int64) bool {
	return cost == 0 || int64(a) <= at || int64(a)+cost <= at+size
}

// charge takes a cost.
func (a *allowance) charge(at, cost int64) {
	if cost > 0 {
		*a = allowance(max(int64(*a), at) + cost)
	}
}

// charge is the cost of an event in its user's allowances, in milliseconds.
type charge struct{ events, texts, media int64 }

// newCharge returns what an event costs that takes so much of its page's limits.
func (c Config) newCharge(texts, media time.Duration) (ch charge) {
	if c.FloodLimit > 0 {
		ch.events = max(1, c.FloodPeriod.Milliseconds()/int64(c.FloodLimit))
	}
	if c.FloodShare > 0 {
		ch.texts = texts.Milliseconds() * 100 / int64(c.FloodShare)
		ch.media = media.Milliseconds() * 100 / int64(c.FloodShare)
	}
	return ch
}

// take takes the cost of an event from all allowances, or from none. Of an allowance
// that is used up it returns the notice for the user, the time when it is full again, and
// whether the user must be told, which it notes. The user is told of each only once until that was
// full again.
func (u *user) take(at, size int64, c charge) (n Notice, until int64, tell bool) {
	for i, a := range []struct {
		*allowance
		cost  int64
		flood Notice
	}{
		{&u.events, c.events, Flooding}, {&u.texts, c.texts, FloodingTexts}, {&u.media, c.media, FloodingMedia},
	} {
		bit := int64(1) << i
		if int64(*a.allowance) <= at {
			u.floodTold &^= bit
		}
		if n == Silence && !a.takes(at, a.cost, size) {
			n, until, tell = a.flood, int64(*a.allowance), u.floodTold&bit == 0
			u.floodTold |= bit
		}
	}
	if n == Silence {
		u.charge(at, c)
	}
	return n, until, tell
}

// charge takes the cost of an event from all allowances.
func (u *user) charge(at int64, c charge) {
	u.events.charge(at, c.events)
	u.texts.charge(at, c.texts)
	u.media.charge(at, c.media)
}

// untilTime returns a moment of a row as a time, zero for never.
func untilTime(ms int64) time.Time {
	if ms >= never {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
