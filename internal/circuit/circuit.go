// Package circuit finds out what cannot be sent to: a person, an event, a page or the whole API.
// While one of these is judged its messages wait, or are dead, as the table says. All other
// messages are sent as usual. An event is one message of a user or a bot, which has a copy for
// each recipient.
//
// # Rule
//
//  1. A failed call is a witness against everything wider than its person that may be the
//     cause: the event, the page, its permission, Meta's block of it, the app, the network or
//     the API.
//  2. It is no witness if its person, or its event, failed before while the page accepted
//     others: who is known to fail is no news. One late answer to an older call does not
//     count as that where two people more are refused since than are reached.
//  3. It is no witness against what has served another call since it began.
//  4. A scope is judged when its witnesses are of enough different people, events and pages:
//     each number in the scope's row of the table is reached.
//  5. Before that the calls under way are waited for, because one that is served would
//     refute the witnesses: for as long as answers take, three seconds at most.
//  6. Each call that a scope serves clears its witnesses, and ends its verdict.
//  7. While a scope is judged one message at a time is sent to it, as a probe. The pause
//     before a probe doubles with each that fails.
//  8. A stranger is a person who is no witness, with an event that is none. A stranger's
//     message need not wait for the pause: so a wrong verdict ends with the first message to
//     somebody who is well. One at a time may go so.
//  9. A failure counts against its person as well, except while a wider scope is judged that
//     may be the cause. Those who failed since that began are cleared.
//  10. An event that nobody got, and that failed for three people, does not count against
//     people. If it fails for three people again, each time after its page has accepted more
//     calls of other events than failed, counted from its first failure, it is at fault
//     itself, whatever the code: its remaining copies are dead.
//
// A throttle of the app is no failure. If one page alone is told of it, that page waits for as
// long as the platform asks, a minute at most. With a second page that is told so all pages
// wait, but for strangers.
package circuit

import "time"

// Scope is the part of the world that a circuit stands for.
type Scope int

// The scopes, from the widest to the narrowest.
const (
	API        Scope = iota // takes no calls, or does not answer them
	Network                 // there is no connection to the API
	App                     // is throttled on every page
	Page                    // its calls fail or hang, or it alone is told that the app is throttled
	Permission              // the page's token or permission is refused
	Block                   // the page is blocked by Meta for some time
	Event                   // its copies fail for several people, while other events are accepted
	Person                  // cannot be reached on a page, by one class of messages: texts, or media
	scopes
)

// rule is a row of the table. A field that is zero asks for nothing.
type rule struct {
	scope    Scope
	people   int // the least number of different people among the witnesses,
	events   int // of different events,
	pages    int // and of different pages
	failures int // of one person: the number of failed calls

	least, most time.Duration // shortest and longest pause before a probe
	shared      bool          // each replica finds it out for itself: the pause is partly random, so that they do not probe together
	longest     time.Duration // the longest pause that the platform may ask for
	probes      int           // a message is dead after so many failed probes
	patience    time.Duration // that took so long at least
	strangers   bool          // their messages may probe at once
}

// forever is a patience that does not end before MESSAGE_TTL.
const forever = 1 << 62

// table has a rule for each scope. attempts is the number of tries of one message.
//
// API: with little traffic the only people who are sent to may all be unreachable. So six
// people of two pages are needed. A call each two seconds harms nobody, and shows the end soon.
// Network: a missing connection is never a person's fault. So three people are enough.
// App: if only one page is told, perhaps only that page is throttled.
// Page: two people who cannot be reached may be a coincidence, and one event that fails for
// everybody may be the cause. Meta may block an app that keeps calling without success: so the
// pause grows to half a minute.
// Permission: one person may have blocked the page, or be no tester of the app. A token that is
// refused may be accepted a moment later, so the first probes come soon.
// Block: the content of one event may be the cause. Meta lifts blocks within hours.
// Event: two failures may be a coincidence.
// Person: as many failures as one message has tries.
func table(attempts int) [scopes]rule {
	const page = 5 * time.Minute // patience with a page that may not send
	return [scopes]rule{
		API:        {people: 6, pages: 2, least: time.Second, most: 3 * time.Second, shared: true, patience: forever, strangers: true},
		Network:    {people: 3, least: time.Second, most: 3 * time.Second, shared: true, patience: forever, strangers: true},
		App:        {pages: 2, least: time.Second, most: 30 * time.Second, shared: true, longest: time.Minute, patience: forever, strangers: true},
		Page:       {people: 3, events: 2, least: time.Second, most: 30 * time.Second, longest: time.Minute, patience: forever, strangers: true},
		Permission: {people: 2, least: time.Second, most: 4 * time.Hour, probes: 3, patience: page, strangers: true},
		Block:      {events: 2, least: time.Second, most: 4 * time.Hour, probes: 3, patience: page, strangers: true},
		Event:      {people: 3},
		Person:     {failures: attempts, least: 5 * time.Minute, most: time.Hour},
	}
}

const (
	// longestAnswer bounds the time that answers are said to take: nearly all of Messenger's
	// take less. A call that takes longer hangs.
	longestAnswer = 3 * time.Second
	// manyFailures is a number that at a failure rate of one half come in a row once in 10^9 calls.
	manyFailures = 30
	// soon is the pause before the next look whether a probe is back.
	soon = 250 * time.Millisecond
	// strangerTime is the time between the first two strangers' probes. It doubles with each that
	// fails: a page that is really sick, and written to by many, has few failed calls.
	strangerTime = time.Second
	// rowSize bounds the names that a row remembers: more people than a page probes with before
	// the pause is at its longest.
	rowSize = 1 << 10
	// doubtTime is the time after its last failure from which a circuit may be wrong.
	doubtTime = 5 * time.Minute
	// forget is the least time for which failures are remembered after the last one.
	forget = 10 * time.Minute
	// tellAgain is the least time between two reports to core. It lets copies through now
	// and then, to find out.
	tellAgain = 10 * time.Second
)

// circuit is the state of one scope. It is closed at first: not judged.
type circuit struct {
	rule    *rule
	row     row           // the witnesses, and while it is open all that failed
	met     time.Time     // since when they are enough; zero: they are not
	pending int           // calls that were under way then, and may still refute them
	hint    time.Duration // the longest pause that they were asked for
	refuted time.Time     // when the scope served somebody last

	open    bool
	code    string // of the answer that opened it
	since   time.Time
	until   time.Time // the next probe
	pause   time.Duration
	refused int           // probes
	probe   *Call         // under way; nil: none
	strange *Call         // a stranger's, beside it; nil: none
	gap     time.Duration // least time between the probes of two strangers
	asked   time.Time     // when the latest of those began
	sure    bool          // the API has said the same to a question
	told    time.Time     // when core was told last; zero: never
}

// isServed reports whether the scope has served somebody since a call began.
func (k *circuit) isServed(c *Call) bool { return k.refuted.After(c.began) }

// add notes a failed call: a witness or, while the circuit is open, whoever failed.
func (k *circuit) add(now time.Time, c *Call, r Report, random func() float64) {
	k.row.add(now, c)
	switch {
	case !k.open:
		k.code, k.hint = r.Code, max(k.hint, r.Hint)
	case k.strange == c:
		k.gap = min(max(2*k.gap, strangerTime), k.rule.most)
	case k.probe == c:
		k.refused++
		k.trip(now, r.Hint, random)
	}
}

// judge opens the circuit if there are enough witnesses, and the calls that were under way
// when there were have ended, or had the time that answers take. Many failures of several
// pages wait for nothing: each call more uses up an attempt. ended is a call that has
// ended now; nil: none.
func (k *circuit) judge(now time.Time, ended *Call, underWay int, s *Circuits) (opened bool) {
	switch {
	case k.open || !k.row.meets(k.rule):
		return false
	case k.met.IsZero():
		k.met, k.pending = now, underWay
	case ended != nil && !ended.hangs && !ended.began.After(k.met):
		k.pending--
	}
	isSure := k.rule.scope < Page && k.row.n >= manyFailures
	return (isSure || k.pending <= 0 || now.Sub(k.met) >= s.answerTime) && k.trip(now, k.hint, s.random)
}

// trip opens the circuit, or makes its pause longer. hint is the pause that the
// platform asks for; 0: none.
func (k *circuit) trip(now time.Time, hint time.Duration, random func() float64) (opened bool) {
	if opened = !k.open; opened {
		k.open, k.since = true, now
	}
	k.pause = min(max(2*k.pause, k.rule.least), k.rule.most)
	if hint = min(hint, k.rule.longest); hint > 0 {
		k.pause = hint
	}
	k.until = now.Add(k.pause)
	if k.rule.shared && hint == 0 {
		k.until = now.Add(time.Duration((0.5 + random()) * float64(k.pause)))
	}
	return opened
}

// refute notes that the scope has served a call. That closes an open circuit unless the call
// is older than all that failed.
func (k *circuit) refute(now time.Time, c *Call) (closed bool) {
	k.refuted = now
	if k.row.n == 0 && !k.open || k.open && c.began.Before(k.row.began) {
		return false
	}
	closed = k.open
	k.reset()
	return closed
}

// reset closes the circuit and forgets the witnesses.
func (k *circuit) reset() { *k = circuit{rule: k.rule, refuted: k.refuted} }

// begin makes a call the probe, if one is due, or the stranger's beside that.
func (k *circuit) begin(now time.Time, c *Call, stranger bool) {
	switch {
	case !k.open:
	case k.probe == nil && !now.Before(k.until):
		k.probe = c
	case stranger:
		k.strange, k.asked = c, now
	}
}

// end makes room for the next probe.
func (k *circuit) end(c *Call) {
	if k.probe == c {
		k.probe = nil
	}
	if k.strange == c {
		k.strange = nil
	}
}

// doubt has the next call probe, unless one failed a moment ago.
func (k *circuit) doubt(now time.Time) {
	if k.open && now.Sub(k.row.last) >= doubtTime {
		k.until = now
	}
}

// hold returns the decision about messages, and the time for which it is sure: not for long
// where a stranger may be among the page's others.
func (k *circuit) hold(now time.Time, stranger bool) (Hold, time.Duration) {
	left := k.until.Sub(now)
	switch {
	case !k.open, left <= 0 && k.probe == nil, stranger && k.rule.strangers && k.strange == nil && now.Sub(k.asked) >= k.gap:
		return Pass, 0
	case k.probe == nil && now.Sub(k.since) >= k.rule.patience && k.refused >= k.rule.probes:
		return Dead, left
	case k.rule.strangers && k.rule.scope >= Page && !k.row.isFull():
		left = min(left, soon)
	}
	return Wait, max(left, soon)
}

// isIdle reports whether there is nothing to remember.
func (k *circuit) isIdle(now time.Time) bool { return !k.open && k.row.n == 0 || k.isOld(now) }

// isOld reports whether nothing failed, and no probe was due, for long.
func (k *circuit) isOld(now time.Time) bool {
	last := k.row.last
	if k.until.After(last) {
		last = k.until
	}
	return now.Sub(last) > max(forget, k.rule.most)
}

// tell reports whether core is to be told now that the circuit is open, and takes it as
// told.
func (k *circuit) tell(now time.Time) bool {
	if !k.open || now.Sub(k.told) < tellAgain {
		return false
	}
	k.told = now
	return true
}

// row is failures without anything served in between. The zero value is none.
type row struct {
	n                     int
	began                 time.Time // of the oldest call
	first, last           time.Time // failures
	people, events, pages map[string]int
	classes               map[string]int // of messages
}

func (r *row) add(at time.Time, c *Call) {
	if r.n == 0 {
		*r = row{began: c.began, first: at, people: make(map[string]int), events: make(map[string]int), pages: make(map[string]int), classes: make(map[string]int)}
	}
	r.n++
	r.last = at
	if c.began.Before(r.began) {
		r.began = c.began
	}
	count(r.people, c.page.name+"/"+c.to)
	count(r.events, c.event)
	count(r.pages, c.page.name)
	count(r.classes, string(c.class))
}

func count(names map[string]int, name string) {
	if _, known := names[name]; known || len(names) < rowSize {
		names[name]++
	}
}

// meets reports whether a row's witnesses are enough for a rule.
func (r *row) meets(to *rule) bool {
	return r.n > 0 && len(r.people) >= to.people && len(r.events) >= to.events && len(r.pages) >= to.pages
}

// isFull reports whether a row has as many names as it remembers: no stranger can be told.
func (r *row) isFull() bool {
	return len(r.people) >= rowSize || len(r.events) >= rowSize || len(r.pages) >= rowSize
}
