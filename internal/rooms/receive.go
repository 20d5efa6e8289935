package rooms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"chatclub/internal/command"
	"chatclub/internal/plaintext"
)

// eventTx handles one event in its transaction. It holds the rows that were
// read, and collects the result and the writes.
type eventTx struct {
	s       *Store
	tx      transaction
	ev      Event
	at      int64 // ev.At
	user    user
	in      membership // Number is 0 if the user is in no room
	paused  int64      // no message is sent for the page before
	known   bool       // the event was received before
	unknown bool       // there is no such user, and the event does not make one
	past    *string    // the stored result of a known event; nil after Done
	relay   []string   // who gets what the user says in its room, or in the one that it joins
	res     Result
	writes  []query // sent with the commit
}

// membership is a user's place in a room.
type membership struct {
	Room
	name    string
	members int // of the room, including the user
}

// Receive records an event in one transaction and returns its result. An
// unknown user becomes a user of the page, unless the event is Idle.
//
// A message, Start and Join bring a user who is in no room into one: the room
// that it was in before. If that is full, it is the next public room with a free
// place, counted from there and then from the lowest. If all are full, a new
// one opens. The user gets the name that it has or wants, with a number behind
// it if another member has that name.
//
// The caller calls Done after every copy of the event is safe. Until then
// Receive of the same event returns Unfinished with the same result, afterwards
// Finished. The error is ErrData if the event can never be stored. Any other
// error may be temporary, and then Receive may be called again.
func (s *Store) Receive(ctx context.Context, ev Event) (Result, error) {
	err := errors.Join(checkKey("page", ev.Page), checkKey("user", ev.User), checkKey("id", ev.ID),
		checkWord("lang", ev.Lang), checkWord("room", ev.Command.Room), checkWord("name", ev.Command.Name))
	if err != nil {
		return Result{}, fmt.Errorf("receive event: %w", err)
	}
	var res Result
	err = s.inTx(ctx, func(ctx context.Context, tx transaction) error {
		e := &eventTx{s: s, tx: tx, ev: ev, at: ev.At.UnixMilli(), user: user{page: ev.Page, psid: ev.User}}
		if err := e.handle(ctx); err != nil {
			return err
		}
		res = e.res
		return nil
	})
	if err != nil {
		return Result{}, fmt.Errorf("receive event: %w", classify(err))
	}
	return res, nil
}

func (e *eventTx) handle(ctx context.Context) error {
	if err := e.load(ctx); err != nil {
		return err
	}
	if e.known {
		return e.recall() // and commit nothing
	}
	if e.unknown {
		return nil
	}
	if err := e.decide(ctx); err != nil {
		return err
	}
	if e.ev.Idle && len(e.writes) == 0 {
		return nil // it changes nothing; one with another ROOM_IDLE or clock may act on the same event
	}
	e.res.Lang = e.user.lang
	if e.at < e.paused {
		e.res.Paused, e.res.Notice, e.res.Relay, e.res.Was = true, Silence, nil, ""
	}
	outcome, err := json.Marshal(e.res)
	if err != nil {
		return fmt.Errorf("%w: encode outcome: %w", ErrData, err) // a time that JSON cannot express
	}
	e.writes = append(e.writes, e.record(string(outcome)), e.user.save())
	return e.tx.commit(ctx, e.writes...)
}

const (
	// maxKept is the number of characters of a text that are kept for a report: enough
	// to judge it by.
	maxKept = 500
	// maxKeptFiles is the number of addresses of attachments that are.
	maxKeptFiles = 3
)

// record returns the statement that records the event, with what the others
// in the room got of it.
func (e *eventTx) record(outcome string) query {
	var psid, text *string
	var room *int64
	if e.ev.IsMessage() && !e.res.Rejected && !e.res.Paused && e.res.Room.Number != 0 {
		kept := []string{plaintext.Shorten(plaintext.Clean(e.ev.Command.Text), maxKept)}
		for _, file := range e.ev.Files[:min(len(e.ev.Files), maxKeptFiles)] {
			kept = append(kept, plaintext.Clean(file))
		}
		if t := strings.TrimSpace(strings.Join(kept, "\n")); t != "" {
			number := int64(e.res.Room.Number)
			psid, room, text = &e.ev.User, &number, &t
		}
	}
	if e.ev.Idle { // its id names the user, who may want to be forgotten
		psid, text = &e.ev.User, new(string)
	}
	return query{
		sql:  `INSERT INTO processed_events (page, event_id, at, outcome, psid, room, text) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		args: []any{e.ev.Page, e.ev.ID, e.s.cfg.Now().UnixMilli(), outcome, psid, room, text},
	}
}

// load reads the rows that an event needs. It locks the user's row first, so
// that the rows read after it are those that the previous transaction of the
// user left.
func (e *eventTx) load(ctx context.Context) error {
	found := false
	queries := []query{e.user.load(&found, e.s.db.lock()), e.loadMembership()}
	if e.ev.IsMessage() || e.ev.Command.Kind == command.Name && !e.ev.Idle {
		queries = append(queries, e.loadRelay(ownRoom))
	}
	if err := e.tx.run(ctx, queries...); err != nil || found {
		return err
	}
	if e.unknown = e.ev.Idle; e.unknown {
		return nil // a user who was forgotten
	}
	e.in, e.relay = membership{}, nil
	if err := e.tx.run(ctx, append([]query{e.user.create()}, queries...)...); err != nil {
		return err
	}
	if !found {
		return errNoRow
	}
	return nil
}

// loadMembership reads the user's membership, whether its page is paused, and
// whether the event is known.
func (e *eventTx) loadMembership() query {
	return query{
		sql: `
		SELECT m.room, m.name, r.code, r.members, p.paused_until, e.event_id, e.outcome
		FROM (SELECT 1 AS x) one
		LEFT JOIN pages p ON p.page = $1
		LEFT JOIN members m ON m.page = $1 AND m.psid = $2
		LEFT JOIN rooms r ON r.page = m.page AND r.number = m.room
		LEFT JOIN processed_events e ON e.page = $1 AND e.event_id = $3`,
		args: []any{e.ev.Page, e.ev.User, e.ev.ID},
		scan: func(r row) error {
			var number, members, paused *int64
			var name, code, event *string
			if err := r.Scan(&number, &name, &code, &members, &paused, &event, &e.past); err != nil {
				return err
			}
			if number != nil && name != nil && code != nil && members != nil {
				e.in = membership{Room: Room{Number: int(*number), Code: *code}, name: *name, members: int(*members)}
			}
			if paused != nil {
				e.paused = *paused
			}
			e.known = event != nil
			return nil
		},
	}
}

// separator stands between the PSIDs of a room where one row holds them all,
// which costs a third of a row for each. No key holds it.
const separator = "\x1f"

// ownRoom is the number of the user's room, as SQL for loadRelay.
const ownRoom = `(SELECT room FROM members WHERE page = $1 AND psid = $2)`

// loadRelay reads the members of a room who may get the user's texts. room is
// SQL for the room's number, whose arguments begin with $6.
func (e *eventTx) loadRelay(room string, args ...any) query {
	return query{
		sql: `
		SELECT string_agg(m.psid, CAST($5 AS TEXT))
		FROM members m JOIN people u ON u.page = m.page AND u.psid = m.psid
		WHERE m.page = $1 AND m.room = ` + room + ` AND m.psid <> $2
			AND u.window_closed_at IS NULL AND u.last_inbound > $3 AND u.muted_until <= $4 AND u.failing_until <= $4
			AND m.psid NOT IN (SELECT blocker FROM blocks WHERE page = $1 AND blocked = $2)
			AND m.psid NOT IN (SELECT blocked FROM blocks WHERE page = $1 AND blocker = $2)`,
		args: append([]any{e.ev.Page, e.ev.User, e.at - Window.Milliseconds(), e.at, separator}, args...),
		scan: func(r row) error {
			var psids *string
			err := r.Scan(&psids)
			if psids != nil {
				e.relay = strings.Split(*psids, separator)
			}
			return err
		},
	}
}

// recall restores the result of a known event.
func (e *eventTx) recall() error {
	if e.past == nil {
		e.res = Result{Status: Finished}
		return nil
	}
	if err := json.Unmarshal([]byte(*e.past), &e.res); err != nil {
		return fmt.Errorf("decode outcome: %w", err)
	}
	e.res.Status = Unfinished
	return nil
}

// write adds a statement to those of the commit.
func (e *eventTx) write(sql string, args ...any) {
	e.writes = append(e.writes, query{sql: sql, args: args})
}

// decide sets the result and the writes.
func (e *eventTx) decide(ctx context.Context) error {
	e.res.Name, e.res.Room, e.res.Limits = e.in.name, e.in.Room, e.ev.Limits
	if e.ev.Idle {
		return e.leaveIdle(ctx)
	}
	e.user.noteEvent(e.ev)
	if e.reject() || e.ev.Command.Refused != "" {
		return nil
	}
	switch e.ev.Command.Kind { //nolint:exhaustive // the others bring nobody into a room
	case command.None, command.Start, command.Join:
		// The user has left since, and an event that comes late must not bring it
		// back, nor tell a later room a text that was not written for it.
		if e.at < e.user.leftAt {
			e.res.Rejected = true
			return nil
		}
	}
	switch e.ev.Command.Kind {
	case command.None, command.Start:
		return e.enter(ctx)
	case command.Join:
		return e.join(ctx)
	case command.Leave:
		return e.leave(ctx)
	case command.Rooms:
		return e.list(ctx)
	case command.Name:
		return e.rename(ctx)
	case command.Who:
		return e.who(ctx)
	case command.Block, command.Report:
		return e.about(ctx)
	case command.Unblock:
		return e.unblock(ctx)
	case command.Mute:
		e.mute()
	case command.Help, command.Unknown:
	}
	return nil
}

// reject rejects the event if the user is banned or floods, and returns whether
// it did.
func (e *eventTx) reject() bool {
	if banned, tell := e.user.checkBan(e.at); banned {
		e.setRejected(Ban, Banned, tell, e.user.bannedUntil)
		return true
	}
	if e.ev.Time == nil || !e.ev.IsMessage() {
		return !e.spend(e.s.cfg.newCharge(0, 0))
	}
	n := e.copies()
	c := e.s.cfg.newCharge(e.ev.Time(n))
	if e.ev.Least != nil {
		c.least = e.s.cfg.shareOf(e.ev.Least(n))
	}
	if e.in.Number == 0 {
		c.pressTexts, c.pressMedia = e.ev.Time(e.s.cfg.Capacity - 1)
	}
	return !e.spend(c)
}

// spend takes the charge from the user's allowances, or rejects the event.
func (e *eventTx) spend(c charge) bool {
	// A late event, as after an outage, was written at another time than the
	// events that have used up the allowance since.
	if e.at < e.user.lastInbound-e.s.cfg.FloodPeriod.Milliseconds() {
		return true
	}
	textsPressed, mediaPressed := true, true
	if e.ev.Pressed != nil {
		textsPressed, mediaPressed = e.ev.Pressed(c.pressTexts, c.pressMedia)
	}
	// The time is that of the user's latest event. An event that is late by less
	// than the period is older than the allowance that those after it left.
	at := e.user.lastInbound
	why, n, until := e.user.take(at, e.s.cfg.FloodPeriod.Milliseconds(), c, textsPressed, mediaPressed)
	if why != "" {
		e.setRejected(why, n, e.user.mustTell(at), until)
	}
	if why == Flood {
		e.res.Refused = Span{
			From:  time.UnixMilli(at).Add(-e.s.cfg.FloodPeriod),
			Until: time.UnixMilli(e.user.refusedUntil(e.s.cfg.FloodPeriod.Milliseconds(), c.events)),
		}
	}
	return why == ""
}

// copies returns the number of a message's copies that are charged at first. Those of a user
// who is in no room are not known: a message takes one copy at least, or one who owes could
// leave its room and write again. The page is pressed if those of a full room would press it.
func (e *eventTx) copies() int {
	if e.in.Number == 0 {
		return max(1, len(e.relay))
	}
	return len(e.relay)
}

// lines returns how much of its page's limits so many other texts take.
func (e *eventTx) lines(n int) (texts, media time.Duration) { return time.Duration(n) * e.ev.Line, 0 }

// pay is spend for the event's costs beside itself.
func (e *eventTx) pay(texts, media time.Duration) bool {
	c := e.s.cfg.newCharge(texts, media)
	c.events = 0
	return e.spend(c)
}

// owe is pay for costs that cannot be rejected.
func (e *eventTx) owe(texts, media time.Duration) {
	e.user.owe(e.user.lastInbound, e.s.cfg.newCharge(texts, media))
}

func (e *eventTx) setRejected(why Rejection, n Notice, tell bool, until int64) {
	e.res.Rejected, e.res.Why, e.res.Subject = true, why, ""
	if tell {
		e.res.Notice, e.res.Until = n, untilTime(until)
	}
}

// mute stops the copies to the user, or lets them come again.
func (e *eventTx) mute() {
	if e.ev.Command.For <= 0 {
		e.user.mutedUntil, e.res.Notice = 0, Unmuted
		return
	}
	e.user.mutedUntil = e.ev.At.Add(e.ev.Command.For).UnixMilli()
	e.res.Notice, e.res.Until = Muted, untilTime(e.user.mutedUntil)
}

// sorted returns list in an order that does not depend on a database's
// collation.
func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// Done records that every copy of the event is safe. Idempotent.
func (s *Store) Done(ctx context.Context, page, id string) error {
	err := s.do(ctx, query{
		sql: `UPDATE processed_events SET outcome = NULL WHERE page = $1 AND event_id = $2`, args: []any{page, id},
	})
	return failed("finish event", classify(err))
}
