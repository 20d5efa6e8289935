package ledger

import (
	"sync"
	"time"
)

// Class is the quota class of a send.
type Class uint8

// The platform's classes.
const (
	Text  Class = iota // text, links, images, files
	Media              // audio and video
)

// String is the class's name in reports.
func (c Class) String() string {
	if c == Media {
		return "media"
	}
	return "text"
}

// Result is what became of a send.
type Result uint8

// The results.
const (
	Accepted Result = iota // it will be delivered
	Refused                // throttled: the same call may pass later
	Rejected               // never deliverable to this recipient: the id is excused
	Failed                 // any other error
)

// Send is one call of the Send API.
type Send struct {
	Class     Class
	Result    Result
	Recipient string
	ID        string // from metadata; empty where the sender gave none
	Action    bool   // a sender action such as typing_on: a call, but no message
	// Unannounced says that nobody could announce the id beforehand. When it is
	// accepted first it is expected then, and so not unexpected; accepted again
	// it is a duplicate like any other.
	Unannounced bool
}

// Counts are the sums of a page or of all. Lost and Pending are the same
// number: what is expected and neither accepted nor excused at the moment of
// asking.
type Counts struct {
	Events       int64 `json:"events"`       // announced events
	Expected     int64 `json:"expected"`     // announced ids, less those excused
	Accepted     int64 `json:"accepted"`     // accepted messages, repetitions included
	Refused      int64 `json:"refused"`      // throttled calls
	Rejected     int64 `json:"rejected"`     // calls answered that it never can be delivered
	Errors       int64 `json:"errors"`       // calls that failed otherwise
	Lost         int64 `json:"lost"`         // expected and not accepted
	Duplicated   int64 `json:"duplicated"`   // accepted sends of an id that had been accepted before
	Unexpected   int64 `json:"unexpected"`   // accepted ids that nobody announced, or for another recipient or page
	Unidentified int64 `json:"unidentified"` // accepted messages without an id
	Actions      int64 `json:"actions"`      // accepted sender actions; in a Cell they are accepted calls like others
	Excused      int64 `json:"excused"`      // announced ids that need not come any more
	Inversions   int64 `json:"inversions"`   // accepted after a later event's copy for the same recipient
	Pending      int64 `json:"pending"`      // the same as lost
}

func (c *Counts) add(d Counts) {
	c.Events += d.Events
	c.Expected += d.Expected
	c.Accepted += d.Accepted
	c.Refused += d.Refused
	c.Rejected += d.Rejected
	c.Errors += d.Errors
	c.Lost += d.Lost
	c.Duplicated += d.Duplicated
	c.Unexpected += d.Unexpected
	c.Unidentified += d.Unidentified
	c.Actions += d.Actions
	c.Excused += d.Excused
	c.Inversions += d.Inversions
	c.Pending += d.Pending
}

// Cell counts one class in one second.
type Cell struct {
	Accepted uint32 `json:"accepted"`
	Refused  uint32 `json:"refused"`
	Errors   uint32 `json:"errors"` // rejected and failed
}

// Second is what happened to a page in one second.
type Second struct {
	Unix       int64  `json:"second"` // Unix time
	Text       Cell   `json:"text"`
	Media      Cell   `json:"media"`
	Duplicated uint32 `json:"duplicated"`
	Lost       uint32 `json:"lost"` // expected in this second and not accepted by now; filled in by Report
}

// plus is the sum of a second of two pages.
func (s Second) plus(o *Second) Second {
	s.Unix = o.Unix
	s.Text = s.Text.plus(o.Text)
	s.Media = s.Media.plus(o.Media)
	s.Duplicated += o.Duplicated
	return s
}

func (c Cell) plus(o Cell) Cell {
	return Cell{Accepted: c.Accepted + o.Accepted, Refused: c.Refused + o.Refused, Errors: c.Errors + o.Errors}
}

// Page is the account of one page; Ledger.Page opens it.
type Page struct {
	ledger *Ledger
	id     string

	mu     sync.Mutex
	counts Counts
	series []Second          // seconds in which something happened, oldest first
	latest map[uint64]uint64 // recipient → begin of the latest event whose copy was accepted
}

// Record enters one call made at now.
func (p *Page) Record(now time.Time, s Send) {
	verdict := arrival{}
	switch {
	case s.ID == "":
	case s.Result == Accepted:
		verdict = p.arrived(s)
		if verdict.event != nil {
			verdict.event.group.accepted(now, verdict.event)
		}
	case s.Result == Rejected:
		p.rejected(s)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sec := p.secondLocked(now.Unix())
	cell := &sec.Text
	if s.Class == Media {
		cell = &sec.Media
	}
	switch s.Result {
	case Accepted:
		cell.Accepted++
		p.acceptedLocked(sec, s, verdict)
	case Refused:
		cell.Refused++
		p.counts.Refused++
	case Rejected:
		cell.Errors++
		p.counts.Rejected++
	case Failed:
		cell.Errors++
		p.counts.Errors++
	}
}

func (p *Page) acceptedLocked(sec *Second, s Send, v arrival) {
	if s.Action {
		p.counts.Actions++
		return
	}
	p.counts.Accepted++
	switch {
	case s.ID == "":
		p.counts.Unidentified++
	case v.again:
		p.counts.Duplicated++
		sec.Duplicated++
	case v.unexpected && s.Unannounced && !v.astray:
		p.counts.Expected++
	case v.unexpected:
		p.counts.Unexpected++
	}
	if v.event == nil || v.recipient == 0 {
		return
	}
	if p.latest == nil {
		p.latest = make(map[uint64]uint64)
	}
	latest := p.latest[v.recipient]
	// The system had this event in its hands before the later one was posted.
	if answered := v.event.answered.Load(); answered != 0 && answered < latest {
		p.counts.Inversions++
	}
	p.latest[v.recipient] = max(latest, v.event.begin.Load())
}

// arrival is what the ids say about an accepted send.
type arrival struct {
	again      bool
	unexpected bool
	astray     bool   // it was awaited, for another recipient or page
	event      *Event // nil unless it was awaited
	recipient  uint64
}

func (p *Page) arrived(s Send) arrival {
	l := p.ledger
	h := l.hash(s.ID)
	sh := l.shard(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	m := sh.known[h]
	a, was := sh.pending[h]
	if was && !p.meant(a, s) {
		return arrival{unexpected: true, astray: true} // the id is still awaited
	}
	v := arrival{again: m.accepted > 0}
	switch {
	case was:
		delete(sh.pending, h)
		l.pending.Add(-1)
		m.expected = true
		v.event, v.recipient = a.event, a.recipient
	case !v.again && !m.excused:
		v.unexpected = true
		m.expected = s.Unannounced
	}
	if m.accepted < 1<<16-1 {
		m.accepted++
	}
	sh.known[h] = m
	sh.wakeLocked(h)
	return v
}

// meant tells whether a send is on the page and for the recipient for whom its
// id is awaited.
func (p *Page) meant(a awaited, s Send) bool {
	return a.event.page == p && (a.recipient == 0 || a.recipient == p.ledger.recipient(p.id, s.Recipient))
}

// rejected excuses an id whose recipient the platform will never take.
func (p *Page) rejected(s Send) {
	h := p.ledger.hash(s.ID)
	p.ledger.excuse(h, func(a awaited) bool { return p.meant(a, s) })
}

func (p *Page) announced(expected, early int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Events++
	p.counts.Expected += expected
	p.counts.Unexpected -= early
}

func (p *Page) excusedOne() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Expected--
	p.counts.Excused++
}

// secondLocked returns the cell of the second, newest last. Calls that come a
// moment late, with the time of an earlier second, are entered in the newest.
func (p *Page) secondLocked(unix int64) *Second {
	if n := len(p.series); n > 0 && p.series[n-1].Unix >= unix {
		return &p.series[n-1]
	}
	if len(p.series) >= 2*p.ledger.seconds {
		kept := copy(p.series, p.series[len(p.series)-p.ledger.seconds:])
		p.series = p.series[:kept]
	}
	p.series = append(p.series, Second{Unix: unix})
	return &p.series[len(p.series)-1]
}

func (p *Page) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts, p.series, p.latest = Counts{}, nil, nil
}
