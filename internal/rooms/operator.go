package rooms

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// RoomKey identifies a room by its page and number. The number 0 stands for
// everything outside of rooms.
type RoomKey struct {
	Page string
	Room int
}

// Count counts messages in a room: those that users wrote with an effect, and
// the outbound messages made of all events.
type Count struct{ Events, Copies int64 }

const (
	// countBatch is the number of users counted at a time, in some 10 ms.
	countBatch = 10_000
	// overviewTimeout bounds Overview, so that a host that is gone does not keep it. It
	// is a hundred times its usual time.
	overviewTimeout = time.Minute
)

// hourOf returns the hour of a time since 1970.
func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// AddCounts adds to the counts of the current hour.
func (s *Store) AddCounts(ctx context.Context, counts map[RoomKey]Count) error {
	if len(counts) == 0 {
		return nil
	}
	// In one order, so that two cores never wait for each other.
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b RoomKey) int {
		return cmp.Or(cmp.Compare(a.Page, b.Page), cmp.Compare(a.Room, b.Room))
	})
	hour, page := hourOf(s.cfg.Now()), Count{}
	var queries []query
	for i, key := range keys {
		n := counts[key]
		queries = append(queries, query{
			sql: `
			INSERT INTO room_hours (page, hour, room, events, copies) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (page, hour, room) DO UPDATE
			SET events = room_hours.events + excluded.events, copies = room_hours.copies + excluded.copies`,
			args: []any{key.Page, hour, int64(key.Room), n.Events, n.Copies},
		})
		page.Events, page.Copies = page.Events+n.Events, page.Copies+n.Copies
		if i+1 < len(keys) && keys[i+1].Page == key.Page {
			continue
		}
		queries = append(queries, query{
			sql: `
			INSERT INTO page_hours (page, hour, events, copies) VALUES ($1, $2, $3, $4)
			ON CONFLICT (page, hour) DO UPDATE
			SET events = page_hours.events + excluded.events, copies = page_hours.copies + excluded.copies`,
			args: []any{key.Page, hour, page.Events, page.Copies},
		})
		page = Count{}
	}
	return failed("add counts", s.do(ctx, queries...))
}

// PageView is a page in the operators' lists.
type PageView struct {
	Page           string
	Rooms, Members int
	Audience       int // users within the platform's window, to whom the page may send, by the last CountAudiences
	Events, Copies int // in the last 60 minutes, if those of the hour before were spread evenly
	Copies24h      int // in this hour and the 23 before
	Paused         bool
	PausedUntil    time.Time // zero: for good, or not paused
	PauseReason    string
}

// RoomView is a room in the operators' lists.
type RoomView struct {
	Number  int       `json:"room"`
	Code    string    `json:"code,omitempty"`
	Members int       `json:"members"`
	Events  int       `json:"messages_per_hour"` // as of PageView
	Copies  int       `json:"copies_per_hour"`   // the same
	Opened  time.Time `json:"opened"`
}

// Pages returns at most limit pages behind after, in order.
func (s *Store) Pages(ctx context.Context, after string, limit int) ([]PageView, error) {
	var list []PageView
	now := s.cfg.Now()
	err := s.do(ctx, all(&list, `
		SELECT p.page, p.paused_until, p.pause_reason,
			(SELECT COUNT(*) FROM rooms r WHERE r.page = p.page AND r.members > 0),
			(SELECT CAST(COALESCE(SUM(r.members), 0) AS BIGINT) FROM rooms r WHERE r.page = p.page),
			p.audience,
			(SELECT CAST(COALESCE(SUM(h.copies), 0) AS BIGINT) FROM page_hours h WHERE h.page = p.page AND h.hour > $3 - 24),
			COALESCE(this.events, 0), COALESCE(this.copies, 0), COALESCE(past.events, 0), COALESCE(past.copies, 0)
		FROM pages p
		LEFT JOIN page_hours this ON this.page = p.page AND this.hour = $3
		LEFT JOIN page_hours past ON past.page = p.page AND past.hour = $3 - 1
		WHERE p.page > $1 ORDER BY p.page LIMIT $2`,
		[]any{after, int64(limit), hourOf(now)},
		func(r row, v *PageView) error {
			var until int64
			var this, past Count
			err := r.Scan(&v.Page, &until, &v.PauseReason, &v.Rooms, &v.Members, &v.Audience, &v.Copies24h,
				&this.Events, &this.Copies, &past.Events, &past.Copies)
			v.Events, v.Copies = lastHour(now, this.Events, past.Events), lastHour(now, this.Copies, past.Copies)
			if v.Paused = until > now.UnixMilli(); v.Paused {
				v.PausedUntil = untilTime(until)
			}
			return err
		}))
	return list, failed("select pages", err)
}

// PausedPages returns the pages that are paused, ordered by page, without their counts.
func (s *Store) PausedPages(ctx context.Context, limit int) ([]PageView, error) {
	var list []PageView
	err := s.do(ctx, all(&list, `SELECT page, paused_until, pause_reason FROM pages WHERE paused_until > $1 ORDER BY page LIMIT $2`,
		[]any{s.cfg.Now().UnixMilli(), int64(limit)}, func(r row, v *PageView) error {
			var until int64
			err := r.Scan(&v.Page, &until, &v.PauseReason)
			v.Paused, v.PausedUntil = true, untilTime(until)
			return err
		}))
	return list, failed("select paused pages", err)
}

// CountAudiences counts the users whom each page may send to, for Pages. It reads
// the row of every user, some at a time, so that no event need change an index. It has
// no time limit.
func (s *Store) CountAudiences(ctx context.Context) error {
	counts, err := s.countAudiences(ctx)
	if err == nil {
		err = s.stepPages(ctx, func(ctx context.Context, after, last string) error { return s.setAudiences(ctx, counts, after, last) })
	}
	return failed("count audiences", err)
}

// countAudiences returns the pages' numbers of users whom they may send to.
func (s *Store) countAudiences(ctx context.Context) (map[string]int64, error) {
	counts := make(map[string]int64)
	open := s.cfg.Now().Add(-Window).UnixMilli()
	for page, psid, more := "", "", true; more; {
		people := int64(0)
		err := s.do(ctx, query{
			sql: `
			SELECT page, COUNT(*), SUM(CASE WHEN last_inbound > $1 AND window_closed_at IS NULL THEN 1 ELSE 0 END), MAX(psid)
			FROM (
				SELECT page, psid, last_inbound, window_closed_at FROM people
				WHERE (page, psid) > ($2, $3) ORDER BY page, psid LIMIT $4
			) AS step GROUP BY page ORDER BY page`,
			args: []any{open, page, psid, int64(countBatch)},
			scan: func(r row) error { // the last row's page and PSID are where it goes on
				var all, n int64
				err := r.Scan(&page, &all, &n, &psid)
				counts[page] += n
				people += all
				return err
			},
		})
		if err != nil {
			return nil, err
		}
		more = people == countBatch
	}
	return counts, nil
}

// setAudiences writes the counts of some pages that have changed, one page at a time,
// whose row is not locked for longer than that takes.
func (s *Store) setAudiences(ctx context.Context, counts map[string]int64, after, last string) error {
	var changed []string
	err := s.do(ctx, query{
		sql:  `SELECT page, audience FROM pages WHERE page > $1 AND page <= $2`,
		args: []any{after, last},
		scan: func(r row) error {
			var page string
			var n int64
			err := r.Scan(&page, &n)
			if n != counts[page] {
				changed = append(changed, page)
			}
			return err
		},
	})
	for _, page := range changed {
		if err == nil {
			err = s.do(ctx, query{sql: `UPDATE pages SET audience = $2 WHERE page = $1`, args: []any{page, counts[page]}})
		}
	}
	return err
}

// QuotaPerUser is the number of messages that the platform lets a page send in 24 hours
// for each user that it may send to.
const QuotaPerUser = 200

// Overview is the state of all pages together.
type Overview struct {
	Paused     map[string]int // pages that are paused now, by the reason
	QuotaShare float64        // the highest used share of a page's 24 h quota, by the last CountAudiences
}

// Overview returns the state of all pages together. It reads the hours' counts of
// each, and takes a minute at most.
func (s *Store) Overview(ctx context.Context) (Overview, error) {
	ctx, cancel := context.WithTimeout(ctx, overviewTimeout)
	defer cancel()
	now := s.cfg.Now()
	view := Overview{Paused: make(map[string]int)}
	err := s.inLongTx(ctx, func(ctx context.Context, tx transaction) error {
		return tx.run(ctx,
			query{
				sql:  `SELECT pause_reason, COUNT(*) FROM pages WHERE paused_until > $1 GROUP BY pause_reason`,
				args: []any{now.UnixMilli()},
				scan: func(r row) error {
					var reason string
					var n int
					err := r.Scan(&reason, &n)
					view.Paused[reason] = n
					return err
				},
			},
			one(nil, `
				SELECT COALESCE(MAX(CAST(c.copies AS DOUBLE PRECISION) / (p.audience * $2)), 0) FROM pages p JOIN (
					SELECT page, SUM(copies) AS copies FROM page_hours WHERE hour > $1 - 24 GROUP BY page
				) c ON c.page = p.page WHERE p.audience > 0`,
				[]any{hourOf(now), int64(QuotaPerUser)}, &view.QuotaShare))
	})
	return view, failed("select overview of pages", err)
}

// lastHour estimates the count of the last 60 minutes: this hour's, and of the
// past hour's the part that makes up 60 minutes.
func lastHour(now time.Time, this, past int64) int {
	return int(this + past*(3600-now.Unix()%3600)/3600)
}

// knows returns a query for whether there is a page: whether it had an event.
func (*Store) knows(exists *bool, page string) query {
	return one(exists, `SELECT 1 FROM pages WHERE page = $1`, []any{page}, new(int64))
}

// Rooms returns at most limit rooms of a page with a number above after, in
// order. The error is ErrUnknown if there is no such page.
func (s *Store) Rooms(ctx context.Context, page string, after, limit int) ([]RoomView, error) {
	var list []RoomView
	now, exists := s.cfg.Now(), false
	err := s.do(ctx, s.knows(&exists, page), all(&list, `
		SELECT r.number, r.code, r.members, r.created_at,
			COALESCE(this.events, 0), COALESCE(this.copies, 0), COALESCE(past.events, 0), COALESCE(past.copies, 0)
		FROM rooms r
		LEFT JOIN room_hours this ON this.page = r.page AND this.room = r.number AND this.hour = $4
		LEFT JOIN room_hours past ON past.page = r.page AND past.room = r.number AND past.hour = $4 - 1
		WHERE r.page = $1 AND r.number > $2 ORDER BY r.number LIMIT $3`,
		[]any{page, int64(after), int64(limit), hourOf(now)},
		func(r row, v *RoomView) error {
			var opened int64
			var this, past Count
			err := r.Scan(&v.Number, &v.Code, &v.Members, &opened, &this.Events, &this.Copies, &past.Events, &past.Copies)
			v.Events, v.Copies = lastHour(now, this.Events, past.Events), lastHour(now, this.Copies, past.Copies)
			v.Opened = time.UnixMilli(opened).UTC()
			return err
		}))
	return list, failed("select rooms", orUnknown(err, exists))
}
