// Package excess is the excess map: it answers when the next message of a page
// may be sent, and remembers which pages are in excess, their calls in flight,
// and what was learned about their limits.
//
// # Algorithm
//
// Whoever asks is the only one that sends for the page, so its own calls are all
// that the platform's limiter sees. A page is sent at a pace (GCRA, the virtual
// scheduling algorithm of ITU-T I.371): at 0.98 × its limit, and while nothing
// is refused up to 0.993 ×. Ahead of that pace goes what is not above the limit
// of the last second as a whole, so that the copies of one event leave at once
// while the page has room. A limiter that looks at less than a second refuses
// some of such a burst, and the page's bursts become shorter.
//
// A refusal says that no more is possible than what passed in the second before
// it: that is the page's ceiling from then on, and the pace stays just below it.
// Now and then a try sends a little more for a moment. If none of it is refused
// the ceiling is no longer true, and the pace grows fast until a refusal. Sends
// are counted by when they were sent, so that it makes no difference how long
// answers take. Refused calls may count at the platform: where many are under way,
// a page pauses until no more was sent in a second than is possible. After two refusals in a row one message at a time probes, after
// pauses that become longer, until one passes. Where nothing passed for longer than
// a window, the page took nothing: the pace grows back to what was sound before. A
// ceiling below the configured limit is remembered for hours.
//
// It goes back to ChatClub's excess map, whose pages had a counter of refused
// messages and no pace: every sender then probes on its own, which costs several
// refusals for each message at more than a few senders.
//
// # Bound
//
// At most 0.993 × limit × (T + 0.1) + 1 messages of a page are sent in any T
// seconds, T a whole number, and the 0.1 only when the sender itself was late.
// Less than a second may hold all of a second's messages: a burst.
package excess

import (
	"math/rand/v2"
	"time"
)

// Result says how a call went, as far as its page's limit is concerned.
type Result uint8

// The results of a call.
const (
	Accepted Result = iota + 1 // it counted against the limit and was let through
	Refused                    // the page's limit refused it
	Other                      // it says nothing about the limit
)

// Key names what the platform counts sends by: a page and a quota class.
type Key struct {
	Page  string `json:"page"`
	Class string `json:"class"`
}

// Request asks for one call.
type Request struct {
	Key
	// Since is when the caller became the only sender of the page. In the second
	// after that nothing goes ahead of the pace: another may have sent before.
	Since time.Time
}

// Decision is the answer to a Request.
type Decision struct {
	Wait   time.Duration // ask again after it; 0: call now
	Permit Permit        // where Wait is 0
}

// Permit allows one call, whose result is told to Done.
type Permit struct {
	page  *page
	at    time.Time
	probe bool
	ahead bool // of the pace, in a burst
}

// Probe reports whether the call finds out whether the page takes calls again.
func (p Permit) Probe() bool { return p.probe }

// Config is what a Map needs.
type Config struct {
	Limit  func(class string) float64 // calls per second that the platform is said to allow; must be set
	Random func() float64             // nil: math/rand; [0, 1)
}

const (
	// learnedTime is how long a limit below the configured one is remembered of a
	// page that nothing is sent to: some evenings' pause, less than a day, after
	// which the platform may have changed its mind.
	learnedTime = 6 * time.Hour
	// sweepEvery is how often idle pages are forgotten.
	sweepEvery = 10 * time.Second
)

// Map is the excess map of one replica. Make one with New. Not safe for
// concurrent use: it belongs to one owner, such as an event loop. Times are
// compared by the monotonic clock.
type Map struct {
	cfg     Config
	pages   map[Key]*page
	learned map[Key]learned
	bursts  bursts
	swept   time.Time
}

// page is what is known of a page that is or was lately sent to.
type page struct {
	pace
	key      Key
	inFlight int
	refused  int // calls, since the page was last not in excess
	excess   bool
	entered  time.Time // excess
}

// learned is what stays of a page.
type learned struct {
	ceiling  float64       // 0: none is known
	since    time.Time     // when a ceiling was found
	pressure time.Duration // towards the next
	burst    time.Duration // 0: as other pages
	at       time.Time
}

// New returns an empty map.
func New(cfg Config) *Map {
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	return &Map{
		cfg: cfg, pages: make(map[Key]*page), learned: make(map[Key]learned),
		bursts: bursts{longest: burstTime},
	}
}

// Offer asks for one call. A Wait of 0 counts the call; Done must be told.
func (m *Map) Offer(now time.Time, r Request) Decision {
	p := m.page(now, r)
	wait, ahead := p.wait(now), false
	if wait > 0 && p.calm(now) {
		sooner := p.sends.wait(now, p.most(m.bursts.longest))
		wait, ahead = min(wait, sooner), sooner == 0
	}
	if wait != 0 {
		return Decision{Wait: wait}
	}
	p.inFlight++
	return Decision{Permit: Permit{page: p, at: now, probe: p.send(now), ahead: ahead}}
}

// page finds or begins a page.
func (m *Map) page(now time.Time, r Request) *page {
	p := m.pages[r.Key]
	if p == nil {
		l, ok := m.learned[r.Key]
		if !ok {
			l.burst = m.bursts.longest
		}
		p = &page{key: r.Key, pace: newPace(now, m.cfg.Limit(r.Class), l, m.cfg.Random)}
		m.pages[r.Key] = p
		delete(m.learned, r.Key)
	}
	if r.Since.After(p.began) {
		p.began = r.Since
	}
	return p
}

// Done tells how the call of a permit went. Call it once for each.
func (m *Map) Done(now time.Time, p Permit, r Result) {
	e := p.page
	e.inFlight--
	e.probing = e.probing && !p.probe
	switch r {
	case Accepted:
		e.accepted(now, p)
	case Refused:
		e.refused++
		e.pace.refused(now, p)
	case Other:
	}
	if p.ahead && m.pages[e.key] == e { // not of a page that was forgotten meanwhile
		m.bursts.ended(now, e.key, &e.burst, seconds(e.sends.second(p.at)/e.limit), r)
	}
}

// Enter puts a page in excess: it has more messages than it may send.
func (m *Map) Enter(now time.Time, k Key) {
	if p := m.page(now, Request{Key: k}); !p.excess {
		p.excess, p.entered = true, now
	}
}

// Leave ends a page's excess.
func (m *Map) Leave(k Key) {
	if p := m.pages[k]; p != nil {
		p.excess, p.refused = false, 0
	}
}

// InExcess reports whether a page is in excess.
func (m *Map) InExcess(k Key) bool {
	p := m.pages[k]
	return p != nil && p.excess
}

// ShutFor is how much longer a page takes no calls after refusals in a row; 0
// when it does.
func (m *Map) ShutFor(now time.Time, k Key) time.Duration {
	if p := m.pages[k]; p != nil && p.streak > 1 {
		return max(0, p.resume.Sub(now))
	}
	return 0
}

// Forget drops what is known of the pages that another replica sends for from
// now on, but for the limits learned.
func (m *Map) Forget(now time.Time, gone func(page string) bool) {
	for k, p := range m.pages {
		if gone(k.Page) {
			m.remember(now, k, p)
		}
	}
}

// Sweep forgets idle pages. Call it once a second.
func (m *Map) Sweep(now time.Time) {
	if now.Sub(m.swept) < sweepEvery {
		return
	}
	m.swept = now
	for k, p := range m.pages {
		if p.inFlight == 0 && !p.excess && p.idle(now) {
			m.remember(now, k, p)
		}
	}
	for k, l := range m.learned {
		if now.Sub(l.at) > learnedTime {
			delete(m.learned, k)
		}
	}
}

func (m *Map) remember(now time.Time, k Key, p *page) {
	delete(m.pages, k)
	l := learned{at: now, burst: p.burst}
	if ceiling := max(p.ceiling, p.sound); p.rate < headroom*p.limit && ceiling < headroom*p.limit {
		l.ceiling, l.since, l.pressure = ceiling, p.since, p.pressure
	}
	if l.ceiling > 0 || l.burst < m.bursts.longest {
		m.learned[k] = l
	}
}

// View is what is known of a page, for people to look at.
type View struct {
	Since    time.Time // in excess; zero: it is not
	Pace     float64   // messages per second
	InFlight int
	Refused  int // calls refused since it was last not in excess
}

// View returns what is known of a page. The zero View is of one that is forgotten.
func (m *Map) View(k Key) View {
	p := m.pages[k]
	if p == nil {
		return View{}
	}
	v := View{Pace: p.rate, InFlight: p.inFlight, Refused: p.refused}
	if p.excess {
		v.Since = p.entered
	}
	return v
}

// Len is the number of pages of which anything is remembered, and how many of
// them are in excess.
func (m *Map) Len() (all, excess int) {
	for _, p := range m.pages {
		if p.excess {
			excess++
		}
	}
	return len(m.pages) + len(m.learned), excess
}
