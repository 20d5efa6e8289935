package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/wire"
)

const (
	// numbersEvery is the period of new numbers for the page, short enough to see each
	// second's count grow.
	numbersEvery = 250 * time.Millisecond
	// oldestEvery is the period of reading every awaited id, which costs 1 ms for
	// 20,000.
	oldestEvery = time.Second
	// phonesEvery lets changes of the phones within a moment go out together.
	phonesEvery = 30 * time.Millisecond
	// shownPages are listed on the page, however many there are.
	shownPages = 8
	// shownSeconds are drawn of each.
	shownSeconds = 120
)

// numbers is the ledger as the page shows it.
type numbers struct {
	Started time.Time               `json:"started"` // the page says so when it changes
	Now     time.Time               `json:"now"`
	Totals  ledger.Counts           `json:"totals"`
	Oldest  float64                 `json:"pending_age_max"` // seconds
	Answers map[fakeapi.Code]uint64 `json:"answers"`
	Limit   int                     `json:"limit"` // of most pages, text
	All     int                     `json:"all"`   // how many pages there are
	Pages   []pageNumbers           `json:"pages"`
}

type pageNumbers struct {
	ledger.Activity
	Limit int `json:"limit"`
}

// serveEvents streams server-sent events to one reader: "settings" when they
// change, "phones" when one of them changes, and "numbers" four times a second.
// The first "phones" holds everything, so that a reader that comes again is
// complete at once.
func (s *Site) serveEvents(ctx *fasthttp.RequestCtx, done <-chan struct{}) {
	ctx.SetContentType("text/event-stream")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.ImmediateHeaderFlush = true
	page := string(ctx.QueryArgs().Peek("page"))
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		r := &reader{site: s, w: w, page: page, done: done}
		r.run()
	})
}

// reader is one reader of GET /events, with the state that it was sent last.
type reader struct {
	site *Site
	w    *bufio.Writer
	page string // its numbers are sent, whether it is busy or not
	done <-chan struct{}

	oldest     float64
	oldestAt   time.Time
	generation uint64 // of the settings
	rev        uint64 // of the phones
}

// run writes events until the reader is gone or the server stops.
func (r *reader) run() {
	next := time.Now()
	for {
		if err := r.sendSettings(); err != nil {
			return
		}
		changed, err := r.sendPhones()
		if err != nil {
			return
		}
		if !time.Now().Before(next) {
			next = time.Now().Add(numbersEvery)
			if r.send("numbers", r.numbers()) != nil {
				return
			}
		}
		if r.w.Flush() != nil || !wire.Sleep(phonesEvery, r.done) || !r.await(changed, next) {
			return
		}
	}
}

// await returns true when the phones changed or the next numbers are due, and
// false when the server stopped.
func (r *reader) await(changed <-chan struct{}, next time.Time) bool {
	select {
	case <-changed:
	case <-time.After(time.Until(next)):
	case <-r.done:
		return false
	}
	return true
}

// send writes one event. The error says that the reader is gone.
func (r *reader) send(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", name, err)
	}
	_, err = fmt.Fprintf(r.w, "event: %s\ndata: %s\n\n", name, b)
	return err
}

// sendSettings sends the settings if they have changed.
func (r *reader) sendSettings() error {
	// In this order, so that a change in between is seen the next time.
	generation := r.site.api.Generation()
	if generation == r.generation {
		return nil
	}
	r.generation = generation
	return r.send("settings", r.site.api.Settings())
}

// sendPhones sends the phones' changes, and returns a channel that is closed at
// the next one.
func (r *reader) sendPhones() (changed <-chan struct{}, err error) {
	list, now, changed := r.site.Phones(r.rev)
	if now == r.rev {
		return changed, nil
	}
	r.rev = now
	return changed, r.send("phones", list)
}

// numbers reads the ledger. The age of the oldest awaited id is read once a
// second only.
func (r *reader) numbers() numbers {
	set, accounts := r.site.api.Settings(), r.site.api.Ledger()
	n := numbers{Started: r.site.started, Now: r.site.api.Now(), Totals: accounts.Totals(), Answers: r.site.api.Answers(), Limit: set.Text.PerSecond, Pages: []pageNumbers{}}
	if n.Now.Sub(r.oldestAt) >= oldestEvery {
		r.oldest, r.oldestAt = accounts.Report(ledger.Query{}).PendingSeconds, n.Now
	}
	if n.Totals.Pending > 0 {
		n.Oldest = r.oldest
	}
	list, all := accounts.Busiest(shownPages, shownSeconds, r.page)
	n.All = all
	for _, activity := range list {
		n.Pages = append(n.Pages, pageNumbers{Activity: activity, Limit: set.TextLimit(activity.Page)})
	}
	return n
}
