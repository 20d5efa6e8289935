package ledger

import (
	"fmt"
	"strings"
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

// String returns the class's name in reports.
func (c Class) String() string {
	if c == Media {
		return "media"
	}
	return "text"
}

// Result is the outcome of a send.
type Result uint8

// The results.
const (
	Accepted Result = iota // it will be delivered
	Refused                // throttled; the same call may pass later
	Rejected               // never deliverable to this recipient; the id is excused
	Failed                 // any other error
)

// Send is one call of the Send API. Several messages can go out as one, with their
// ids in one metadata. Each of them is then judged as if it had come alone.
type Send struct {
	Class     Class
	Result    Result
	Recipient string
	ID        string // from metadata, or several with spaces between them; empty where the sender gave none
	Action    bool   // a sender action such as typing_on: a call, but no message
}

// Counts are the sums of a page or of all pages. Lost and Pending are the same
// number: the ids that are expected and neither accepted nor excused now.
type Counts struct {
	Events       int64 `json:"events"`       // announced events
	Expected     int64 `json:"expected"`     // announced ids, less those excused, and the unannounced that were accepted
	Accepted     int64 `json:"accepted"`     // accepted messages, repetitions included
	Calls        int64 `json:"calls"`        // accepted calls with these messages; fewer where several went out as one
	Refused      int64 `json:"refused"`      // throttled calls
	Rejected     int64 `json:"rejected"`     // calls answered that the message can never be delivered
	Errors       int64 `json:"errors"`       // calls that failed otherwise
	Lost         int64 `json:"lost"`         // expected and not accepted
	Duplicated   int64 `json:"duplicated"`   // accepted sends of an id that had been accepted before
	Unexpected   int64 `json:"unexpected"`   // accepted ids that were not announced, or for another recipient or page
	Unidentified int64 `json:"unidentified"` // accepted messages without an id
	Actions      int64 `json:"actions"`      // accepted sender actions; in a Cell they are accepted calls like others
	Excused      int64 `json:"excused"`      // announced ids that need not come any more, and have not
	Inversions   int64 `json:"inversions"`   // accepted after a later event's copy for the same recipient, of the same class
	Pending      int64 `json:"pending"`      // the same as lost
}

func (c *Counts) add(d Counts) {
	c.Events += d.Events
	c.Expected += d.Expected
	c.Accepted += d.Accepted
	c.Calls += d.Calls
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

// Line returns the counts in one line. pending names the ids that are expected and
// not accepted: "awaited" while they may come, "lost" at the end.
func (c Counts) Line(pending string) string {
	return fmt.Sprintf("events %d expected %d accepted %d refused %d %s %d duplicated %d unexpected %d without id %d excused %d",
		c.Events, c.Expected, c.Accepted, c.Refused, pending, c.Pending, c.Duplicated, c.Unexpected, c.Unidentified, c.Excused)
}

// Err returns an error that names the defects in the counts of a run that has ended;
// nil: every expected id was accepted, once, and no other.
func (c Counts) Err() error {
	var wrong []string
	for _, x := range []struct {
		name  string
		count int64
	}{{"lost", c.Lost}, {"duplicated", c.Duplicated}, {"unexpected", c.Unexpected}, {"without id", c.Unidentified}} {
		if x.count > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", x.count, x.name))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("the ledger shows %s of %d accepted", strings.Join(wrong, ", "), c.Accepted)
}

// Cell counts one class in one second: its calls, and the messages in those that
// were accepted.
type Cell struct {
	Accepted uint32 `json:"accepted"`
	Refused  uint32 `json:"refused"`
	Errors   uint32 `json:"errors"` // rejected and failed
	Messages uint32 `json:"messages"`
}

// Second is a page's counts of one second.
type Second struct {
	Unix       int64  `json:"second"` // Unix time
	Text       Cell   `json:"text"`
	Media      Cell   `json:"media"`
	Duplicated uint32 `json:"duplicated"`
	Lost       uint32 `json:"lost"` // expected in this second and not accepted by now; filled in by Report
}

// plus returns the sum of one second of two pages.
func (s Second) plus(o *Second) Second {
	s.Unix = o.Unix
	s.Text = s.Text.plus(o.Text)
	s.Media = s.Media.plus(o.Media)
	s.Duplicated += o.Duplicated
	return s
}

func (c Cell) plus(o Cell) Cell {
	return Cell{
		Accepted: c.Accepted + o.Accepted, Refused: c.Refused + o.Refused,
		Errors: c.Errors + o.Errors, Messages: c.Messages + o.Messages,
	}
}

// Page is the account of one page; Ledger.Page opens it.
type Page struct {
	ledger *Ledger
	id     string

	mu     sync.Mutex
	counts Counts
	delay  time.Duration       // of all announced ids that were accepted, from their announcement on
	series []Second            // seconds in which something happened, oldest first
	latest map[sequence]uint64 // begin of the latest event whose copy was accepted
}

// Record enters one call made at now.
func (p *Page) Record(now time.Time, s Send) {
	p.ledger.balance.RLock()
	defer p.ledger.balance.RUnlock()
	var few [8]arrival // nearly always enough
	arrivals := few[:0]
	for id := range strings.SplitSeq(s.ID, " ") {
		switch {
		case id == "":
		case s.Result == Accepted:
			a := p.arrive(now, id, s)
			if a.event != nil && !a.excused {
				a.event.group.accept(now, a.event)
			}
			arrivals = append(arrivals, a)
		case s.Result == Rejected:
			p.reject(id, s)
		}
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
		if s.Action {
			p.counts.Actions++
			break
		}
		p.counts.Calls++
		if len(arrivals) == 0 {
			cell.Messages++
			p.counts.Accepted++
			p.counts.Unidentified++
		}
		for _, a := range arrivals {
			cell.Messages++
			p.acceptLocked(now, sec, s.Class, a)
		}
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

// acceptLocked counts one accepted message.
func (p *Page) acceptLocked(now time.Time, sec *Second, class Class, a arrival) {
	p.counts.Accepted++
	switch {
	case a.again:
		p.counts.Duplicated++
		sec.Duplicated++
	case a.unannounced:
		p.counts.Expected++
	case a.excused:
		p.counts.Expected++
		p.counts.Excused--
	case a.unexpected:
		p.counts.Unexpected++
	}
	if a.event != nil {
		p.delay += max(0, now.Sub(a.event.at))
	}
	if a.event == nil || a.recipient == 0 {
		return
	}
	if p.latest == nil {
		p.latest = make(map[sequence]uint64)
	}
	in := sequence{a.recipient, class}
	latest := p.latest[in]
	// The system had taken this event before the later one was posted.
	if answered := a.event.answered.Load(); answered != 0 && answered < latest {
		p.counts.Inversions++
	}
	p.latest[in] = max(latest, a.event.begin.Load())
}

// MostOvertaken returns the largest number of inversions of a run in which at most so many
// copies are doubled. Only a kill may break the order, of as many copies as it may double:
// both are the copies that the killed program had in hand.
func MostOvertaken(killed bool, doubled int64) int64 {
	if !killed {
		return 0
	}
	return doubled
}

// sequence is the unit of order: a recipient's messages of one class. Those of another
// wait for a limit of their own.
type sequence struct {
	recipient uint64
	class     Class
}

// arrival is the state of an accepted send's id before that send.
type arrival struct {
	again       bool // it had been accepted before
	unexpected  bool
	unannounced bool   // it could not be announced, and so is expected
	excused     bool   // it need not have come
	event       *Event // nil unless it was awaited or excused
	recipient   uint64
}

// arrive marks an id of an accepted send as accepted.
func (p *Page) arrive(now time.Time, id string, s Send) arrival {
	l := p.ledger
	h := l.hash(id)
	sh := l.shard(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.finished.renew(now, l.part)
	from := sh.pending
	wait, waiting := from[h]
	if !waiting {
		in, excused := sh.finished.find(h)
		if in != nil && !excused {
			return arrival{again: true}
		}
		if in == nil {
			expected := l.unannounced != nil && l.unannounced(p.id, s.Recipient, id)
			sh.finished.parts[0].accepted[h] = expected
			sh.wakeLocked(h)
			return arrival{unannounced: expected, unexpected: !expected}
		}
		from = in.excused
		wait = from[h]
	}
	if !p.matches(wait, s) {
		return arrival{unexpected: true} // the id is still awaited, or excused
	}
	delete(from, h)
	if waiting {
		l.pending.Add(-1)
	}
	sh.finished.parts[0].accepted[h] = true
	sh.wakeLocked(h)
	return arrival{excused: !waiting, event: wait.event, recipient: wait.recipient}
}

// matches reports whether a send is on the page and for the recipient for which
// its id is awaited.
func (p *Page) matches(a awaited, s Send) bool {
	return a.event.page == p && (a.recipient == 0 || a.recipient == p.ledger.recipient(p.id, s.Recipient))
}

// reject excuses an id whose recipient the platform will never accept.
func (p *Page) reject(id string, s Send) {
	h := p.ledger.hash(id)
	p.ledger.excuse(h, func(a awaited) bool { return p.matches(a, s) })
}

// countEvent counts an announced event. Of its expected ids, early had been
// accepted before.
func (p *Page) countEvent(expected, early int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Events++
	p.counts.Expected += expected
	p.counts.Unexpected -= early
}

// countExcused counts an awaited id that is excused.
func (p *Page) countExcused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Expected--
	p.counts.Excused++
}

// secondLocked returns the entry of a second, and adds it where it is new. A
// call that comes a moment late, with the time of an earlier second, is entered
// in the newest.
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
	p.counts, p.delay, p.series, p.latest = Counts{}, 0, nil, nil
}
