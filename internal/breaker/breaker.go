// Package breaker is a circuit breaker for calls to an API that serves many
// pages: it opens for one page that is sick, and for all of them only while the
// API itself takes no calls.
//
// # Algorithm
//
// A page's breaker opens after failures in a row of several recipients and events,
// or when calls for several events hang: one event that fails for everybody may
// itself be the cause. It also opens when the page is told that the app is throttled
// while another page is answered. The API's opens when two pages are told so, or one
// while no other is answered, or after failures in a row of several pages with no
// answer in between; of one page, where there was no connection. While a breaker is open one call at a time probes,
// after a pause that doubles with each failed probe. A probe's answer closes it;
// a call from before it opened does not. While the API's breaker is open, a page
// that is none of the failing or throttled ones may probe at once: where only those
// are sick, nobody else waits for them.
//
// A page that failed only since the API fails has no pause of its own. While the
// API's breaker is open its probe is the API's, and then it is probed at once. A
// page that was sick before keeps its pause.
package breaker

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Verdict is what a call says about the API.
type Verdict int

// The verdicts.
const (
	Answered  Verdict = iota // it answered about this message or page
	Failed                   // no answer in time, or an answer that says nothing
	Unreached                // no connection that lasted until an answer: hardly ever is a page the cause
	Throttled                // it refuses the whole app
	NoCall                   // nothing: there was no call
)

const (
	// A page is sick after pageRow failures in a row, or after pageTime of nothing
	// but failures, of pageRecipients in both cases: one person who cannot be sent
	// to is no sick page, and two may meet by chance.
	pageRow        = 10
	pageRecipients = 3
	pageTime       = 5 * time.Second
	// A page hangs when hungCalls of its calls wait for longer than hungTime,
	// longer than nearly all of Messenger's answers, and none was answered
	// meanwhile.
	hungCalls = 4
	hungTime  = 3 * time.Second
	// apiRow failures in a row mean that the API is down rather than that some
	// calls fail: at a failure rate of one half this many in a row happen once in
	// 10^9 calls. apiTime is how long fewer mean the same. In both cases they are
	// of several pages and of apiRecipients: a quiet deployment, where nobody else
	// is sent to for a while, can have some people who cannot be. Where there is no
	// connection no person is the cause, and pageRecipients of one page suffice.
	apiRow        = 30
	apiTime       = 5 * time.Second
	apiRecipients = 6
	// lately is how long ago another page's answer may be, for a throttle of the app
	// to concern one page only.
	lately = 5 * time.Second
	// silence is how long calls are in flight without any answer before the API
	// is silent; silenceMany with at least manyCalls of them. They are of several
	// pages, or of apiRecipients: one page that hangs is no silence of the API.
	silence     = 5 * time.Second
	silenceMany = 2 * time.Second
	manyCalls   = 20
	// forget is how long a page's failures are remembered after the last call.
	forget = 10 * time.Minute
)

// Call is one call that was begun.
type Call struct {
	page            *page
	recipient       string
	event           string
	began           time.Time
	probe, apiProbe bool
}

// Probe reports whether the call finds out whether a breaker can close.
func (c *Call) Probe() bool { return c.probe || c.apiProbe }

// page is what is known of a page that has calls in flight, or failed.
type page struct {
	circuit
	name     string
	failures row // by recipient
	events   row // the same, by event
	calls    map[*Call]struct{}
	answered time.Time
}

// fails reports whether the page's failures mean that it is sick.
func (p *page) fails() bool {
	return p.failures.mean(pageRow, pageTime, pageRecipients) && len(p.events.names) > 1
}

// well ends the page's failures.
func (p *page) well() { p.failures, p.events = row{}, row{} }

// answer is the time of a page's latest answer.
type answer struct {
	page string
	at   time.Time
}

// Breaker holds the breakers. Make one with New. Not safe for concurrent use.
type Breaker struct {
	random func() float64
	pages  map[string]*page
	calls  int

	api       circuit
	throttled bool
	failures  row       // by page
	people    row       // the same failures, by recipient
	unreached row       // of them those without a connection, by recipient
	quiet     time.Time // since when calls are in flight and none was answered
	answers   [2]answer // the latest, and the latest of another page
	refused   answer    // the latest answer that throttled the app
	alone     string    // the only page that was told so since the API's breaker is open; empty: none, or several
}

// New returns breakers that are closed. random is in [0, 1); nil: math/rand.
func New(random func() float64) *Breaker {
	if random == nil {
		random = rand.Float64
	}
	return &Breaker{random: random, pages: make(map[string]*page)}
}

// Wait is how long a call of the page must wait for the API; 0: not at all.
func (b *Breaker) Wait(now time.Time, page string) time.Duration {
	switch _, failing := b.failures.names[page]; {
	case !b.api.open || b.api.probing:
	case b.throttled && b.alone != "" && b.alone != page, !b.throttled && !failing && len(b.failures.names) < rowSize:
		return 0
	}
	return b.api.wait(now, b.random)
}

// PageWait is how long a call must wait because its page is sick; 0: not at all.
func (b *Breaker) PageWait(now time.Time, page string) time.Duration {
	p := b.pages[page]
	if p == nil || b.api.open && b.isOfOutage(p) {
		return 0
	}
	return p.wait(now, b.random)
}

// isOfOutage reports whether a page has failed only since the API fails.
func (b *Breaker) isOfOutage(p *page) bool {
	return p.failures.n > 0 && b.failures.n > 0 && !p.failures.first.Before(b.failures.first)
}

// closeAPI closes the API's breaker. Each page that failed only meanwhile is
// probed at once, because it may be sick besides.
func (b *Breaker) closeAPI(now time.Time) {
	for _, p := range b.pages {
		if b.isOfOutage(p) {
			p.circuit = circuit{open: p.open, until: now}
			p.well()
		}
	}
	b.api, b.throttled, b.alone = circuit{}, false, ""
	b.forgive()
}

// forgive ends the rows of failures.
func (b *Breaker) forgive() { b.failures, b.people, b.unreached = row{}, row{}, row{} }

// Begin begins a call, for which Wait and PageWait must have answered 0. End
// must be told.
func (b *Breaker) Begin(now time.Time, name, recipient, event string) *Call {
	p := b.pages[name]
	if p == nil {
		p = &page{name: name, calls: make(map[*Call]struct{}), answered: now}
		b.pages[name] = p
	}
	c := &Call{page: p, recipient: recipient, event: event, began: now, probe: p.open, apiProbe: b.api.open}
	p.probing = p.probing || c.probe
	b.api.probing = b.api.probing || c.apiProbe
	if len(p.calls) == 0 {
		p.answered = now
	}
	if b.calls == 0 {
		b.quiet = now
	}
	p.calls[c] = struct{}{}
	b.calls++
	return c
}

// Change is what a call changed.
type Change struct{ Opened, Closed, PageOpened, PageClosed bool }

// End tells how a call went.
func (b *Breaker) End(now time.Time, c *Call, v Verdict) (ch Change) {
	p := c.page
	delete(p.calls, c)
	b.calls--
	if c.probe {
		p.probing = false
	}
	if c.apiProbe {
		b.api.probing = false
	}
	wasOpen, pageWasOpen := b.api.open, p.open
	switch v {
	case Answered:
		b.quiet, p.answered = now, now
		if b.answers[0].page != p.name {
			b.answers[1] = b.answers[0]
		}
		b.answers[0] = answer{p.name, now}
		if c.probe || !p.open {
			p.circuit = circuit{}
			p.well()
		}
		switch {
		case !b.api.open:
			b.forgive()
		case c.apiProbe:
			b.closeAPI(now)
		}
	case Failed, Unreached:
		b.fail(now, c, v == Unreached)
	case Throttled:
		b.quiet = now
		b.throttle(now, c)
	case NoCall:
	}
	return Change{
		Opened: b.api.open && !wasOpen, Closed: !b.api.open && wasOpen,
		PageOpened: p.open && !pageWasOpen, PageClosed: !p.open && pageWasOpen,
	}
}

// throttle opens the API's breaker for a throttle of the app. It opens the page's in
// place of that where no other page was throttled of late, and another was answered.
func (b *Breaker) throttle(now time.Time, c *Call) {
	p, before := c.page, b.refused
	b.refused = answer{p.name, now}
	others := before.page != "" && before.page != p.name && now.Sub(before.at) < rowGap
	apart := slices.ContainsFunc(b.answers[:], func(a answer) bool {
		return a.page != "" && a.page != p.name && now.Sub(a.at) < lately
	})
	switch {
	case b.api.open && b.alone != p.name || others:
		b.alone = ""
	case b.api.open:
	case apart:
		p.trip(now, c.probe, maxPause, b.random)
		return
	default:
		b.alone = p.name
	}
	b.throttled = true
	b.api.trip(now, c.apiProbe, maxPause, b.random)
}

// fail adds a failure to the rows, and opens what they mean to be down. A call that
// began before something was answered says less than that answer: calls that end
// together, after their time, are no row.
func (b *Breaker) fail(now time.Time, c *Call, unreached bool) {
	p := c.page
	if c.Probe() || !p.answered.After(c.began) {
		p.failures.add(now, c.recipient)
		p.events.add(now, c.event)
		if p.open || p.fails() {
			p.trip(now, c.probe, maxPause, b.random)
		}
	}
	if !c.Probe() && b.answers[0].at.After(c.began) {
		return
	}
	who := p.name + "/" + c.recipient
	b.failures.add(now, p.name)
	b.people.add(now, who)
	if unreached {
		b.unreached.add(now, who)
	}
	if b.api.open || b.unreached.mean(apiRow, apiTime, pageRecipients) ||
		len(b.failures.names) > 1 && b.people.mean(apiRow, apiTime, apiRecipients) {
		most := maxOutagePause
		if b.throttled {
			most = maxPause
		}
		b.api.trip(now, c.apiProbe, most, b.random)
	}
}

// Check opens the breakers of pages whose calls hang, returns these pages, and
// forgets those that are well or failed long ago. It closes the API's when nobody
// calls any more, so that there is nothing to probe with. Call it once a second.
func (b *Breaker) Check(now time.Time) (hung []string) {
	if b.api.open && b.calls == 0 && now.Sub(b.api.until) > rowGap {
		b.closeAPI(now)
	}
	for name, p := range b.pages {
		last := p.failures.last
		if p.failures.n == 0 { // it is open because it was throttled
			last = p.until
		}
		if len(p.calls) == 0 && (p.failures.n == 0 && !p.open || now.Sub(last) > forget) {
			delete(b.pages, name)
			continue
		}
		if p.open || len(p.calls) < hungCalls || now.Sub(p.answered) < hungTime {
			continue
		}
		n, events := 0, make(map[string]struct{})
		for c := range p.calls {
			if now.Sub(c.began) >= hungTime {
				n++
				events[c.event] = struct{}{}
			}
		}
		if n >= hungCalls && len(events) > 1 {
			p.trip(now, false, maxPause, b.random)
			hung = append(hung, name)
		}
	}
	return hung
}

// Silent reports whether calls are in flight and none was answered for so long
// that another replica may fare better. The calls of a page that is sick do not count,
// nor do probes.
func (b *Breaker) Silent(now time.Time) bool {
	calls, pages, people, first := 0, 0, 0, now
	for _, p := range b.pages {
		to, events := make(map[string]struct{}), make(map[string]struct{})
		for c := range p.calls {
			if p.open || c.Probe() {
				continue
			}
			calls++
			to[c.recipient], events[c.event] = struct{}{}, struct{}{}
			if c.began.Before(first) {
				first = c.began
			}
		}
		if len(to) > 0 {
			pages++
		}
		if len(events) > 1 { // one may hang for everybody
			people += len(to)
		}
	}
	if b.quiet.After(first) {
		first = b.quiet
	}
	d := now.Sub(first)
	return (pages > 1 || people >= apiRecipients) && (d >= silence || d >= silenceMany && calls >= manyCalls)
}

// IsOpen reports whether the API takes no calls.
func (b *Breaker) IsOpen() bool { return b.api.open }

// IsPageOpen reports whether a page is sick.
func (b *Breaker) IsPageOpen(name string) bool {
	p := b.pages[name]
	return p != nil && p.open
}

// OpenPages is the number of sick pages.
func (b *Breaker) OpenPages() int {
	n := 0
	for _, p := range b.pages {
		if p.open {
			n++
		}
	}
	return n
}
