// Package circuit has the circuit breakers for calls to an API that serves many pages:
// one kind of circuit for each scope in which calls can fail. A circuit that is open
// keeps its messages from being sent, and nobody else's.
//
// # Algorithm
//
// A circuit opens after failures in a row, with no answer between, of as many people,
// events and pages as its row in the table says. While it is open one call at a time
// probes, after a pause that doubles with each failed probe. A probe's answer closes it.
// A failed call says nothing if a call that began later was answered before.
//
// A failure counts for the widest scope that explains it. While the API takes no calls, a
// page that failed only meanwhile is not sick; while a page is sick, its people are not at
// fault; and an event that fails for three people, and was taken for nobody, is at fault
// itself. Whether a page or a person lacks a permission is seen by a second person's
// answer, unless that person was refused before.
//
// A throttle of the app is no failure. It opens the page's circuit, for as long as the
// platform asks; and the app's once a second page is told so with no answer between.
package circuit

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"chatclub/internal/message"
)

// Answer is the part of a call's outcome that circuits learn from.
type Answer int

// The answers.
const (
	Accepted  Answer = iota // it was sent
	Works                   // the platform got as far as the recipient or the page's limit
	Answered                // it says nothing more than that
	Bad                     // it was refused for its content, or for its recipient
	Failed                  // no answer in time, or an answer that says nothing
	Unreached               // no connection that lasted until an answer
	Throttled               // it refuses the whole app
	Denied                  // the permission of the page or for this person is missing
	Refused                 // the page's token or permission is
	Blocked                 // the page is, for some time
	Missing                 // there was no call: the page has no token
	NoCall                  // there was no call, for another reason
)

// IsFromAPI reports whether the API answered a call.
func (a Answer) IsFromAPI() bool {
	return a != Failed && a != Unreached && a != Missing && a != NoCall
}

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

const (
	// A page hangs when hungCalls of its calls wait for longer than hungTime,
	// longer than nearly all of Messenger's answers, and none was answered
	// meanwhile.
	hungCalls = 4
	hungTime  = 3 * time.Second
	// silence is the time of calls in flight without any answer after which the API is
	// silent; silenceMany with at least manyCalls of them. They are of several pages,
	// or of silentPeople: one page that hangs is no silence of the API.
	silence      = 5 * time.Second
	silenceMany  = 3 * time.Second
	manyCalls    = 20
	silentPeople = 6
)

// Call is one call that was begun.
type Call struct {
	page  *pageCircuits
	to    string
	class message.Class
	event string
	began time.Time
}

// pageCircuits are the two circuits of a page, and its calls in flight.
type pageCircuits struct {
	name       string
	calls      map[*Call]struct{}
	answered   time.Time // when the call began that was answered and began last
	sick       circuit
	permission circuit
	code       string    // of the answer that opened it
	resumed    time.Time // answers to calls from before say nothing about the permission
}

// Circuits are all circuits of one replica. Make them with New. Not safe for concurrent
// use.
type Circuits struct {
	random   func() float64
	rules    [scopes]rule
	shared   [App + 1]circuit
	pages    map[string]*pageCircuits
	people   people
	calls    int
	answered time.Time // when the call began that was answered and began last
	unheard  time.Time // when the first call began since an answer came; zero: none did
}

// New returns circuits that are closed. A message has so many attempts. random is in
// [0, 1); nil: math/rand.
func New(random func() float64, attempts int) *Circuits {
	if random == nil {
		random = rand.Float64
	}
	s := &Circuits{random: random, rules: table(attempts), pages: make(map[string]*pageCircuits)}
	s.people = newPeople(&s.rules[Person], random)
	for i := range s.rules {
		s.rules[i].scope = Scope(i)
	}
	for i := range s.shared {
		s.shared[i].rule = &s.rules[i]
	}
	return s
}

// Hold returns the decision about a message, its scope, and the time for which it is sure.
func (s *Circuits) Hold(now time.Time, o *message.Outbound) (h Hold, by Scope, wait time.Duration) {
	p, t := s.pages[o.Page], s.people.of(o.Page, o.To, o.Class)
	if t != nil {
		if h, wait = t.hold(now); h != Pass {
			return h, Person, wait
		}
	}
	if p != nil {
		if h, wait = p.permission.hold(now); h != Pass {
			return h, p.permission.rule.scope, wait
		}
	}
	for i := range s.shared {
		k := &s.shared[i]
		// Pages that are none of the failing ones may go on where the rule says so, until
		// something probes, or as many pages fail as are remembered.
		if _, failing := k.row.pages[o.Page]; k.rule.others && !failing && k.probe == nil && len(k.row.pages) < rowSize {
			continue
		}
		if h, wait = k.hold(now); h != Pass {
			return h, k.rule.scope, wait
		}
	}
	if p != nil {
		h, wait = p.sick.hold(now)
	}
	return h, Page, wait
}

// IsShut reports whether a page takes no calls for reasons of its own.
func (s *Circuits) IsShut(now time.Time, name string) bool {
	p := s.pages[name]
	if p == nil {
		return false
	}
	hold, _ := p.permission.hold(now)
	return hold == Wait || p.sick.open
}

// page returns a page, which is made if there is none.
func (s *Circuits) page(name string) *pageCircuits {
	p := s.pages[name]
	if p == nil {
		p = &pageCircuits{name: name, calls: make(map[*Call]struct{}), sick: circuit{rule: &s.rules[Page]}, permission: circuit{rule: &s.rules[Permission]}}
		s.pages[name] = p
	}
	return p
}

// Begin begins the call for a message, for which Hold must have said Pass. End must be
// told.
func (s *Circuits) Begin(now time.Time, o *message.Outbound) *Call {
	p := s.page(o.Page)
	c := &Call{page: p, to: o.To, class: o.Class, event: eventOf(o.ID, o), began: now}
	p.calls[c] = struct{}{}
	s.calls++
	if s.unheard.IsZero() {
		s.unheard = now
	}
	s.each(c, func(k *circuit) { k.begin(c) })
	return c
}

// each calls f for every circuit of a call.
func (s *Circuits) each(c *Call, f func(*circuit)) {
	for i := range s.shared {
		f(&s.shared[i])
	}
	f(&c.page.sick)
	f(&c.page.permission)
	if t := s.people.of(c.page.name, c.to, c.class); t != nil {
		f(t)
	}
}

// Probes reports whether a call finds out whether the API or its page takes calls, and
// whether the page has its permission.
func (s *Circuits) Probes(c *Call) (calls, permission bool) {
	s.each(c, func(k *circuit) {
		if k.probe == c {
			calls = calls || k.rule.scope <= Page
			permission = permission || k == &c.page.permission
		}
	})
	return calls, permission
}

// End reports a call's result, and returns the circuits that have opened and closed.
func (s *Circuits) End(now time.Time, c *Call, r Report) (list []Change) {
	p := c.page
	delete(p.calls, c)
	s.calls--
	note := func(k *circuit, open, changed bool) {
		if changed {
			list = append(list, Change{Scope: k.rule.scope, Open: open, Page: p.name, To: c.to})
		}
	}
	fail := func(k *circuit) { note(k, true, k.fail(now, c, r.Hint, s.random)) }
	answer := func(k *circuit) { note(k, false, k.answer(c)) }
	failPerson := func() {
		k, opened := s.people.fail(now, c)
		note(k, true, opened)
	}
	late := p.answered.After(c.began) // it says less than that answer

	if (r.Answer == Missing || r.Answer == NoCall) && s.unheard.Equal(c.began) { // it asked nobody
		s.Heard()
	}
	if r.Answer.IsFromAPI() {
		s.Heard()
		p.answered, s.answered = later(p.answered, c.began), later(s.answered, c.began)
		answer(&s.shared[API])
		answer(&s.shared[Network])
		if r.Answer != Throttled {
			answer(&s.shared[App])
			answer(&p.sick)
		}
	}
	switch r.Answer {
	case Accepted:
		answer(&p.permission)
		if s.people.accept(c) {
			list = append(list, Change{Scope: Person, Page: p.name, To: c.to})
		}
	case Works:
		answer(&p.permission)
	case Bad:
		failPerson()
	case Throttled:
		fail(&s.shared[App])
		if !s.IsOpen() && (!p.sick.open || p.sick.probe == c) {
			p.sick.row.add(now, c)
			note(&p.sick, true, p.sick.trip(now, r.Hint, s.random))
		}
	case Failed, Unreached:
		if p.sick.open || !late && !s.IsOpen() {
			fail(&p.sick)
		}
		if probe := s.shared[API].probe == c || s.shared[Network].probe == c; probe || !s.answered.After(c.began) {
			fail(&s.shared[API])
			if r.Answer == Unreached {
				fail(&s.shared[Network])
			}
		}
		if !s.IsOpen() && !p.sick.open {
			failPerson()
		}
	case Denied:
		if p.permission.open || s.isDenied(now, c) {
			note(&p.permission, true, s.refuse(now, c, &s.rules[Permission], r.Code))
		} else if !p.sick.open {
			failPerson()
		}
	case Refused, Missing:
		note(&p.permission, true, s.refuse(now, c, &s.rules[Permission], r.Code))
	case Blocked:
		note(&p.permission, true, s.refuse(now, c, &s.rules[Block], r.Code))
	case Answered, NoCall:
	}
	s.each(c, func(k *circuit) { k.end(c) })
	for _, change := range list {
		if change.Open && change.Scope < Page {
			s.excuse(s.shared[change.Scope].row.first)
		} else if !change.Open && (change.Scope == Permission || change.Scope == Block) {
			p.resumed = now
		}
	}
	return list
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// excuse closes the circuits of pages that failed only since the API does, or hang.
func (s *Circuits) excuse(since time.Time) {
	for _, p := range s.pages {
		if p.sick.row.n == 0 || !p.sick.row.first.Before(since) {
			p.sick.reset()
		}
	}
}

// refuse opens a page's permission, unless the answer is of a time before it was resumed.
func (s *Circuits) refuse(now time.Time, c *Call, why *rule, code string) (opened bool) {
	p := c.page
	if p.resumed.After(c.began) {
		return false
	}
	p.code, p.permission.rule = code, why
	return p.permission.fail(now, c, 0, s.random)
}

// isDenied notes that something is not allowed to a person, and reports whether it is to
// the page: where a second person gets it too, by a later call, and nobody was sent
// anything between. A person who failed before says nothing.
func (s *Circuits) isDenied(now time.Time, c *Call) bool {
	row, began := &c.page.permission.row, time.Time{}
	if row.n > 0 {
		began = row.first
	}
	if t := s.people.of(c.page.name, c.to, c.class); t != nil && t.row.n > 0 && (row.n == 0 || t.row.first.Before(began)) {
		return false
	}
	row.add(now, c)
	return len(row.people) > 1 && c.began.After(began)
}

// Check opens the circuits of pages whose calls hang, and forgets pages without calls for
// long. Call it once a second.
func (s *Circuits) Check(now time.Time) (list []Change) {
	for i := range s.shared {
		if k := &s.shared[i]; k.open && s.calls == 0 && k.isOld(now) {
			k.reset()
		}
	}
	for name, p := range s.pages {
		if len(p.calls) == 0 && p.sick.isIdle(now) && p.permission.isIdle(now) {
			delete(s.pages, name)
			continue
		}
		if p.sick.open || len(p.calls) < hungCalls {
			continue
		}
		if hung := s.unanswered(p, p.answered, now.Add(-hungTime)); hung.n >= hungCalls && len(hung.events) > 1 {
			list = append(list, Change{Scope: Page, Open: p.sick.trip(now, 0, s.random), Page: name})
		}
	}
	s.people.sweep(now)
	return list
}

// unanswered are the calls of a page that began in a time, and are no probes.
func (s *Circuits) unanswered(p *pageCircuits, after, until time.Time) (calls row) {
	for c := range p.calls {
		if !c.began.After(after) || c.began.After(until) {
			continue
		}
		if probe, _ := s.Probes(c); !probe {
			calls.add(c.began, c)
		}
	}
	return calls
}

// Silent reports whether no call is answered any more, for so long that another replica
// may fare better. It looks at the calls that began after the last answered one. The calls
// of a page that is sick do not count, nor do probes.
func (s *Circuits) Silent(now time.Time) bool {
	calls, pages, people, first := 0, 0, 0, now
	for _, p := range s.pages {
		if len(p.calls) == 0 || p.sick.open {
			continue
		}
		of := s.unanswered(p, s.answered, now)
		if of.n == 0 {
			continue
		}
		pages++
		calls += of.n
		if len(of.events) > 1 { // one may hang for everybody
			people += len(of.people)
		}
		if of.first.Before(first) {
			first = of.first
		}
	}
	d := now.Sub(first)
	return (pages > 1 || people >= silentPeople) && (d >= silence || d >= silenceMany && calls >= manyCalls)
}

// Unheard returns the time for which calls have been made and none was answered.
func (s *Circuits) Unheard(now time.Time) time.Duration {
	if s.unheard.IsZero() {
		return 0
	}
	return now.Sub(s.unheard)
}

// Heard notes that the API answers.
func (s *Circuits) Heard() { s.unheard = time.Time{} }

// Doubt has pages probed that this replica may not have sent for lately, and persons on
// them: while another did, they may have become well. A failure of a moment ago, and a page
// that Meta has blocked, is not asked again.
func (s *Circuits) Doubt(now time.Time, isOurs func(page string) bool) {
	for name, p := range s.pages {
		if isOurs(name) && p.permission.rule.scope == Permission {
			p.permission.doubt(now)
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
			p.sick.reset()
			p.permission.reset()
		}
	}
	s.people.forget(isGone)
}

// IsOpen reports whether the API as a whole takes no calls.
func (s *Circuits) IsOpen() bool {
	return slices.ContainsFunc(s.shared[:], func(k circuit) bool { return k.open })
}

// IsSick reports whether a page is sick.
func (s *Circuits) IsSick(name string) bool {
	p := s.pages[name]
	return p != nil && p.sick.open
}

// Open returns the numbers of pages that are sick, pages that are suspended, and people
// who failed.
func (s *Circuits) Open() (sick, suspended, people int) {
	for _, p := range s.pages {
		if p.sick.open {
			sick++
		}
		if p.permission.open {
			suspended++
		}
	}
	return sick, suspended, len(s.people.list)
}

// SuspendedPage is a page whose permission is open.
type SuspendedPage struct {
	Page    string    `json:"page"`
	Code    string    `json:"code"`     // the API's answer; empty: there is no token for the page
	Since   time.Time `json:"since"`    // when this replica saw it
	ProbeAt time.Time `json:"probe_at"` // when the next message is let through
}

// Suspended returns at most limit suspended pages, the longest suspended first.
func (s *Circuits) Suspended(limit int) []SuspendedPage {
	list := []SuspendedPage{}
	for name, p := range s.pages {
		if p.permission.open {
			list = append(list, SuspendedPage{Page: name, Code: p.code, Since: p.permission.since, ProbeAt: p.permission.until})
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
	if p == nil || !p.permission.open {
		return false
	}
	p.permission.reset()
	p.resumed = now
	return true
}

// TellPage returns why a page is suspended and when it is probed. It reports whether core
// is to be told that now, and takes it as told.
func (s *Circuits) TellPage(now time.Time, name string) (code string, until time.Time, tell bool) {
	p := s.pages[name]
	if p == nil || !p.permission.open {
		return "", time.Time{}, false
	}
	return p.code, p.permission.until, p.permission.tell(now)
}
