package dispatch

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/internal/sender"
)

// A suspended page is probed with one message after half an hour, then after
// twice as long each time, up to four hours. Meta lifts blocks within hours, and
// every call against one prolongs it.
const (
	minProbe = 30 * time.Minute
	maxProbe = 4 * time.Hour
	// forgetSuspended is how long after its probe was due a page that nothing was
	// sent to counts as suspended. Its next message is then a call like any other,
	// which suspends it again if need be.
	forgetSuspended = 4 * time.Hour
)

// pageWorks reports whether a call with this outcome shows that its page works:
// the platform got as far as the recipient, or as the page's limit. A bad message
// may be refused before the platform looks at the page.
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

// SuspendedPage is a page that nothing is sent to, because of the API's answer.
type SuspendedPage struct {
	Page    string    `json:"page"`
	Code    string    `json:"code"`     // the API's answer that suspended it
	Since   time.Time `json:"since"`    // when this replica saw it
	ProbeAt time.Time `json:"probe_at"` // when the next message is let through
}

type suspension struct {
	SuspendedPage
	wait time.Duration // until the next probe
}

// suspended is the set of suspended pages, as this replica learned it from the
// API's answers. The zero value is not useful. Safe for concurrent use.
type suspended struct {
	count atomic.Int32 // len(pages): most of the time none is suspended, and asking costs no lock

	mu    sync.Mutex
	pages map[string]*suspension
}

func newSuspended() *suspended { return &suspended{pages: make(map[string]*suspension)} }

// len returns the number of suspended pages.
func (s *suspended) len() int { return int(s.count.Load()) }

// holds reports whether messages of page must not be sent, and the code that
// suspended it. Messages are let through once a probe is due; see takeProbe.
func (s *suspended) holds(page string, now time.Time) (code string, held bool) {
	if s.count.Load() == 0 {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[page]
	if p == nil {
		return "", false
	}
	return p.Code, now.Before(p.ProbeAt)
}

// takeProbe reports whether a probe of a suspended page is due, and if so begins
// the wait for the next one.
func (s *suspended) takeProbe(page string, now time.Time) bool {
	if s.count.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[page]
	if p == nil || now.Before(p.ProbeAt) {
		return false
	}
	p.wait = min(2*p.wait, maxProbe)
	p.ProbeAt = now.Add(p.wait)
	return true
}

// suspend suspends a page; it returns false if it was suspended already.
func (s *suspended) suspend(page, code string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pages[page]; p != nil {
		p.Code = code
		return false
	}
	s.pages[page] = &suspension{
		SuspendedPage: SuspendedPage{Page: page, Code: code, Since: now, ProbeAt: now.Add(minProbe)},
		wait:          minProbe,
	}
	s.count.Add(1)
	return true
}

// resume lets a page's messages through again; it returns false if it was not suspended.
func (s *suspended) resume(page string) bool {
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

// probeAt returns when a suspended page is tried again, a past time if it is not
// suspended.
func (s *suspended) probeAt(page string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pages[page]; p != nil {
		return p.ProbeAt
	}
	return time.UnixMilli(0)
}

// sweep forgets the pages that nothing was sent to since their probe was due,
// and returns how many.
func (s *suspended) sweep(now time.Time) (n int) {
	if s.count.Load() == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for page, p := range s.pages {
		if now.Sub(p.ProbeAt) > forgetSuspended {
			delete(s.pages, page)
			s.count.Add(-1)
			n++
		}
	}
	return n
}

// list returns at most limit suspended pages, the longest suspended first.
func (s *suspended) list(limit int) []SuspendedPage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]SuspendedPage, 0, len(s.pages))
	for _, p := range s.pages {
		out = append(out, p.SuspendedPage)
	}
	slices.SortFunc(out, func(a, b SuspendedPage) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Page, b.Page))
	})
	return out[:min(limit, len(out))]
}
