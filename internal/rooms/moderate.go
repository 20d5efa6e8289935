package rooms

import (
	"context"
	"errors"
	"time"
)

// ReportView is one user's report of another to the operators, made once or
// repeated.
type ReportView struct {
	ID       string         `json:"-"` // of the event of the first report; unique on the page
	Page     string         `json:"-"`
	Reporter string         `json:"reporter"`
	Accused  string         `json:"accused"`
	Name     string         `json:"name"` // of the accused
	Room     int            `json:"room"`
	Times    int            `json:"times"` // how often the reporter reported the accused
	At       time.Time      `json:"at"`    // of the last report, as are Name and Room
	Texts    []ReportedText `json:"texts"` // the oldest first
}

// ReportedText is a text of the accused in the room in the day before a report, as far
// as it is kept, with the addresses of attachments behind it.
type ReportedText struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Reports returns at most limit reports of a page, the latest first. With an
// after, of which only At and ID count, it returns the reports behind that one. The
// error is ErrUnknown if there is no such page.
func (s *Store) Reports(ctx context.Context, page string, after ReportView, limit int) ([]ReportView, error) {
	var list []ReportView
	before := int64(never)
	if !after.At.IsZero() {
		before = after.At.UnixMilli()
	}
	exists := false
	texts := map[string][]ReportedText{} // by report
	const these = ` FROM reports WHERE page = $1 AND (at, event_id) < ($2, $3) ORDER BY at DESC, event_id DESC LIMIT $4`
	args := []any{page, before, after.ID, int64(limit)}
	err := s.do(ctx, s.knows(&exists, page), all(&list, `SELECT event_id, page, reporter, accused, name, room, times, at`+these, args,
		func(r row, v *ReportView) error {
			var at int64
			err := r.Scan(&v.ID, &v.Page, &v.Reporter, &v.Accused, &v.Name, &v.Room, &v.Times, &at)
			v.At = time.UnixMilli(at).UTC()
			return err
		}), query{
		sql: `
		SELECT t.report, t.at, t.text FROM report_texts t JOIN (SELECT event_id` + these + `) r ON r.event_id = t.report
		WHERE t.page = $1 ORDER BY t.at, t.event_id`,
		args: args,
		scan: func(r row) error {
			var report, text string
			var at int64
			err := r.Scan(&report, &at, &text)
			texts[report] = append(texts[report], ReportedText{time.UnixMilli(at).UTC(), text})
			return err
		},
	})
	for i := range list {
		list[i].Texts = append([]ReportedText{}, texts[list[i].ID]...) // not nil: JSON has []
	}
	return list, failed("select reports", classify(orUnknown(err, exists)))
}

// ErrUnknown says that there is no such user, page, room or broadcast.
var ErrUnknown = errors.New("unknown")

// Ban takes a user out of its room and rejects the user's events until that time,
// for good if it is zero. A time that has passed ends a ban. The error is ErrUnknown if the page has no such user.
func (s *Store) Ban(ctx context.Context, page, psid string, until time.Time) error {
	err := s.withUser(ctx, page, psid, func(ctx context.Context, tx transaction, u user, found bool) error {
		if !found {
			return ErrUnknown
		}
		u.bannedUntil, u.banTold = never, 0
		if !until.IsZero() {
			u.bannedUntil = until.UnixMilli()
		}
		if u.bannedUntil <= s.cfg.Now().UnixMilli() {
			return tx.commit(ctx, u.save())
		}
		return s.evict(ctx, tx, u)
	})
	return failed("ban user", classify(err))
}
