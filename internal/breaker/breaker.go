// Package breaker is a circuit breaker for the Send API as a whole. While the
// app is throttled, or the API does not answer, the breaker is open. It then
// holds calls back and lets one through at a time, as a probe.
//
// Only a probe's answer closes it. The answer to a call from before it opened
// says nothing of the API's state now. Where all calls that failed are of one
// page, because no other page called, the breaker is open for that page alone.
// Any other page's call then shows how the API is.
package breaker

import (
	"sync"
	"time"
)

// How the breaker opens and closes.
const (
	// outageAfter failures in a row mean that the API is down rather than that
	// some calls fail. At a failure rate of one half so many in a row happen once
	// in 10^9 calls. Of one page they mean that only if no other page was
	// answered in outageTime.
	outageAfter = 30
	// outageTime is how long fewer failures in a row mean the same. It is about
	// half of what the attempts of one message last, so the other half is kept.
	outageTime = 5 * time.Second
	// rowGap ends a row of failures: no message waits longer for its next call.
	rowGap = time.Minute
	// The wait before a probe starts at a second, the window of the published
	// limits, and doubles up to half a minute. So a long outage costs a replica
	// two calls a minute, and its end is noticed soon.
	minOpen = time.Second
	maxOpen = 30 * time.Second
)

// Verdict is what a call says about the API as a whole.
type Verdict int

// The verdicts.
const (
	Answers   Verdict = iota // the API answered about this message or page
	Fails                    // no answer, or an answer that says nothing
	Throttled                // the API refuses the whole app
	NoCall                   // there was no call, so it says nothing
)

// Call is a call that has ended.
type Call struct {
	Page, ID string // the page and message that it was made for
	Probe    bool   // Acquire said that it is one
	Verdict  Verdict
	Coded    bool // the platform named a code
}

// row is failures without an answer in between.
type row struct {
	n           int
	first, last time.Time
	page, id    string // of the first
	pages, ids  bool   // others failed, too
	silent      bool   // the platform named no code
}

func (r *row) add(now time.Time, c Call) {
	if now.Sub(r.last) > rowGap {
		*r = row{first: now, page: c.Page, id: c.ID, silent: true}
	}
	r.n++
	r.last = now
	r.pages = r.pages || c.Page != r.page
	r.ids = r.ids || c.ID != r.id
	r.silent = r.silent && !c.Coded
}

// isOutage reports whether the row is more than the failure of one page or of
// one message. Many failures are, where no other page fares better. So is some
// time of nothing but failures, of several messages or without an answer of the
// platform at all.
func (r *row) isOutage(other time.Time) bool {
	alone := r.pages || r.last.Sub(other) >= outageTime
	long := r.last.Sub(r.first) >= outageTime
	return r.n >= outageAfter && alone || long && (r.ids || r.silent)
}

// answers is when pages were last answered: one, and any other than that.
type answers struct {
	page      string
	at, other time.Time
}

func (a *answers) add(now time.Time, page string) {
	if page != a.page {
		a.page, a.other = page, a.at
	}
	a.at = now
}

// except returns when a page other than this was last answered.
func (a *answers) except(page string) time.Time {
	if page != a.page {
		return a.at
	}
	return a.other
}

// Breaker holds calls back while the API takes none. Make one with New; the
// zero value is not useful. Safe for concurrent use.
type Breaker struct {
	random func() float64

	mu        sync.Mutex
	failures  row
	answered  answers
	open      bool
	throttled bool // open because the app is throttled
	until     time.Time
	backoff   time.Duration
	probing   bool
}

// New returns a closed breaker. random, in [0, 1), spreads the waits; it must
// be safe for concurrent use.
func New(random func() float64) *Breaker { return &Breaker{random: random} }

// Acquire asks for one call of a page. A wait above zero means no call now; ask
// again after it. Otherwise the call must be made and told to Observe, or, if it
// is a probe, given back with CancelProbe.
func (b *Breaker) Acquire(now time.Time, page string) (wait time.Duration, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isOpenLocked(page) {
		return 0, false
	}
	if left := b.until.Sub(now); left > 0 || b.probing {
		// Spread, so that those who wait do not all come at once.
		return max(left, minOpen/4) + time.Duration(b.random()*float64(minOpen)), false
	}
	b.probing = true
	return 0, true
}

// isOpenLocked reports whether the page's calls are held back.
func (b *Breaker) isOpenLocked(page string) bool {
	return b.open && (b.throttled || b.failures.pages || b.failures.page == page)
}

// CancelProbe gives a probe back that was not made after all.
func (b *Breaker) CancelProbe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// Observe learns how a call went. It returns whether the breaker is open for
// the call's page now, and whether this call opened or closed it.
func (b *Breaker) Observe(now time.Time, c Call) (open, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.open
	if c.Probe {
		b.probing = false
	}
	switch c.Verdict {
	case Answers:
		b.answered.add(now, c.Page)
		// A call from before the breaker opened says nothing of now.
		if c.Probe || !b.isOpenLocked(c.Page) {
			b.failures, b.open, b.throttled, b.backoff = row{}, false, false, 0
		}
	case Fails:
		b.failures.add(now, c)
		if b.open || b.failures.isOutage(b.answered.except(b.failures.page)) {
			b.openLocked(now, c.Probe)
		}
	case Throttled:
		b.throttled = true
		b.openLocked(now, c.Probe)
	case NoCall:
	}
	return b.isOpenLocked(c.Page), b.open != was
}

// openLocked starts the wait for the next probe. Calls that were in flight when
// the breaker opened fail too; only a probe's failure makes the wait longer.
func (b *Breaker) openLocked(now time.Time, probe bool) {
	if b.open && !probe {
		return
	}
	b.open = true
	b.backoff = min(max(2*b.backoff, minOpen), maxOpen)
	b.until = now.Add(b.backoff/2 + time.Duration(b.random()*float64(b.backoff)))
}

// State reports whether calls are held back, and whether that is because the
// app is throttled.
func (b *Breaker) State() (open, throttled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, b.open && b.throttled
}

// OnlyPage returns the page that alone is held back, empty where all are.
func (b *Breaker) OnlyPage() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open || b.throttled || b.failures.pages {
		return ""
	}
	return b.failures.page
}
