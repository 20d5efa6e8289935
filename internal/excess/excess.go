// Package excess is the excess map: it answers when the next message of a page
// may be sent, and remembers which pages are in excess, their calls in flight and
// their limits. The caller is the only sender of the page.
//
//  1. Calls are sent at an even pace (GCRA), just below the page's limit: at first
//     the configured one, of which no limiter that counts by the second refuses any.
//  2. Calls below the limit of the last second as a whole go ahead of that, so
//     that the copies of an event leave at once. Their refusals tell how many may.
//  3. A refusal closes the page: its limit is now the number of calls that passed in
//     the second before the refused one, at least half of the limit before.
//  4. A closed page pauses until its last second has room, and then for a tenth of
//     the time for which nothing passed, a minute at most.
//  5. Refusals of calls that were under way lower the pace to the calls that passed
//     beside them, down to half of the limit.
//  6. The first call sent since the refusal that passes opens the page.
//  7. The pace then shows the limit. Where nothing passed for a second it does not:
//     the page took nothing at all.
//  8. While messages wait the pace grows along a curve as TCP CUBIC's (RFC 9438):
//     fast to the limit, slowly past it, ever faster beyond, until a refusal.
//  9. Growth that cost many refusals is slower the next time, because the platform
//     may count refused calls.
//  10. A refusal that asks for a longer pause gets it, a minute at most, and then one call
//     asks again.
//
// The two states of a page:
//
//	     ┌──────┐  refusal: 3           ┌────────┐
//	8 ┌─▶│ open │ ────────────────────▶ │ closed │◀─┐ refusal: 4, 5
//	  └──│      │ ◀──────────────────── │        │──┘
//	     └──────┘  a call passes: 6, 7  └────────┘
//
// Bound: in any T seconds, T a whole number, a page is sent at most
// 0.985 × limit × (T + 0.015) + 1 calls, or, if that is more, T times 0.985 × limit
// rounded up. A shorter time may hold a whole second's calls.
//
// It goes back to ChatClub's excess map, whose pages had a counter of refused
// messages and no pace. Every sender then probes on its own, which costs several
// refusals for each message at more than a few senders.
package excess

import "time"

// Result is the outcome of a call, as far as its page's limit is concerned.
type Result uint8

// The results of a call.
const (
	Accepted Result = iota + 1 // it counted against the limit and was let through
	Refused                    // the page's limit refused it
	Other                      // it says nothing about the limit
)

// Key is the unit in which the platform counts sends: a page and a quota class.
type Key struct {
	Page  string `json:"page"`
	Class string `json:"class"`
}

// Permit allows one call, whose result is told to Done.
type Permit struct {
	page  *pagePace
	at    time.Time
	ahead bool // of the pace, in a burst
	probe bool
}

// Probe reports whether the call finds out whether a closed page takes calls again.
func (t Permit) Probe() bool { return t.probe }

const (
	// forget is the time after which an idle page is forgotten that has nothing to
	// remember: longer than answers take. It is also the period of the search.
	forget = 10 * time.Second
	// full is the usage of a quota, in percent, from which on the pace does not grow for
	// fullTime. A page at its limit, whose usage is counted by the second, reaches it in
	// every second.
	full     = 97
	fullTime = 1200 * time.Millisecond
	// longestHint bounds the pause that the platform asks for: dayPause, after which a page
	// that takes nothing at all is asked, too. A wrong header costs no more than that.
	longestHint = dayPause
	// remember is the time for which a lower limit is remembered: some evenings'
	// pause, less than a day, after which the platform may have changed its mind.
	remember = 6 * time.Hour
)

// Map is the excess map of one replica. Make one with New. Not safe for concurrent
// use: it belongs to one owner, such as an event loop.
type Map struct {
	limit func(Key) float64
	pages map[Key]*pagePace
	swept time.Time
}

// pagePace is the pace of one page and class, and its calls in flight.
type pagePace struct {
	pace
	inFlight int
	entered  time.Time // excess; zero: it is not in excess
}

// New returns an empty map. limit returns the calls a second that the platform is said
// to allow.
func New(limit func(Key) float64) *Map {
	return &Map{limit: limit, pages: make(map[Key]*pagePace)}
}

func (m *Map) page(k Key) *pagePace {
	p := m.pages[k]
	if p == nil {
		top := headroom * m.limit(k)
		p = &pagePace{pace: pace{top: top, limit: top, burst: top}}
		m.pages[k] = p
	}
	return p
}

// Relimit takes note of another limit of a page. A lower one that was learned holds.
func (m *Map) Relimit(now time.Time, k Key) {
	if p := m.pages[k]; p != nil {
		p.relimit(now, headroom*m.limit(k))
	}
}

// Offer asks for one call. A wait of 0 counts it, and Done must be told. since is the
// time at which the caller became the only sender of the page: in the second after it
// nothing goes ahead of the pace, because another may have sent before.
func (m *Map) Offer(now time.Time, k Key, since time.Time) (wait time.Duration, t Permit) {
	p := m.page(k)
	if p.sends.epoch.IsZero() {
		p.begin(now, since)
	}
	wait, ahead := p.wait(now)
	if wait == 0 {
		p.inFlight++
		p.send(now)
		t = Permit{page: p, at: now, ahead: ahead, probe: !p.open()}
	}
	return wait, t
}

// Done reports the result of a permit's call. Call it once for each.
func (m *Map) Done(now time.Time, t Permit, r Result) {
	t.page.inFlight--
	switch r {
	case Accepted:
		t.page.accepted(now, t)
	case Refused:
		t.page.refused(now, t)
	case Other:
	}
}

// Hint reports the hints of an answer, whose result was told to Done: the usage of the
// page's fullest quota, in percent, and after a refusal the pause that the platform asks
// for. 0: it says nothing. Hint returns for how long the page then waits as the platform
// asked.
func (m *Map) Hint(now time.Time, t Permit, usage int, pause time.Duration) (wait time.Duration) {
	if usage >= full {
		t.page.full = now
	}
	if pause <= 0 || t.ahead || t.page.open() {
		return 0
	}
	until := now.Add(pause)
	if most := t.page.cut.Add(longestHint); until.After(most) { // calls that were under way make it no longer
		until = most
	}
	t.page.asked = later(t.page.asked, until)
	t.page.due = later(t.page.due, t.page.asked)
	return max(0, t.page.asked.Sub(now))
}

// EndHints ends the waits that the platform asked a page for. The next call of each class
// asks whether the page takes calls, as soon as its last second has room. Limits that were
// learned hold. EndHints reports whether the page waited.
func (m *Map) EndHints(now time.Time, page string) (waited bool) {
	for k, p := range m.pages {
		if k.Page == page && p.asked.After(now) {
			p.asked, waited = now, true
			p.due = now.Add(p.sends.room(now, p.rate()))
		}
	}
	return waited
}

// Next returns the time until a page's next call is allowed, as far as it is known now.
func (m *Map) Next(now time.Time, k Key) time.Duration {
	p := m.pages[k]
	if p == nil || p.sends.epoch.IsZero() {
		return 0
	}
	wait, _ := p.wait(now)
	return wait
}

// Enter puts a page in excess: it has more messages than it may send.
func (m *Map) Enter(now time.Time, k Key) {
	if p := m.page(k); p.entered.IsZero() {
		p.entered = now
	}
}

// Leave ends a page's excess.
func (m *Map) Leave(k Key) {
	if p := m.pages[k]; p != nil {
		p.entered = time.Time{}
	}
}

// Forget drops the pages that another replica sends for from now on, but for their
// limits, and for excess: a caller that gives a page up calls Leave, and the page's next
// claim may have called Enter by now.
func (m *Map) Forget(now time.Time, gone func(page string) bool) {
	for k, p := range m.pages {
		if !gone(k.Page) {
			continue
		}
		delete(m.pages, k)
		// Calls in flight teach the old page, which is nobody's.
		fresh := m.page(k)
		fresh.due, fresh.entered = now, p.entered
		switch {
		case p.learned():
			fresh.pace = pace{top: p.top, limit: p.limit, burst: p.burst, due: now}
		case p.entered.IsZero():
			delete(m.pages, k)
		}
	}
}

// Sweep forgets idle pages. Call it once a second.
func (m *Map) Sweep(now time.Time) {
	if now.Sub(m.swept) < forget {
		return
	}
	m.swept = now
	for k, p := range m.pages {
		idle := now.Sub(p.due)
		if p.inFlight == 0 && p.entered.IsZero() && idle >= forget && (!p.learned() || idle >= remember) {
			delete(m.pages, k)
		}
	}
}

// View is the knowledge about a page, for people to look at.
type View struct {
	Since    time.Time // in excess; zero: it is not
	Asked    time.Time // until then the platform asked for no calls; zero, or in the past: it does not
	Pace     float64   // calls a second
	InFlight int
}

// View returns the View of a page. That of an unknown page is zero.
func (m *Map) View(k Key) View {
	p := m.pages[k]
	if p == nil {
		return View{}
	}
	return View{Since: p.entered, Asked: p.asked, Pace: p.rate(), InFlight: p.inFlight}
}

// InExcess reports whether a page is in excess.
func (m *Map) InExcess(k Key) bool { return !m.View(k).Since.IsZero() }

// ShutFor returns how much longer a closed page takes no calls.
func (m *Map) ShutFor(now time.Time, k Key) time.Duration {
	if p := m.pages[k]; p != nil && !p.open() {
		return max(0, p.due.Sub(now))
	}
	return 0
}

// Len returns the number of pages that are remembered, and of those in excess.
func (m *Map) Len() (all, excess int) {
	for _, p := range m.pages {
		if !p.entered.IsZero() {
			excess++
		}
	}
	return len(m.pages), excess
}
