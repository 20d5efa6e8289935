package dispatch

import (
	"sync"
	"time"
)

// How the valve shuts and opens.
const (
	// outageAfter failures in a row mean that the API is down rather than that
	// some calls fail: at a failure rate of one half this many in a row happen
	// once in 10^9 calls. Of one page they mean that only if no other page was
	// answered in outageTime.
	outageAfter = 30
	// outageTime is how long fewer failures in a row mean the same: about half
	// of what the attempts of one message last, so that the other half is kept.
	outageTime = 5 * time.Second
	// rowGap ends a row of failures: no message waits longer for its next call.
	rowGap = time.Minute
	// The wait before a probe starts at a second, the window of the published
	// limits, and doubles up to half a minute, so that a long outage costs a
	// replica two calls a minute and its end is noticed soon.
	minShut = time.Second
	maxShut = 30 * time.Second
)

// verdict is what a call says about the API as a whole.
type verdict int

const (
	apiAnswers   verdict = iota // it answered about this message or page
	apiFails                    // no answer, or an answer that says nothing
	appThrottled                // it refuses the whole app
	noCall                      // nothing: there was no call
)

// call is what the valve is told of a call that has ended.
type call struct {
	page, id string // the page and message that it was made for
	probe    bool   // enter said that it is one
	how      verdict
	coded    bool // the platform named a code
}

// row is failures without an answer in between.
type row struct {
	n           int
	first, last time.Time
	page, id    string // of the first
	pages, ids  bool   // others failed, too
	silent      bool   // the platform named no code
}

func (r *row) add(now time.Time, c call) {
	if now.Sub(r.last) > rowGap {
		*r = row{first: now, page: c.page, id: c.id, silent: true}
	}
	r.n++
	r.last = now
	r.pages = r.pages || c.page != r.page
	r.ids = r.ids || c.id != r.id
	r.silent = r.silent && !c.coded
}

// outage tells whether the row is more than a fault of one page, or of one
// message: many failures, and no other page fares better; or for some time
// nothing but failures, which are of several messages or have no answer of the
// platform at all.
func (r *row) outage(other time.Time) bool {
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

// but is when a page other than this was last answered.
func (a *answers) but(page string) time.Time {
	if page != a.page {
		return a.at
	}
	return a.other
}

// valve holds every call back while the whole API cannot be used: the app is
// throttled, or it does not answer. While it is shut one call at a time goes
// through as a probe; the first probe that is answered opens it, and no call
// from before. Where all that failed is of one page, because no other called,
// the valve is shut for that page alone: any other's call shows how the API is.
// The zero value is not useful. Safe for concurrent use.
type valve struct {
	random func() float64

	mu        sync.Mutex
	failures  row
	answered  answers
	shut      bool
	throttled bool // shut because the app is throttled
	until     time.Time
	backoff   time.Duration
	probing   bool
}

// enter asks for one call of a page. A wait above zero means no call now; ask
// again after it. Otherwise the call must be made, and its result told.
func (v *valve) enter(now time.Time, page string) (wait time.Duration, probe bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.shutLocked(page) {
		return 0, false
	}
	if left := v.until.Sub(now); left > 0 || v.probing {
		// Spread, so that those who wait do not all come at once.
		return max(left, minShut/4) + time.Duration(v.random()*float64(minShut)), false
	}
	v.probing = true
	return 0, true
}

// shutLocked tells whether the page's calls are held back.
func (v *valve) shutLocked(page string) bool {
	return v.shut && (v.throttled || v.failures.pages || v.failures.page == page)
}

// cancel gives a probe back that was not made after all.
func (v *valve) cancel() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.probing = false
}

// result tells how a call went. It returns whether the valve is shut for its
// page now, and whether this call shut or opened it.
func (v *valve) result(now time.Time, c call) (shut, changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.shut
	if c.probe {
		v.probing = false
	}
	switch c.how {
	case apiAnswers:
		v.answered.add(now, c.page)
		// A call from before the valve was shut says nothing of now.
		if c.probe || !v.shutLocked(c.page) {
			v.failures, v.shut, v.throttled, v.backoff = row{}, false, false, 0
		}
	case apiFails:
		v.failures.add(now, c)
		if v.shut || v.failures.outage(v.answered.but(v.failures.page)) {
			v.closeLocked(now, c.probe)
		}
	case appThrottled:
		v.throttled = true
		v.closeLocked(now, c.probe)
	case noCall:
	}
	return v.shutLocked(c.page), v.shut != was
}

// closeLocked starts the wait for the next probe. Calls that were in flight
// when the valve shut fail too; only a probe's failure makes the wait longer.
func (v *valve) closeLocked(now time.Time, probe bool) {
	if v.shut && !probe {
		return
	}
	v.shut = true
	v.backoff = min(max(2*v.backoff, minShut), maxShut)
	v.until = now.Add(v.backoff/2 + time.Duration(v.random()*float64(v.backoff)))
}

// state tells whether calls are held back, and whether that is because the app
// is throttled.
func (v *valve) state() (shut, throttled bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shut, v.shut && v.throttled
}

// only is the page that alone is held back, empty where all are.
func (v *valve) only() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.shut || v.throttled || v.failures.pages {
		return ""
	}
	return v.failures.page
}
