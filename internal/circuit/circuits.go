package circuit

import (
	"math/rand/v2"
	"slices"
	"time"

	"chatclub/internal/message"
)

// Answer is the part of a call's outcome that circuits learn from: a bit for each scope that
// has served the call, and one for each against which it is a witness.
type Answer int

// against shifts a scope's bit from served to witness.
const against = int(scopes)

const (
	fromAPI    = 1<<API | 1<<Network
	fromPage   = fromAPI | 1<<App | 1<<Page
	thisPerson = (1<<Event | 1<<Person) << against
)

// The answers.
const (
	// Accepted: it was sent.
	Accepted Answer = fromPage | 1<<Permission | 1<<Block | 1<<Event | 1<<Person
	// Works: the platform got as far as the recipient or the page's limit.
	Works Answer = fromPage | 1<<Permission | 1<<Block
	// Answered: it says nothing more than that.
	Answered Answer = fromPage
	// Bad: it was refused for its content, or for its recipient.
	Bad Answer = fromPage | thisPerson
	// Failed: no answer in time, or an answer that says nothing.
	Failed Answer = (1<<API|1<<Page)<<against | thisPerson
	// Unreached: no connection that lasted until an answer.
	Unreached Answer = (1<<API|1<<Network|1<<Page)<<against | thisPerson
	// Throttled: it refuses the whole app.
	Throttled Answer = fromAPI | 1<<App<<against
	// Denied: the permission of the page or for this person is missing.
	Denied Answer = fromPage | 1<<Permission<<against | thisPerson
	// Refused: the page's token or permission is.
	Refused Answer = fromPage | 1<<Permission<<against
	// Blocked: the page is, for some time, or the content.
	Blocked Answer = fromPage | (1<<Block|1<<Event)<<against
	// NoCall: there was none.
	NoCall Answer = 0
)

// serves reports whether a scope has served the call, accuses whether the call is a witness
// against it.
func (a Answer) serves(scope Scope) bool  { return a&(1<<scope) != 0 }
func (a Answer) accuses(scope Scope) bool { return a&(1<<scope<<against) != 0 }

// IsFromAPI reports whether the API answered a call.
func (a Answer) IsFromAPI() bool { return a.serves(API) }

// Report is the result of a call.
type Report struct {
	Answer Answer
	Code   string        // the platform's, if it gave one
	Hint   time.Duration // the pause that it asks for; 0: none
}

// Hold is a circuit's decision about its messages.
type Hold int

// The holds.
const (
	Pass Hold = iota
	Wait
	Dead
)

// Change is a circuit that has opened or closed.
type Change struct {
	Scope Scope
	Open  bool
	Page  string // of Page and narrower scopes
	To    string // of Person
}

// Call is one call that was begun.
type Call struct {
	page  *page
	to    string
	class message.Class
	event string
	began time.Time
	well  time.Time // when the call began that the page had accepted last by then
	tried bool      // it was tried elsewhere, and failed there
	hangs bool      // it takes longer than answers do, and was noted as a failure
	left  bool      // its partition was given up: that it fails, or hangs, tells nothing
}

// page is a page's circuits, and its calls in flight.
type page struct {
	name     string
	calls    map[*Call]struct{}
	hung     int // of them
	own      [Block - Page + 1]circuit
	answered time.Time // when the call began that was answered and began last
	well     time.Time // the same of those that were accepted
	tally    tally
	asked    time.Time // when the API was asked about it last
}

// tally counts what became of a page's calls.
type tally struct {
	accepted, failed int // calls: those that failed by the message's fault or the recipient's
	people           int // those who began to fail
}

// since returns what has been counted since then.
func (t tally) since(then tally) tally {
	return tally{t.accepted - then.accepted, t.failed - then.failed, t.people - then.people}
}

// Circuits are all circuits of one replica. Make them with New. Not safe for concurrent
// use.
type Circuits struct {
	random   func() float64
	rules    [scopes]rule
	shared   [App + 1]circuit
	pages    map[string]*page
	people   people
	calls    int
	hung     int       // of them
	answered time.Time // when the call began that was answered and began last
	unheard  time.Time // when the first call began since an answer came; zero: none did
	// answerTime is the time that nearly all calls take that are accepted, longestAnswer at
	// most.
	answerTime time.Duration
}

// New returns circuits that are closed. A message has so many attempts. random is in
// [0, 1); nil: math/rand.
func New(random func() float64, attempts int) *Circuits {
	if random == nil {
		random = rand.Float64
	}
	s := &Circuits{random: random, rules: table(attempts), pages: make(map[string]*page), answerTime: longestAnswer}
	for i := range s.rules {
		s.rules[i].scope = Scope(i)
	}
	s.people = newPeople(&s.rules, random)
	for i := range s.shared {
		s.shared[i].rule = &s.rules[i]
	}
	return s
}

// page returns a page, which is made if there is none.
func (s *Circuits) page(name string) *page {
	p := s.pages[name]
	if p == nil {
		p = &page{name: name, calls: make(map[*Call]struct{})}
		for i := range p.own {
			p.own[i].rule = &s.rules[int(Page)+i]
		}
		s.pages[name] = p
	}
	return p
}

// circuit returns the circuit of a scope from API to Block, and the number of calls that
// are under way in it and do not hang.
func (s *Circuits) circuit(p *page, scope Scope) (k *circuit, underWay int) {
	if scope < Page {
		return &s.shared[scope], s.calls - s.hung
	}
	return &p.own[scope-Page], len(p.calls) - p.hung
}

// Hold returns the decision about a message, its scope, and the time for which it is sure.
func (s *Circuits) Hold(now time.Time, o *message.Outbound) (h Hold, by Scope, wait time.Duration) {
	if t := s.people.of(o.Page, o.To, o.Class); t != nil {
		if h, wait = t.hold(now, false); h != Pass {
			return h, Person, wait
		}
	}
	p := s.pages[o.Page]
	if s.people.fails(now, eventOf(o.ID, o), s.answerTime) {
		return Dead, Event, 0
	}
	for _, scope := range [...]Scope{Permission, Block, API, Network, App, Page} {
		if p == nil && scope >= Page {
			continue
		}
		k, _ := s.circuit(p, scope)
		if !k.open {
			continue
		}
		if h, wait = k.hold(now, s.isStranger(k, o)); h != Pass {
			return h, scope, wait
		}
	}
	return Pass, Page, 0
}

// isStranger reports whether nobody can say of a message that it fails as those do because
// of which a circuit is open. It is of another page; or, within a page that is sick, of another
// class, and where the page is blocked of another event; or to another person, and of another
// event.
func (s *Circuits) isStranger(k *circuit, o *message.Outbound) bool {
	switch {
	case k.rule.scope == Page && k.row.classes[string(o.Class)] == 0:
		return true
	case k.row.isFull():
		return false
	case k.rule.scope < Page:
		return k.row.pages[o.Page] == 0
	case k.rule.scope == Block:
		return k.row.events[eventOf(o.ID, o)] == 0
	}
	return s.people.of(o.Page, o.To, o.Class) == nil && k.row.people[o.Page+"/"+o.To] == 0 && k.row.events[eventOf(o.ID, o)] == 0
}

// Rank orders the messages of a page that is judged by who may probe for it best, the lowest
// first: strangers, then people who have not failed, then those who failed with the page.
// People who failed before are the last.
func (s *Circuits) Rank(o *message.Outbound) (rank int) {
	p := s.pages[o.Page]
	if p == nil {
		return 0
	}
	for i := range p.own {
		k := &p.own[i]
		t := s.people.of(o.Page, o.To, o.Class)
		switch {
		case !k.open || s.isStranger(k, o):
		case t != nil && (t.known || t.row.first.Before(k.row.first)):
			rank = max(rank, 3)
		case t != nil || k.row.people[o.Page+"/"+o.To] > 0:
			rank = max(rank, 2)
		default:
			rank = max(rank, 1)
		}
	}
	return rank
}

// IsShut reports whether a page takes no calls for reasons of its own.
func (s *Circuits) IsShut(now time.Time, name string) bool {
	p := s.pages[name]
	if p == nil {
		return false
	}
	permission, _ := p.own[Permission-Page].hold(now, false)
	block, _ := p.own[Block-Page].hold(now, false)
	return permission == Wait || block == Wait || p.own[0].open
}

// Begin notes that a call is made for a message.
func (s *Circuits) Begin(now time.Time, o *message.Outbound) *Call {
	p := s.page(o.Page)
	c := &Call{page: p, to: o.To, class: o.Class, event: eventOf(o.ID, o), began: now, well: p.well}
	c.tried = o.Attempts > 0 && s.people.of(o.Page, o.To, o.Class) == nil
	p.calls[c] = struct{}{}
	s.calls++
	if s.unheard.IsZero() {
		s.unheard = now
	}
	s.each(c, func(k *circuit) { k.begin(now, c, k.open && s.isStranger(k, o)) })
	return c
}

// each calls f for every circuit of a call.
func (s *Circuits) each(c *Call, f func(*circuit)) {
	for i := range s.shared {
		f(&s.shared[i])
	}
	for i := range c.page.own {
		f(&c.page.own[i])
	}
	if t := s.people.of(c.page.name, c.to, c.class); t != nil {
		f(&t.circuit)
	}
}

// Probes reports whether a call finds out whether the API or its page takes calls, and
// whether the page has its permission.
func (s *Circuits) Probes(c *Call) (calls, permission bool) {
	s.each(c, func(k *circuit) {
		if k.probe == c || k.strange == c {
			calls = calls || k.rule.scope <= Page
			permission = permission || k.rule.scope == Permission || k.rule.scope == Block
		}
	})
	return calls, permission
}

// End reports a call's result, and returns the circuits that have opened and closed.
func (s *Circuits) End(now time.Time, c *Call, r Report) (list []Change) {
	p := c.page
	delete(p.calls, c)
	if s.calls--; c.hangs {
		p.hung--
		s.hung--
	}
	note := func(scope Scope, open, changed bool) {
		if changed {
			list = append(list, Change{Scope: scope, Open: open, Page: p.name, To: c.to})
		}
	}
	s.hear(now, c, r.Answer)
	if c.left { // its page may be another's by now
		r.Answer &= 1<<scopes - 1
	}
	explained := false // a wider scope is judged, of which the person and the event are victims
	for scope := API; scope <= Block; scope++ {
		k, underWay := s.circuit(p, scope)
		switch {
		case r.Answer.serves(scope):
			note(scope, false, k.refute(now, c))
		case r.Answer.accuses(scope) && (k.open || (!explained || scope < Page) && s.isWitness(k, c)):
			k.add(now, c, r, s.random)
		}
		note(scope, true, k.judge(now, c, underWay, s))
		explained = explained || k.open && !r.Answer.serves(scope) && (scope < Page || r.Answer.accuses(scope))
	}
	if k := &p.own[0]; r.Answer == Throttled && !s.IsOpen() && !k.open {
		k.row.add(now, c)
		note(Page, true, k.trip(now, r.Hint, s.random))
	} else if r.Answer == Throttled && k.open && k.probe == c {
		k.trip(now, r.Hint, s.random)
	}
	switch {
	case r.Answer.serves(Person):
		note(Person, false, s.people.accept(c))
	case r.Answer.accuses(Event) && (!explained || !s.IsOpen() && s.people.isKnown(c)):
		note(Person, true, s.people.fail(now, c, r))
	}
	s.each(c, func(k *circuit) { k.end(c) })
	s.excuse(list)
	return list
}

// hear notes that a call was answered or accepted, and how long that took.
func (s *Circuits) hear(now time.Time, c *Call, a Answer) {
	p := c.page
	switch {
	case a.IsFromAPI():
		s.Heard()
		p.answered, s.answered = later(p.answered, c.began), later(s.answered, c.began)
	case a == NoCall && s.unheard.Equal(c.began): // it asked nobody
		s.Heard()
	}
	if a == Accepted {
		p.well = later(p.well, c.began)
		p.tally.accepted++
		took := min(now.Sub(c.began), longestAnswer)
		if took > s.answerTime {
			s.answerTime += (took - s.answerTime) / 4
		} else { // 64 shorter ones weigh as much as one that is longer
			s.answerTime -= (s.answerTime - took) / 256
		}
	}
}

// isWitness reports whether a failed call is one against a scope that is not judged.
func (s *Circuits) isWitness(k *circuit, c *Call) bool {
	p := c.page
	if c.tried || k.isServed(c) || s.people.isKnown(c) || s.people.failedBefore(c, k) {
		return false
	}
	sick := &p.own[0]
	return k.rule.scope >= Page || !sick.open || !sick.since.Before(s.answered) // the API is well, and the page is not
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// excuse forgets the failures that the circuits explain which have opened: of pages that fail
// only since the API does, or hang, and of people who fail only since their page does.
func (s *Circuits) excuse(list []Change) {
	for _, change := range list {
		if !change.Open || change.Scope > Page {
			continue
		}
		k, _ := s.circuit(s.pages[change.Page], change.Scope)
		since, all := k.row.began, change.Scope < Page
		for _, p := range s.pages {
			if sick := &p.own[0]; all && (p.hung > 0 || !sick.row.began.Before(since)) {
				sick.reset()
			}
		}
		s.people.excuse(func(page string) bool { return all || page == change.Page }, since)
	}
}

// Check notes calls that hang, opens the circuits whose witnesses nobody has refuted, and
// forgets pages without calls for long. Call it once a second.
func (s *Circuits) Check(now time.Time) (list []Change) {
	judge := func(k *circuit, underWay int, name string) {
		if k.judge(now, nil, underWay, s) {
			list = append(list, Change{Scope: k.rule.scope, Open: true, Page: name})
		}
	}
	for i := range s.shared {
		k := &s.shared[i]
		if judge(k, s.calls-s.hung, ""); k.open && s.calls == 0 && k.isOld(now) {
			k.reset()
		}
	}
	for name, p := range s.pages {
		if len(p.calls) == 0 && now.Sub(p.answered) > forget && !slices.ContainsFunc(p.own[:], func(k circuit) bool { return !k.isIdle(now) }) {
			delete(s.pages, name)
			continue
		}
		sick := &p.own[0]
		for c := range p.calls {
			if !c.hangs && now.Sub(c.began) >= longestAnswer && !sick.open && !s.IsOpen() && s.isWitness(sick, c) {
				c.hangs = true
				p.hung++
				s.hung++
				sick.row.add(now, c)
			}
		}
		for i := range p.own {
			judge(&p.own[i], len(p.calls)-p.hung, name)
		}
	}
	s.excuse(list)
	s.people.sweep(now)
	return list
}

// Doubt has pages probed that this replica may not have sent for lately, and persons on
// them: while another did, they may have become well. A failure of a moment ago, and a page
// that Meta has blocked, is not asked again.
func (s *Circuits) Doubt(now time.Time, isOurs func(page string) bool) {
	for name, p := range s.pages {
		if isOurs(name) {
			p.own[Permission-Page].doubt(now)
		}
	}
	for who, t := range s.people.list {
		if isOurs(who.page) {
			t.doubt(now)
		}
	}
}

// Forget forgets the pages that another replica owns from now on, and their people.
func (s *Circuits) Forget(isGone func(page string) bool) {
	for name, p := range s.pages {
		if isGone(name) {
			for i := range p.own {
				p.own[i].reset()
			}
		}
	}
	s.people.forget(isGone)
}
