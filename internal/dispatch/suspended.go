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
	// stopGrace is how long messages of a page wait whose token is missing or refused,
	// or whose permission is: the pages file is often written after the page was
	// connected, or a moment before the platform takes the new token.
	stopGrace = 5 * time.Minute
	// graceProbe is the time between the probes meanwhile, as long as the messages wait
	// in their retry queue.
	graceProbe = retryMedium
	// probeTime bounds how long the others wait for a probe, whose message may be
	// another replica's meanwhile.
	probeTime = 30 * time.Second
	// longSuspended is after how long messages wait a minute at a time.
	longSuspended = 90 * time.Second
	// tellAgain is the least time between two reports to core that a page is suspended,
	// or a person failing. core lets copies through now and then, to find out.
	tellAgain = 10 * time.Second
	// staleAnswer is how long an answer can be under way, from before its page was
	// resumed: as long as the longest CALL_TIMEOUT.
	staleAnswer = 5 * time.Minute
)

// hold says whether messages of a page are held back.
type hold int

const (
	notHeld hold = iota
	forNow       // they wait: the page may be right again soon, or is being probed
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
	wait    time.Duration // until the next probe
	grace   time.Time     // until then messages wait
	probing time.Time     // until then what comes waits for a probe that is under way
	told    time.Time     // when core was told last; zero: never
}

// suspended is the set of suspended pages, as this replica learned it from the
// API's answers. Make one with newSuspended. Safe for concurrent use.
type suspended struct {
	mu      sync.Mutex
	pages   map[string]*suspension
	ended   map[string]time.Time // pages that were resumed of late: answers from before say nothing
	changed []string             // pages with a new token, of which core is to be told
	news    []reached            // of what core is to be told
}

// reached is a page, or a person on it, that can be sent to again.
type reached struct {
	page, to string // to: empty for the page
	at       time.Time
}

func newSuspended() *suspended {
	return &suspended{pages: make(map[string]*suspension), ended: make(map[string]time.Time)}
}

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
	case p == nil:
		return notHeld
	case now.Before(p.probing):
		return forNow
	case !now.Before(p.ProbeAt):
		return notHeld
	case now.Before(p.grace):
		return forNow
	}
	return forGood
}

// waits reports whether messages of a page wait, though a probe may be due.
func (s *suspended) waits(page string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[page]
	return p != nil && (now.Before(p.grace) || now.Before(p.probing))
}

// has reports whether a page is suspended.
func (s *suspended) has(page string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages[page] != nil
}

// pause is how long a message of a page waits on the broker: longer where the page is
// suspended for longer, because more and more wait then.
func (s *suspended) pause(page string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pages[page]; p != nil && now.Before(p.grace) && now.Sub(p.Since) > longSuspended {
		return retryLong
	}
	return retryMedium
}

// forget forgets pages, which another replica owns from now on.
func (s *suspended) forget(isOurs func(page string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for page := range s.pages {
		if isOurs(page) {
			delete(s.pages, page)
		}
	}
}

// probe reports whether a call of the page is its probe, and takes it as that.
func (s *suspended) probe(page string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[page]
	if p == nil || now.Before(p.probing) || now.Before(p.ProbeAt) {
		return false
	}
	if !now.Before(p.grace) {
		p.wait = min(max(2*p.wait, minProbe), maxProbe)
	}
	p.ProbeAt, p.probing = now.Add(p.wait), now.Add(probeTime)
	return true
}

// probed notes that a page's probe has ended. One that said nothing about the page
// is soon followed by another.
func (s *suspended) probed(page string, now time.Time, says bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pages[page]; p != nil {
		p.probing = time.Time{}
		if !says {
			p.ProbeAt = now.Add(graceProbe)
		}
	}
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
	wait := minProbe
	if grace > 0 {
		wait = graceProbe
	}
	s.pages[page] = &suspension{
		SuspendedPage: SuspendedPage{Page: page, Code: code, Since: now, ProbeAt: now.Add(wait)}, wait: wait, grace: now.Add(grace),
	}
	return true
}

// resume lets a page's messages through again, and has core told. It returns false
// if the page was not suspended.
func (s *suspended) resume(page string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumeLocked(page, now)
}

func (s *suspended) resumeLocked(page string, now time.Time) bool {
	if s.pages[page] == nil {
		return false
	}
	delete(s.pages, page)
	s.ended[page] = now
	s.news = append(s.news, reached{page: page, at: now})
	return true
}

// isStale reports whether a page was resumed after a call of it began.
func (s *suspended) isStale(page string, began time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[page].After(began)
}

// reach has core told that a person can be sent to again.
func (s *suspended) reach(page, to string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news = append(s.news, reached{page, to, now})
}

// take returns of what core is to be told, and the pages with a new token.
func (s *suspended) take() (news []reached, changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news, changed, s.news, s.changed = s.news, s.changed, nil, nil
	return news, changed
}

// putBack is for news that could not be told.
func (s *suspended) putBack(news []reached) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news = append(news, s.news...)
}

// tell returns why a page is suspended and when it is probed. It reports whether core
// is to be told that now, and takes it as told.
func (s *suspended) tell(page string, now time.Time) (code string, until time.Time, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[page]
	if p == nil {
		return "", time.Time{}, false
	}
	if tell = now.Sub(p.told) >= tellAgain; tell {
		p.told = now
	}
	return p.Code, p.ProbeAt, tell
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
	for page, at := range s.ended {
		if now.Sub(at) > staleAnswer {
			delete(s.ended, page)
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

// TokensChanged resumes pages whose token is new, and has core told by the owner of
// each: another replica may have suspended the page. It does not block.
func (d *Dispatcher) TokensChanged(pages []string) {
	s, now := d.suspended, d.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, page := range pages {
		if s.resumeLocked(page, now) {
			d.Log.Info("page resumed: its token is new", "page", page)
		} else {
			s.changed = append(s.changed, page)
		}
	}
}
