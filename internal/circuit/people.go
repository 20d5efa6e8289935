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
	// recentEvents is the least number of events remembered: those of the longest call
	// at some thousand events a second.
	recentEvents = 1 << 15
	// aloneBad is the number of messages, each refused as bad to one person and accepted for
	// another, after which that person is failing.
	aloneBad = 3
)

// somebody is a person on a page, and a class of messages: a voice message that fails says
// nothing about texts.
type somebody struct {
	page, to string
	class    message.Class
}

// person is somebody for whom messages fail.
type person struct {
	circuit
	known bool  // the page has accepted others since the first failure
	then  tally // of the page, before that
}

// event is the state of an event's messages.
type event struct {
	failed   []string  // people for whom they fail, and who were not known to fail
	accepted bool      // somebody has got one
	began    time.Time // when the first call began that failed for one of these people,
	first    time.Time // when it failed
	last     time.Time // and when that for the last one of them did
	then     tally     // of the page, before that
	fails    int       // calls
	code     string    // with what it failed last
	again    []string  // people for whom it failed in a call that began when more of others were accepted since than failed
	met      time.Time // when they were enough; zero: they are not
}

// people remembers persons who cannot be sent to, and events that may be the cause.
type people struct {
	rules      *[scopes]rule
	random     func() float64
	list       map[somebody]*person
	young, old map[string]*event // the latest events, and those before them
	suspects   map[string]*event // those that fail for several people, and nobody has got one
}

func newPeople(rules *[scopes]rule, random func() float64) people {
	return people{rules: rules, random: random, list: make(map[somebody]*person), young: make(map[string]*event), suspects: make(map[string]*event)}
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

// of returns a person, nil if nothing is known.
func (p *people) of(page, to string, class message.Class) *person {
	if len(p.list) == 0 { // nearly always
		return nil
	}
	return p.list[somebody{page, to, class}]
}

// isKnown reports whether the recipient of a call is known to fail: the page has accepted a
// call to another one that is no older than the person's first that failed. It remembers that.
func (p *people) isKnown(c *Call) bool {
	t := p.of(c.page.name, c.to, c.class)
	if t != nil && t.row.n > 0 && !t.row.began.After(c.page.well) {
		t.known = true
	}
	return t != nil && t.known
}

// failedBefore reports whether the first call that failed to a call's recipient, or of its
// event, is no news for a circuit: the page has accepted a call that is no older. A refusal
// is quicker than what is accepted of the same event. So where permission is refused, an older
// call that is accepted later will do, too, unless two people more have begun to fail since
// than were accepted: then it may be the last one from before.
func (p *people) failedBefore(c *Call, k *circuit) bool {
	isOld := func(began time.Time, then tally) bool {
		n := c.page.tally.since(then)
		return !began.After(c.page.well) || k.rule.scope > Page && !began.After(k.refuted) && n.people < n.accepted+2
	}
	t, e := p.of(c.page.name, c.to, c.class), p.look(c.event)
	return t != nil && t.row.n > 0 && isOld(t.row.began, t.then) || e != nil && len(e.failed) > 0 && isOld(e.began, e.then)
}

// look returns an event, nil if nothing is known.
func (p *people) look(id string) *event {
	if e := p.young[id]; e != nil {
		return e
	}
	return p.old[id]
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
// got one: no person is blamed for it.
func (p *people) isAtFault(id string) bool { return p.suspects[id] != nil }

// fails reports whether an event that is at fault is judged: it failed again for enough people
// while its page accepted others, and calls from before had the time to be answered. What
// failed in an outage alone does not count.
func (p *people) fails(now time.Time, id string, answerTime time.Duration) bool {
	if len(p.suspects) == 0 { // nearly always
		return false
	}
	e := p.suspects[id]
	return e != nil && !e.met.IsZero() && now.Sub(e.met) >= answerTime
}

// fail notes that a call failed by the recipient's fault or the message's. The person's
// circuit opens after as many failures as a message has attempts, of events that are not
// at fault.
func (p *people) fail(now time.Time, c *Call, r Report) (opened bool) {
	e := p.event(c.event)
	if known := p.isKnown(c); !known && !e.accepted && !slices.Contains(e.failed, c.to) && len(e.failed) < rowSize {
		if len(e.failed) == 0 {
			e.began, e.first, e.then, e.fails = c.began, now, c.page.tally, 0
		}
		e.failed, e.last, e.code = append(e.failed, c.to), now, r.Code
		if len(e.failed) >= p.rules[Event].people {
			p.suspects[c.event] = e
		}
	}
	c.page.tally.failed++
	e.fails++
	others := c.page.tally.since(e.then)
	others.failed -= e.fails
	if !e.accepted && len(e.failed) > 0 && c.well.After(e.first) && others.accepted > others.failed && !slices.Contains(e.again, c.to) && len(e.again) < rowSize {
		if e.again = append(e.again, c.to); len(e.again) == p.rules[Event].people {
			e.met = now
		}
	}
	if !r.Answer.accuses(Person) {
		return false
	}
	who := somebody{c.page.name, c.to, c.class}
	t := p.list[who]
	if t == nil {
		t = &person{circuit: circuit{rule: &p.rules[Person]}}
		if len(p.list) < peopleSize {
			p.list[who] = t
		}
	}
	if t.row.n == 0 {
		t.then = c.page.tally
		c.page.tally.people++
	}
	t.row.add(now, c)
	n, alone := 0, 0
	for id, failures := range t.row.events {
		if p.isAtFault(id) {
			continue
		}
		n += failures
		if e := p.look(id); e != nil && e.accepted {
			alone++
		}
	}
	mayOpen := n >= p.rules[Person].failures || r.Answer == Bad && alone >= aloneBad
	if t.open && (t.probe != c || p.isAtFault(c.event)) || !t.open && !mayOpen {
		return false
	}
	return t.trip(now, 0, p.random)
}

// accept notes that a person was sent a message: the person can be sent to, and the event
// is not at fault. closed reports that texts can be sent again.
func (p *people) accept(c *Call) (closed bool) {
	p.event(c.event).accepted = true
	delete(p.suspects, c.event)
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
		t.reset()
		if t.known = false; class == c.class {
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

// excuse forgets people of pages who are not known to fail, and failed only since a time.
func (p *people) excuse(isOf func(page string) bool, since time.Time) {
	for k, t := range p.list {
		if isOf(k.page) && !t.known && !t.open && !t.row.began.Before(since) {
			delete(p.list, k)
		}
	}
}

// sweep forgets people and events without calls for long.
func (p *people) sweep(now time.Time) {
	for k, t := range p.list {
		if t.isOld(now) {
			delete(p.list, k)
		}
	}
	for id, e := range p.suspects {
		if now.Sub(e.last) > forget {
			delete(p.suspects, id)
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

// EventCode returns the code with which an event that is at fault failed last.
func (s *Circuits) EventCode(o *message.Outbound) string {
	if e := s.people.suspects[eventOf(o.ID, o)]; e != nil {
		return e.code
	}
	return ""
}
