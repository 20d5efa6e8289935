package dispatch

import (
	"sync"
	"time"
)

// How the valve shuts and opens.
const (
	// outageAfter failures in a row, over all pages, mean that the API is down
	// rather than that some calls fail: at a failure rate of one half this many
	// in a row happen once in 10^9 calls.
	outageAfter = 30
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
)

// valve holds every call back while the whole API cannot be used: the app is
// throttled, or it does not answer. While it is shut one call at a time goes
// through as a probe; the first probe that is answered opens it. The zero
// value is not useful. Safe for concurrent use.
type valve struct {
	random func() float64

	mu       sync.Mutex
	failures int // in a row
	shut     bool
	until    time.Time
	backoff  time.Duration
	probing  bool
}

// enter asks for one call. A wait above zero means no call now; ask again
// after it. Otherwise the call must be made, and its result told with probe.
func (v *valve) enter(now time.Time) (wait time.Duration, probe bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.shut {
		return 0, false
	}
	if left := v.until.Sub(now); left > 0 || v.probing {
		// Spread, so that those who wait do not all come at once.
		return max(left, minShut/4) + time.Duration(v.random()*float64(minShut)), false
	}
	v.probing = true
	return 0, true
}

// cancel gives a probe back that was not made after all.
func (v *valve) cancel() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.probing = false
}

// result tells how a call went. It returns whether the valve is shut now,
// and whether this call changed that.
func (v *valve) result(now time.Time, probe bool, how verdict) (shut, changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.shut
	if probe {
		v.probing = false
	}
	switch how {
	case apiAnswers:
		v.failures, v.shut, v.backoff = 0, false, 0
	case apiFails:
		v.failures++
		if v.failures >= outageAfter {
			v.shutLocked(now, probe)
		}
	case appThrottled:
		v.shutLocked(now, probe)
	}
	return v.shut, v.shut != was
}

// shutLocked starts the wait for the next probe. Calls that were in flight
// when the valve shut fail too; only a probe's failure makes the wait longer.
func (v *valve) shutLocked(now time.Time, probe bool) {
	if v.shut && !probe {
		return
	}
	v.shut = true
	v.backoff = min(max(2*v.backoff, minShut), maxShut)
	v.until = now.Add(v.backoff/2 + time.Duration(v.random()*float64(v.backoff)))
}

// isShut tells whether calls are held back.
func (v *valve) isShut() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shut
}
