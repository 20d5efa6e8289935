package dispatch

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/internal/sender"
)

// A stopped page is probed with one message after half an hour, then after
// twice as long each time up to four hours: Meta lifts blocks within hours,
// and every call against one prolongs it.
const (
	minProbe = 30 * time.Minute
	maxProbe = 4 * time.Hour
	// forgetStop is how long after its probe was due a page that nothing was
	// sent to counts as stopped. Its next message is then a call like any other,
	// which stops it again if need be.
	forgetStop = 4 * time.Hour
)

// pageWorks tells whether a call with this outcome shows that its page is not,
// or no longer, stopped: the platform got as far as the recipient, or as the
// page's limit. A bad message may be refused before the page is looked at.
func pageWorks(o sender.Outcome) bool {
	switch o {
	case sender.Sent, sender.PageThrottled, sender.RecipientThrottled, sender.RecipientGone,
		sender.WindowClosed, sender.NotOurs:
		return true
	case sender.AppThrottled, sender.Transient, sender.Ambiguous, sender.BadMessage,
		sender.PageStopped, sender.PageStoppedForATime, sender.Canceled:
		return false
	}
	return false
}

// StoppedPage is a page that nothing is sent to.
type StoppedPage struct {
	Page    string    `json:"page"`
	Code    string    `json:"code"`     // the API's answer that stopped it
	Since   time.Time `json:"since"`    // when this replica saw it
	ProbeAt time.Time `json:"probe_at"` // when the next message is let through
}

type stop struct {
	StoppedPage
	wait time.Duration // until the next probe
}

// stops is the set of stopped pages, as this replica learned it from the
// API's answers. The zero value is not useful. Safe for concurrent use.
type stops struct {
	count atomic.Int32 // len(pages): most of the time nothing is stopped, and asking costs no lock

	mu    sync.Mutex
	pages map[string]*stop
}

func newStops() *stops { return &stops{pages: make(map[string]*stop)} }

// len is the number of stopped pages.
func (s *stops) len() int { return int(s.count.Load()) }

// holds tells whether messages of page must not be sent, and the code that
// stopped it. When a probe is due it lets this one message through.
func (s *stops) holds(page string, now time.Time) (code string, held bool) {
	if s.count.Load() == 0 {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[page]
	if p == nil {
		return "", false
	}
	if now.Before(p.ProbeAt) {
		return p.Code, true
	}
	p.wait = min(2*p.wait, maxProbe)
	p.ProbeAt = now.Add(p.wait)
	return p.Code, false
}

// stop stops a page; it returns false if it was stopped already.
func (s *stops) stop(page, code string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pages[page]; p != nil {
		p.Code = code
		return false
	}
	s.pages[page] = &stop{
		StoppedPage: StoppedPage{Page: page, Code: code, Since: now, ProbeAt: now.Add(minProbe)},
		wait:        minProbe,
	}
	s.count.Add(1)
	return true
}

// resume lets a page's messages through again; it returns false if it was not stopped.
func (s *stops) resume(page string) bool {
	if s.count.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pages[page] == nil {
		return false
	}
	delete(s.pages, page)
	s.count.Add(-1)
	return true
}

// probeAt is when a stopped page is tried again, now or before if it is not
// stopped.
func (s *stops) probeAt(page string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pages[page]; p != nil {
		return p.ProbeAt
	}
	return time.UnixMilli(0)
}

// sweep forgets the pages that nothing was sent to since their probe was due,
// and returns how many.
func (s *stops) sweep(now time.Time) (n int) {
	if s.count.Load() == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for page, p := range s.pages {
		if now.Sub(p.ProbeAt) > forgetStop {
			delete(s.pages, page)
			s.count.Add(-1)
			n++
		}
	}
	return n
}

// list returns at most limit stopped pages, the longest stopped first.
func (s *stops) list(limit int) []StoppedPage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]StoppedPage, 0, len(s.pages))
	for _, p := range s.pages {
		out = append(out, p.StoppedPage)
	}
	slices.SortFunc(out, func(a, b StoppedPage) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Page, b.Page))
	})
	return out[:min(limit, len(out))]
}
