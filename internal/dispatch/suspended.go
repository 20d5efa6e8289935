package dispatch

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A suspended page is probed with one message after half an hour, then after
// twice as long each time up to four hours: Meta lifts blocks within hours,
// and every call against one prolongs it.
const (
	minProbe = 30 * time.Minute
	maxProbe = 4 * time.Hour
	// forgetSuspended is how long after its probe was due a page that nothing was
	// sent to counts as suspended. Its next message is then a call like any
	// other, which suspends it again if need be.
	forgetSuspended = 4 * time.Hour
	// tokenGrace is how long messages of a page without a token wait for it: the
	// pages file is often written after the page was connected, or twice.
	tokenGrace = 5 * time.Minute
)

// hold says whether messages of a page are held back.
type hold int

const (
	notHeld hold = iota
	forNow       // they wait: the page has no token yet
	forGood      // they are dead
)

// SuspendedPage is a page that nothing is sent to.
type SuspendedPage struct {
	Page    string    `json:"page"`
	Code    string    `json:"code"`     // the API's answer; empty: there is no token for the page
	Since   time.Time `json:"since"`    // when this replica saw it
	ProbeAt time.Time `json:"probe_at"` // when the next message is let through
}

type suspension struct {
	SuspendedPage
	wait  time.Duration // until the next probe
	grace time.Time     // until then messages wait
}

// suspended is the set of suspended pages, as this replica learned it from the
// API's answers. Make one with newSuspended. Safe for concurrent use.
type suspended struct {
	mu    sync.Mutex
	pages map[string]*suspension
}

func newSuspended() *suspended { return &suspended{pages: make(map[string]*suspension)} }

// len is the number of suspended pages.
func (s *suspended) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pages)
}

// holds reports whether messages of page are held back. When a probe is due they
// are not.
func (s *suspended) holds(page string, now time.Time) hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[page]
	switch {
	case p == nil || !now.Before(p.ProbeAt):
		return notHeld
	case now.Before(p.grace):
		return forNow
	}
	return forGood
}

// probe reports whether a call of the page is its probe, and takes it as that.
func (s *suspended) probe(page string, now time.Time) bool {
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

// suspend suspends a page, whose messages wait for grace and are dead then. It
// returns false if the page was suspended already.
func (s *suspended) suspend(page, code string, grace time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pages[page]; p != nil {
		p.Code = code
		return false
	}
	s.pages[page] = &suspension{
		SuspendedPage: SuspendedPage{Page: page, Code: code, Since: now, ProbeAt: now.Add(minProbe)}, wait: minProbe, grace: now.Add(grace),
	}
	return true
}

// resume lets a page's messages through again; it returns false if it was not
// suspended.
func (s *suspended) resume(page string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pages[page] == nil {
		return false
	}
	delete(s.pages, page)
	return true
}

// probeAt is when a suspended page is tried again, now or before if it is not
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for page, p := range s.pages {
		if now.Sub(p.ProbeAt) > forgetSuspended {
			delete(s.pages, page)
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

// TokensChanged resumes pages whose token is new. It does not block.
func (d *Dispatcher) TokensChanged(pages []string) {
	for _, page := range pages {
		if d.suspended.resume(page) {
			d.Log.Info("page resumed: its token is new", "page", page)
		}
	}
}
