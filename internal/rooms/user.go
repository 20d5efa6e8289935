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
	floodTold    int64     // when the user was last told that one of the three is used up
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

// tellEvery is the interval between two notices to a user that an event was refused.
const tellEvery = time.Minute

// allowance is a user's budget, which comes back over FloodPeriod: a token bucket, kept
// as the moment when it is full again (the generic cell rate algorithm, GCRA).
type allowance int64

// takes returns whether there is enough for a cost at that time. All are
// milliseconds, of which size are in a full one. A full one takes a cost of least also
// if that is more than size, and then leaves a debt.
func (a allowance) takes(at, cost, size, least int64) bool {
	return cost == 0 || int64(a) <= at && cost <= least || max(int64(a), at)+cost <= at+size
}

// charge takes a cost. If there is not enough, and some is gone, it leaves nothing and no
// debt: the page was not pressed, so nobody had to wait.
func (a *allowance) charge(at, cost, size int64) {
	if !a.takes(at, cost, size, never) {
		*a = max(*a, allowance(at+size))
	} else if cost > 0 {
		*a = allowance(max(int64(*a), at) + cost)
	}
}

// charge is the cost of an event in its user's allowances, in milliseconds.
type charge struct {
	events, texts, media int64
	least                int64 // of texts, that a full allowance takes in any case

	pressTexts, pressMedia time.Duration // of the page's limits, by which it is pressed or not
}

// newCharge returns what an event costs that takes so much of its page's limits.
func (c Config) newCharge(texts, media time.Duration) (ch charge) {
	ch.least = never
	if c.FloodLimit > 0 {
		ch.events = max(1, c.FloodPeriod.Milliseconds()/int64(c.FloodLimit))
	}
	ch.texts, ch.media = c.shareOf(texts), c.shareOf(media)
	ch.pressTexts, ch.pressMedia = texts, media
	return ch
}

// shareOf returns the cost of a part of a page's limit.
func (c Config) shareOf(d time.Duration) int64 {
	if c.FloodShare == 0 {
		return 0
	}
	return d.Milliseconds() * 100 / int64(c.FloodShare)
}

// take takes the cost of an event from all allowances, or from none. That of a limit refuses
// nothing unless the page is pressed. Of an allowance that refuses the event take returns the
// reason, the notice for the user, and the time when it is full again.
func (u *user) take(at, size int64, c charge, textsPressed, mediaPressed bool) (why Rejection, n Notice, until int64) {
	for _, a := range []struct {
		allowance
		cost, least int64
		refuses     bool
		why         Rejection
		flood       Notice
	}{
		{u.events, c.events, never, true, Flood, Flooding},
		{u.texts, c.texts, c.least, textsPressed, Share, FloodingTexts},
		{u.media, c.media, never, mediaPressed, Share, FloodingMedia},
	} {
		if a.refuses && !a.takes(at, a.cost, size, a.least) {
			return a.why, a.flood, int64(a.allowance)
		}
	}
	u.events.charge(at, c.events, size)
	u.texts.charge(at, c.texts, size)
	u.media.charge(at, c.media, size)
	return "", Silence, 0
}

// owe takes the cost of what cannot be refused.
func (u *user) owe(at int64, c charge) {
	for _, a := range []struct {
		*allowance
		cost int64
	}{{&u.texts, c.texts}, {&u.media, c.media}} {
		if a.cost > 0 {
			*a.allowance = allowance(max(int64(*a.allowance), at) + a.cost)
		}
	}
}

// mustTell reports whether the user is told that an event is refused, and notes that.
func (u *user) mustTell(at int64) bool {
	if at-u.floodTold < tellEvery.Milliseconds() {
		return false
	}
	u.floodTold = at
	return true
}

// refusedUntil returns the time before which every event is refused as a flood, and the user
// is not told. Its events allowance, and floodTold, stay as they are until then.
func (u *user) refusedUntil(size, cost int64) int64 {
	return min(int64(u.events)+cost-size, u.floodTold+tellEvery.Milliseconds())
}

// untilTime returns a moment of a row as a time, zero for never.
func untilTime(ms int64) time.Time {
	if ms >= never {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
