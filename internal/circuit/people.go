package circuit

import (
	"slices"
	"strings"
	"time"

	"chatclub/internal/message"
)

const (
	// peopleSize bounds the people remembered: far more than fail in an hour.
	peopleSize = 1 << 15
	// suspectPeople is the number of people for whom an event fails that is at fault: one
	// may be sick, and two may meet by chance.
	suspectPeople = 3
	// recentEvents is the least number of events remembered: those of the longest call
	// at some thousand events a second.
	recentEvents = 1 << 15
)

// somebody is a person on a page, and a class of messages: a voice message that fails says
// nothing about texts.
type somebody struct {
	page, to string
	class    message.Class
}

// event is the state of an event's messages.
type event struct {
	failed   []string // people for whom they fail, up to suspectPeople
	accepted bool     // somebody has got one
}

// people remembers persons who cannot be sent to, and events that may be the cause.
type people struct {
	rule       *rule
	random     func() float64
	list       map[somebody]*circuit
	young, old map[string]*event // the latest events, and those before them
}

func newPeople(r *rule, random func() float64) people {
	return people{rule: r, random: random, list: make(map[somebody]*circuit), young: make(map[string]*event)}
}

// eventOf returns the event of a message to o's recipient by its id, which is
// message.CopyID's. A message with another id is an event of its own. Of joined
// messages it is the first's.
func eventOf(id string, o *message.Outbound) string {
	id, _, _ = strings.Cut(id, " ")
	if i := strings.LastIndex(id, "/"+o.To); i > len(o.Page) {
		return id[:i]
	}
	return id
}

// of returns the circuit of a person, nil if nothing is known.
func (p *people) of(page, to string, class message.Class) *circuit {
	if len(p.list) == 0 { // nearly always
		return nil
	}
	return p.list[somebody{page, to, class}]
}

// find returns the circuit of a call's recipient, to be changed.
func (p *people) find(c *Call) *circuit {
	t := p.of(c.page.name, c.to, c.class)
	if t == nil {
		t = &circuit{rule: p.rule}
		if len(p.list) < peopleSize {
			p.list[somebody{c.page.name, c.to, c.class}] = t
		}
	}
	return t
}

// event returns an event, to be changed.
func (p *people) event(id string) *event {
	e := p.young[id]
	if e == nil {
		if e = p.old[id]; e == nil {
			e = &event{}
		}
		if len(p.young) >= recentEvents {
			p.old, p.young = p.young, make(map[string]*event)
		}
		p.young[id] = e
	}
	return e
}

// isAtFault reports whether an event's messages fail for several people, and nobody has
// got one.
func (p *people) isAtFault(id string) bool {
	e := p.young[id]
	if e == nil {
		e = p.old[id]
	}
	return e != nil && len(e.failed) >= suspectPeople && !e.accepted
}

// fail notes that a call failed by the recipient's fault or the message's. The person's
// circuit opens after as many failures as a message has attempts, of events that are not
// at fault.
func (p *people) fail(now time.Time, c *Call) (k *circuit, opened bool) {
	t, e := p.find(c), p.event(c.event)
	if len(e.failed) < suspectPeople && !slices.Contains(e.failed, c.to) {
		e.failed = append(e.failed, c.to)
	}
	t.row.add(now, c)
	n := 0
	for id, failures := range t.row.events {
		if !p.isAtFault(id) {
			n += failures
		}
	}
	if t.open && (t.probe != c || p.isAtFault(c.event)) || !t.open && n < p.rule.failures {
		return t, false
	}
	opened = t.trip(now, 0, p.random)
	return t, opened
}

// accept notes that a person was sent a message: the person can be sent to, and the event
// is not at fault. closed reports that texts can be sent again.
func (p *people) accept(c *Call) (closed bool) {
	p.event(c.event).accepted = true
	if len(p.list) == 0 {
		return false
	}
	for _, class := range []message.Class{message.ClassText, message.ClassMedia} {
		t := p.of(c.page.name, c.to, class)
		if t == nil {
			continue
		}
		closed = closed || t.open && class == message.ClassText
		// A person who can be sent to is well for both classes.
		if t.reset(); class == c.class {
			delete(p.list, somebody{c.page.name, c.to, class})
		}
	}
	return closed
}

// forget forgets the people of pages.
func (p *people) forget(isGone func(page string) bool) {
	for k := range p.list {
		if isGone(k.page) {
			delete(p.list, k)
		}
	}
}

// sweep forgets people without calls for long.
func (p *people) sweep(now time.Time) {
	for k, t := range p.list {
		if t.isOld(now) {
			delete(p.list, k)
		}
	}
}

// TellPerson reports whether core is to be told now that a recipient is failing, and until
// when, and takes it as told. It is not where voice messages fail, because it would hold
// texts back as well.
func (s *Circuits) TellPerson(now time.Time, o *message.Outbound) (until time.Time, tell bool) {
	t := s.people.of(o.Page, o.To, o.Class)
	if t == nil || o.Class != message.ClassText || !t.tell(now) {
		return time.Time{}, false
	}
	return t.until, true
}

// IsAtFault reports whether the event of a call is at fault: its messages may never arrive.
func (s *Circuits) IsAtFault(c *Call) bool { return s.people.isAtFault(c.event) }
