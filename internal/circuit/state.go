package circuit

import (
	"cmp"
	"slices"
	"time"

	"chatclub/internal/message"
)

// IsOpen reports whether the API as a whole takes no calls.
func (s *Circuits) IsOpen() bool {
	return slices.ContainsFunc(s.shared[:], func(k circuit) bool { return k.open })
}

// IsSick reports whether a page is sick.
func (s *Circuits) IsSick(name string) bool {
	p := s.pages[name]
	return p != nil && p.own[0].open
}

// Until returns when a message that waits for a circuit may probe; zero: when the probe under
// way has ended, or no circuit holds it.
func (s *Circuits) Until(o *message.Outbound) (until time.Time) {
	p := s.pages[o.Page]
	for scope := API; p != nil && scope <= Block; scope++ {
		if k, _ := s.circuit(p, scope); k.open {
			if k.probe != nil || k.strange != nil {
				return time.Time{}
			}
			until = later(until, k.until)
		}
	}
	return until
}

// IsJudged reports whether a page, or its right to send, is judged.
func (s *Circuits) IsJudged(name string) bool {
	p := s.pages[name]
	return p != nil && (p.own[0].open || p.suspension() != nil)
}

// IsBlocked reports whether a page seems to be blocked by Meta.
func (s *Circuits) IsBlocked(name string) bool {
	p := s.pages[name]
	return p != nil && p.own[Block-Page].open
}

// suspension returns the open circuit by which a page may not send, nil if there is none.
func (p *page) suspension() *circuit {
	for scope := Permission; p != nil && scope <= Block; scope++ {
		if k := &p.own[scope-Page]; k.open {
			return k
		}
	}
	return nil
}

// Open returns the numbers of pages that are sick, pages that are suspended, and people
// who failed.
func (s *Circuits) Open() (sick, suspended, people int) {
	for _, p := range s.pages {
		if p.own[0].open {
			sick++
		}
		if p.suspension() != nil {
			suspended++
		}
	}
	return sick, suspended, len(s.people.list)
}

// SuspendedPage is a page that may not send.
type SuspendedPage struct {
	Page    string    `json:"page"`
	Code    string    `json:"code"`              // the API's answer; empty: there is no token for the page
	Since   time.Time `json:"since"`             // when this replica saw it
	ProbeAt time.Time `json:"probe_at,omitzero"` // when the next message is let through; zero: when there is a token
}

// Suspended returns at most limit suspended pages, the longest suspended first.
func (s *Circuits) Suspended(limit int) []SuspendedPage {
	list := []SuspendedPage{}
	for name, p := range s.pages {
		if k := p.suspension(); k != nil {
			list = append(list, SuspendedPage{Page: name, Code: k.code, Since: k.since, ProbeAt: k.until})
		}
	}
	slices.SortFunc(list, func(a, b SuspendedPage) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Page, b.Page))
	})
	return list[:min(limit, len(list))]
}

// Resume lets a suspended page's messages through again. It returns false if the page was
// not suspended.
func (s *Circuits) Resume(now time.Time, name string) bool {
	p := s.pages[name]
	if p == nil {
		return false
	}
	was := p.suspension() != nil
	for scope := Permission; scope <= Block; scope++ {
		k := &p.own[scope-Page]
		k.reset()
		k.refuted = now // what calls from before are told says nothing any more
	}
	return was
}

// TellPage returns why a page is suspended and when it is probed. It reports whether core
// is to be told that now, and takes it as told.
func (s *Circuits) TellPage(now time.Time, name string) (code string, until time.Time, tell bool) {
	k := s.pages[name].suspension()
	if k == nil {
		return "", time.Time{}, false
	}
	// Core would stop copying to the strangers by whom a wrong verdict ends. So it is told only
	// what the API has confirmed, or a third person has been refused, too.
	isSure := k.sure || k.rule.scope == Block || len(k.row.people) > k.rule.people
	return k.code, k.until, isSure && k.tell(now)
}

const (
	// askAfter is the time without a second witness, and without a refutation, after which
	// the API is asked about a page, and askAgain the period of asking again.
	askAfter = 2 * time.Second
	askAgain = 30 * time.Second
)

// Suspects returns the pages of which somebody says that they may not send, and nobody the
// contrary: the API may know. It takes them as asked about.
func (s *Circuits) Suspects(now time.Time) (list []string) {
	for name, p := range s.pages {
		for scope := Permission; scope <= Block; scope++ {
			k := &p.own[scope-Page]
			if k.row.n > 0 && !k.sure && now.Sub(k.row.first) >= askAfter && now.Sub(p.asked) >= askAgain {
				p.asked = now
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	return list
}

// Confirm takes the API's answer to a question about a page, which is a second witness if the
// token is refused, or the page blocked, as the first one said. A permission to read the page
// that is missing says nothing about messages.
func (s *Circuits) Confirm(now time.Time, name string, a Answer) (list []Change) {
	p := s.pages[name]
	for scope := Permission; p != nil && scope <= Block; scope++ {
		k := &p.own[scope-Page]
		if a != Refused && a != Blocked || !a.accuses(scope) || k.row.n == 0 {
			continue
		}
		if k.sure = true; !k.open {
			k.trip(now, 0, s.random)
			list = append(list, Change{Scope: scope, Open: true, Page: name})
		}
	}
	return list
}
