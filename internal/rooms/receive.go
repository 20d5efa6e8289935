package rooms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// visit is an event being handled in its transaction: what was read for it,
// and what it leads to.
type visit struct {
	s      *Store
	tx     transaction
	ev     Event
	at     int64 // ev.At
	person person
	place  place // where the user is; number 0 for nowhere
	paused int64 // nothing is sent for the page before
	known  bool  // the event was received before
	past   *string
	relay  []string // of Write: who may get a copy, as long as the user stays where it is
	res    Result
	writes []query // what the commit takes along
}

// place is a membership.
type place struct {
	Room
	name    string
	members int // of the room, itself among them
}

// Receive records an event in one transaction and tells what it led to. Who
// does something becomes a user if it was none. Write, Start and Join bring a
// user who is in no room into one: the one it was in before; if that is full
// the next public one with a free place, counted from there and then from the
// lowest; or a new one when all are full. There it gets the name that it has or
// wants, with a number behind it if somebody else is called so.
//
// After every copy of the event is safe the caller calls Done. Until then the
// event told again returns Unfinished with the same result, afterwards
// Finished. The error is ErrData when the event can never be stored; any other
// error may pass, and then Receive may be called again.
func (s *Store) Receive(ctx context.Context, ev Event) (Result, error) {
	err := errors.Join(checkKey("page", ev.Page), checkKey("user", ev.User), checkKey("id", ev.ID),
		checkWord("lang", ev.Lang), checkWord("arg", ev.Arg))
	if err != nil {
		return Result{}, fmt.Errorf("receive event: %w", err)
	}
	var res Result
	err = s.inTx(ctx, func(ctx context.Context, tx transaction) error {
		v := &visit{s: s, tx: tx, ev: ev, at: ev.At.UnixMilli(), person: person{page: ev.Page, psid: ev.User}}
		if err := v.handle(ctx); err != nil {
			return err
		}
		res = v.res
		return nil
	})
	if err != nil {
		return Result{}, fmt.Errorf("receive event: %w", classify(err))
	}
	return res, nil
}

func (v *visit) handle(ctx context.Context) error {
	if err := v.load(ctx); err != nil {
		return err
	}
	if v.known {
		return v.recall() // and commit nothing
	}
	if err := v.decide(ctx); err != nil {
		return err
	}
	v.res.Lang = v.person.lang
	if v.at < v.paused {
		v.res.Paused, v.res.Notice, v.res.Relay = true, Silence, nil
	}
	outcome, err := json.Marshal(v.res)
	if err != nil {
		return fmt.Errorf("%w: encode outcome: %w", ErrData, err) // a time that has no form in JSON
	}
	v.write(`INSERT INTO processed_events (page, event_id, at, outcome) VALUES ($1, $2, $3, $4)`,
		v.ev.Page, v.ev.ID, v.s.cfg.Now().UnixMilli(), string(outcome))
	return v.tx.commit(ctx, append(v.writes, v.person.save())...)
}

// load reads what an event needs, with the user's row locked first, so that
// what is read behind it is what the transaction before this one left.
func (v *visit) load(ctx context.Context) error {
	found := false
	queries := []query{v.person.load(&found, v.s.db.lock()), v.loadPlace()}
	if v.ev.Action == Write {
		queries = append(queries, v.loadRelay())
	}
	if err := v.tx.run(ctx, queries...); err != nil || found {
		return err
	}
	v.place, v.relay = place{}, nil
	if err := v.tx.run(ctx, append([]query{v.person.create()}, queries...)...); err != nil {
		return err
	}
	if !found {
		return errNone
	}
	return nil
}

// loadPlace reads where the user is, whether its page is paused, and what is
// known of the event.
func (v *visit) loadPlace() query {
	return query{
		sql: `
		SELECT m.room, m.name, r.code, r.members, p.paused_until, e.event_id, e.outcome
		FROM (SELECT 1 AS x) one
		LEFT JOIN pages p ON p.page = $1
		LEFT JOIN members m ON m.page = $1 AND m.psid = $2
		LEFT JOIN rooms r ON r.page = m.page AND r.number = m.room
		LEFT JOIN processed_events e ON e.page = $1 AND e.event_id = $3`,
		args: []any{v.ev.Page, v.ev.User, v.ev.ID},
		each: func(r row) error {
			var number, members, paused *int64
			var name, code, event *string
			if err := r.Scan(&number, &name, &code, &members, &paused, &event, &v.past); err != nil {
				return err
			}
			if number != nil && name != nil && code != nil && members != nil {
				v.place = place{Room: Room{Number: int(*number), Code: *code}, name: *name, members: int(*members)}
			}
			if paused != nil {
				v.paused = *paused
			}
			v.known = event != nil
			return nil
		},
	}
}

// separator stands between the PSIDs of a room where one row holds them all,
// which costs a third of a row for each. No key holds it.
const separator = "\x1f"

// loadRelay reads the members of the user's room who may get what it writes.
func (v *visit) loadRelay() query {
	return v.relayQuery(`
		SELECT string_agg(m.psid, CAST($5 AS TEXT))
		FROM members m JOIN people u ON u.page = m.page AND u.psid = m.psid
		WHERE m.page = $1 AND m.room = (SELECT room FROM members WHERE page = $1 AND psid = $2) AND m.psid <> $2
			AND u.window_closed_at IS NULL AND u.last_inbound > $3 AND u.muted_until <= $4
			AND m.psid NOT IN (SELECT blocker FROM blocks WHERE page = $1 AND blocked = $2)
			AND m.psid NOT IN (SELECT blocked FROM blocks WHERE page = $1 AND blocker = $2)`,
		v.ev.Page, v.ev.User, v.at-Window.Milliseconds(), v.at, separator)
}

func (v *visit) relayQuery(sql string, args ...any) query {
	return query{sql: sql, args: args, each: func(r row) error {
		var psids *string
		err := r.Scan(&psids)
		if psids != nil {
			v.relay = strings.Split(*psids, separator)
		}
		return err
	}}
}

// recall gives what the event led to before.
func (v *visit) recall() error {
	if v.past == nil {
		v.res = Result{Status: Finished}
		return nil
	}
	if err := json.Unmarshal([]byte(*v.past), &v.res); err != nil {
		return fmt.Errorf("decode outcome: %w", err)
	}
	v.res.Status = Unfinished
	return nil
}

// write adds a statement to those of the commit.
func (v *visit) write(sql string, args ...any) {
	v.writes = append(v.writes, query{sql: sql, args: args})
}

// decide makes the result, and the writes that bring it about.
func (v *visit) decide(ctx context.Context) error {
	v.res.Name, v.res.Room = v.place.name, v.place.Room
	if v.ev.Action == Idle {
		return v.idle(ctx)
	}
	v.person.heard(v.ev)
	if v.held() {
		return nil
	}
	switch v.ev.Action {
	case Write, Start:
		return v.enter(ctx)
	case Join:
		return v.join(ctx)
	case Leave:
		return v.leave(ctx)
	case List:
		return v.list(ctx)
	case Rename:
		return v.rename(ctx)
	case Who:
		return v.who(ctx)
	case Block, Unblock, Report:
		return v.about(ctx)
	case Mute:
		v.mute()
	case Ask, Idle:
	}
	return nil
}

// held stops an event of a user who is banned or floods.
func (v *visit) held() bool {
	if yes, news := v.person.banned(v.at); yes {
		v.hold(Banned, news, v.person.bannedUntil)
		return true
	}
	// What comes late, as after an outage, was written when others were not that
	// have used the allowance up since.
	if v.at < v.person.lastInbound-v.s.cfg.FloodPeriod.Milliseconds() {
		return false
	}
	// By the latest that was heard: what is late by less than the period is
	// older than the allowance that those after it left.
	if yes, news := v.person.floods(v.person.lastInbound, v.s.cfg.FloodLimit, v.s.cfg.FloodPeriod); yes {
		v.hold(Flooding, news, v.person.floodAt)
		return true
	}
	return false
}

func (v *visit) hold(n Notice, news bool, until int64) {
	v.res.Held = true
	if news {
		v.res.Notice, v.res.Until = n, untilTime(until)
	}
}

// mute stops the copies to the user, or lets them come again.
func (v *visit) mute() {
	if v.ev.For <= 0 {
		v.person.mutedUntil, v.res.Notice = 0, Unmuted
		return
	}
	v.person.mutedUntil = v.ev.At.Add(v.ev.For).UnixMilli()
	v.res.Notice, v.res.Until = Muted, untilTime(v.person.mutedUntil)
}

// sorted is a list in an order that does not depend on a database's collation.
func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// Done records that every copy of the event is safe. Idempotent.
func (s *Store) Done(ctx context.Context, page, id string) error {
	err := s.do(ctx, query{
		sql: `UPDATE processed_events SET outcome = NULL WHERE page = $1 AND event_id = $2`, args: []any{page, id},
	})
	if err != nil {
		return fmt.Errorf("finish event: %w", classify(err))
	}
	return nil
}
