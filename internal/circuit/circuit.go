package circuit

import "time"

// Scope is the part of the world that a circuit stands for.
type Scope int

// The scopes, from the widest to the narrowest.
const (
	API        Scope = iota // takes no calls, or does not answer them
	Network                 // there is no connection to the API
	App                     // is throttled on every page
	Page                    // its calls fail, hang, or are alone told that the app is throttled
	Permission              // the page's token or permission is refused or missing
	Block                   // the page is blocked by Meta for some time
	Person                  // on a page, for one class of messages
	scopes
)

// rule is a row of the table: when a circuit opens, how long it pauses before a probe,
// and what its messages do meanwhile.
type rule struct {
	scope    Scope
	failures int           // opens after so many in a row,
	lasting  time.Duration // or after so long of nothing else; 0: never for that.
	people   int           // In both cases they are of so many people,
	events   int           // events
	pages    int           // and pages

	least, most time.Duration // pause before a probe, which doubles with each that fails
	shared      bool          // by all replicas: the pause is partly by chance
	patience    time.Duration // messages wait for so long, and are dead then
	others      bool          // a page that has not failed may probe at once
}

// forever is a patience that does not end before MESSAGE_TTL.
const forever = 1 << 62

// table has a rule for each scope; attempts is the number that a message has.
//
// API: at a failure rate of one half 30 in a row happen once in 10^9 calls. In a quiet
// deployment, where nobody else is sent to for a while, some people may be those who
// cannot be: so six, of two pages. Where there is no connection no person is the cause.
// The pause is short, because a call in 1.5 s harms nobody, and the end is noticed soon.
// App: a page that alone is told so may be the only one.
// Page: one person who cannot be sent to is no sick page, and two may meet by chance. One
// event that fails for everybody may itself be the cause. An app that calls on for long
// without success may be blocked: so half a minute.
// Permission: the pages file is often written after the page was connected, or a moment
// before the platform takes the new token.
// Block: Meta lifts blocks within hours, and every call against one prolongs it.
// Person: as many failures as tries of one message.
func table(attempts int) [scopes]rule {
	return [scopes]rule{
		API:        {failures: 30, lasting: 5 * time.Second, people: 6, pages: 2, least: time.Second, most: 3 * time.Second, shared: true, others: true, patience: forever},
		Network:    {failures: 30, lasting: 5 * time.Second, people: 3, least: time.Second, most: 3 * time.Second, shared: true, others: true, patience: forever},
		App:        {failures: 2, pages: 2, least: time.Second, most: 30 * time.Second, shared: true, patience: forever},
		Page:       {failures: 10, lasting: 5 * time.Second, people: 3, events: 2, least: time.Second, most: 30 * time.Second, patience: forever},
		Permission: {failures: 1, least: 10 * time.Second, most: 4 * time.Hour, patience: 5 * time.Minute},
		Block:      {failures: 1, least: 30 * time.Minute, most: 4 * time.Hour},
		Person:     {failures: attempts, least: 5 * time.Minute, most: time.Hour},
	}
}

const (
	// longestHint bounds the pause that the platform asks for.
	longestHint = time.Hour
	// soon is the pause before the next look whether a probe is back.
	soon = 250 * time.Millisecond
	// rowGap ends a row of failures: no message waits longer for its next call.
	rowGap = 2 * time.Minute
	// rowSize bounds the names that a row remembers.
	rowSize = 64
	// doubtTime is the time after its last failure from which a circuit may be wrong: core
	// has a page that is suspended tried as often.
	doubtTime = 5 * time.Minute
	// forget is the least time for which failures are remembered after the last one.
	forget = 10 * time.Minute
)

// circuit is one circuit. It is closed at first.
type circuit struct {
	rule  *rule
	row   row
	open  bool
	since time.Time
	until time.Time // the next probe
	pause time.Duration
	probe *Call     // under way; nil: none
	told  time.Time // when core was told last; zero: never
}

// fail adds a failed call to the row, and opens the circuit if that means so. While it is
// open only a probe's failure makes the pause longer: calls from before fail too.
func (k *circuit) fail(now time.Time, c *Call, hint time.Duration, random func() float64) (opened bool) {
	k.row.add(now, c)
	if k.open && k.probe != c || !k.open && !k.row.meets(k.rule) {
		return false
	}
	return k.trip(now, hint, random)
}

// trip opens the circuit, or makes its pause longer. hint is the pause that the
// platform asks for; 0: none.
func (k *circuit) trip(now time.Time, hint time.Duration, random func() float64) (opened bool) {
	if opened = !k.open; opened {
		k.open, k.since = true, now
	}
	k.pause = min(max(2*k.pause, k.rule.least), k.rule.most)
	if hint > 0 {
		k.pause = min(hint, longestHint)
	}
	k.until = now.Add(k.pause)
	if k.rule.shared && hint == 0 {
		k.until = now.Add(time.Duration((0.5 + random()) * float64(k.pause)))
	}
	return opened
}

// answer ends the row of failures. The answer to a probe closes the circuit; one to a
// call from before it opened does not.
func (k *circuit) answer(c *Call) (closed bool) {
	if k.open && k.probe != c {
		return false
	}
	closed = k.open
	k.reset()
	return closed
}

// reset closes the circuit and forgets its failures.
func (k *circuit) reset() { *k = circuit{rule: k.rule} }

// begin makes a call the probe, if one is due.
func (k *circuit) begin(c *Call) {
	if k.open && k.probe == nil {
		k.probe = c
	}
}

// doubt has the next call probe, unless one failed a moment ago.
func (k *circuit) doubt(now time.Time) {
	if k.open && now.Sub(k.row.last) >= doubtTime {
		k.until = now
	}
}

// end makes room for the next probe.
func (k *circuit) end(c *Call) {
	if k.probe == c {
		k.probe = nil
	}
}

// hold returns the decision about messages, and the time for which it is sure.
func (k *circuit) hold(now time.Time) (Hold, time.Duration) {
	left := k.until.Sub(now)
	switch {
	case !k.open, left <= 0 && k.probe == nil:
		return Pass, 0
	case k.probe == nil && now.Sub(k.since) >= k.rule.patience:
		return Dead, left
	}
	return Wait, max(left, soon)
}

// isIdle reports whether there is nothing that must be remembered.
func (k *circuit) isIdle(now time.Time) bool { return !k.open && k.row.n == 0 || k.isOld(now) }

// isOld reports whether nothing failed, and no probe was due, for long.
func (k *circuit) isOld(now time.Time) bool {
	last := k.row.last
	if k.until.After(last) {
		last = k.until
	}
	return now.Sub(last) > max(forget, k.rule.most)
}

// tellAgain is the least time between two reports to core. It lets copies through now and
// then, to find out.
const tellAgain = 10 * time.Second

// tell reports whether core is to be told now that the circuit is open, and takes it as
// told.
func (k *circuit) tell(now time.Time) bool {
	if !k.open || now.Sub(k.told) < tellAgain {
		return false
	}
	k.told = now
	return true
}

// row is failures without an answer in between. The zero value is none.
type row struct {
	n                     int
	first, last           time.Time
	people, events, pages map[string]int // failures of each, of rowSize of them at most
}

func (r *row) add(at time.Time, c *Call) {
	if r.n == 0 || at.Sub(r.last) > rowGap {
		*r = row{first: at, people: make(map[string]int), events: make(map[string]int), pages: make(map[string]int)}
	}
	r.n++
	r.last = at
	if at.Before(r.first) {
		r.first = at
	}
	count(r.people, c.page.name+"/"+c.to)
	count(r.events, c.event)
	count(r.pages, c.page.name)
}

func count(names map[string]int, name string) {
	if _, known := names[name]; known || len(names) < rowSize {
		names[name]++
	}
}

// meets reports whether the failures mean by a rule that something is down.
func (r *row) meets(to *rule) bool {
	return len(r.people) >= to.people && len(r.events) >= to.events && len(r.pages) >= to.pages &&
		(r.n >= to.failures || to.lasting > 0 && r.last.Sub(r.first) >= to.lasting)
}
