package fakeapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"time"

	"chatclub/fakeapi/ledger"
)

const (
	// numbersEvery is how often the page gets new numbers: each second's count
	// is seen growing.
	numbersEvery = 250 * time.Millisecond
	// oldestEvery is how often every awaited id is looked at, which costs 1 ms
	// for 20,000.
	oldestEvery = time.Second
	// phonesEvery lets what happens on the phones within a moment go out
	// together.
	phonesEvery = 30 * time.Millisecond
	// shownPages are listed on the page, however many there are.
	shownPages = 8
	// shownSeconds are drawn of each.
	shownSeconds = 120
)

// numbers is the book as the page shows it.
type numbers struct {
	Now     time.Time       `json:"now"`
	Totals  ledger.Counts   `json:"totals"`
	Oldest  float64         `json:"pending_age_max"` // seconds
	Answers map[Code]uint64 `json:"answers"`
	Limit   int             `json:"limit"` // of most pages, text
	All     int             `json:"all"`   // pages there are
	Pages   []pageNumbers   `json:"pages"`
}

type pageNumbers struct {
	ledger.Activity
	Limit int `json:"limit"`
}

// stream is what one reader of GET /events has been told.
type stream struct {
	h    *handler
	w    *bufio.Writer
	page string // that it wants numbers of, whether busy or not

	oldest     float64
	oldestAt   time.Time
	generation uint64 // of the settings
	rev        uint64 // of the phones
	told       bool   // that there are no phones
}

// run writes server-sent events until the reader is gone or the server stops:
// "settings" when they change, "phones" when something happens on one (the
// first holds everything, so that a reader that comes again is complete at
// once), and "numbers" four times a second.
func (s *stream) run() {
	next := time.Now()
	for {
		if err := s.settings(); err != nil {
			return
		}
		changed, err := s.phones()
		if err != nil {
			return
		}
		if !time.Now().Before(next) {
			next = time.Now().Add(numbersEvery)
			if s.event("numbers", s.numbers()) != nil {
				return
			}
		}
		if s.w.Flush() != nil || !s.h.sleep(phonesEvery) || !s.await(changed, next) {
			return
		}
	}
}

// await returns when the phones changed or it is time for the next numbers,
// and false when the server stopped.
func (s *stream) await(changed <-chan struct{}, next time.Time) bool {
	t := time.NewTimer(time.Until(next))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-s.h.done:
		return false
	}
	return true
}

// event writes one. The error says that the reader is gone.
func (s *stream) event(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", name, err)
	}
	_, err = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, b)
	return err
}

func (s *stream) settings() error {
	set := s.h.api.live.Load()
	if set.generation == s.generation {
		return nil
	}
	s.generation = set.generation
	return s.event("settings", set.Settings)
}

func (s *stream) phones() (changed <-chan struct{}, err error) {
	p := s.h.api.phones.Load()
	if p == nil {
		if s.told {
			return nil, nil
		}
		s.told = true
		return nil, s.event("phones", phonesReport{Phones: []phoneReport{}})
	}
	r, changed := p.report(s.rev)
	if r.Rev == s.rev && s.rev != 0 {
		return changed, nil
	}
	s.rev = r.Rev
	return changed, s.event("phones", r)
}

func (s *stream) numbers() numbers {
	a := s.h.api
	set := a.live.Load()
	n := numbers{Now: a.now(), Totals: a.book.Totals(), Answers: a.Answers(), Limit: set.Text.PerSecond, Pages: []pageNumbers{}}
	if n.Now.Sub(s.oldestAt) >= oldestEvery {
		s.oldest, s.oldestAt = a.book.Report(ledger.Query{}).PendingSeconds, n.Now
	}
	if n.Totals.Pending > 0 {
		n.Oldest = s.oldest
	}
	list, all := a.book.Busiest(shownPages, shownSeconds, s.page)
	n.All = all
	for _, activity := range list {
		one := pageNumbers{Activity: activity, Limit: set.Text.PerSecond}
		if own := set.Pages[activity.Page]; own != nil && own.Text > 0 {
			one.Limit = own.Text
		}
		n.Pages = append(n.Pages, one)
	}
	return n
}
