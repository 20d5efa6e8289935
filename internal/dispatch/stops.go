package dispatch

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A stopped page is probed with one message after half an hour, then after
// twice as long each time up to four hours: Meta lifts blocks within hours,
// and every call against one prolongs it.
const (
	minProbe = 30 * time.Minute
	maxProbe = 4 * time.Hour
)

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
