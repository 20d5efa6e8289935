package fakeapi

import (
	"cmp"
	"sync"
	"time"

	"chatclub/fakeapi/limit"
)

// app counts the calls of all pages of the application. Nothing is counted, and
// no lock taken, while no setting asks for it.
type app struct {
	mu         sync.Mutex
	generation uint64
	limiter    limiterSlot

	blockedUntil time.Time
	windowEnd    time.Time
	calls        int // since windowEnd was set
	failed       int // of these

	second    int64 // Unix second that cur counts
	prev, cur int
}

// countsApp reports whether a setting asks for the app's counters.
func (set *live) countsApp() bool {
	return set.AppPerSecond > 0 || set.Block.ErrorRatio > 0 || set.Latency.kind == latencyLoad
}

// arrive counts a call. It returns the calls/s of all pages and, when the app is
// over its limit or blocked, the answer.
func (a *app) arrive(now time.Time, set *live) (rate float64, refused *answer) {
	if !set.countsApp() {
		return 0, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	rate = a.countLocked(now)
	if a.generation < set.generation { // not for a call that began before the last change
		a.generation = set.generation
		if set.AppPerSecond > 0 {
			a.limiter.fit(now, limit.Config{Algorithm: limit.FixedWindow, Limit: set.AppPerSecond})
		} else {
			a.limiter = limiterSlot{}
		}
	}
	if set.Block.ErrorRatio > 0 && now.Before(a.blockedUntil) {
		return rate, errBlocked
	}
	if a.limiter.Limiter != nil && !a.limiter.Allow(now) {
		return rate, errAppLimit
	}
	return rate, nil
}

// countLocked counts a call and returns how many came in the last second. The
// clock's second before counts in the share of it that lies in that time.
func (a *app) countLocked(now time.Time) float64 {
	switch second := now.Unix(); {
	case second == a.second+1:
		a.second, a.prev, a.cur = second, a.cur, 0
	case second > a.second:
		a.second, a.prev, a.cur = second, 0, 0
	}
	a.cur++
	return float64(a.prev)*(1-float64(now.Nanosecond())/1e9) + float64(a.cur)
}

// end counts a call that has ended, and blocks the app when too many failed. Calls
// that a block refuses are not counted, so a block ends when its time is over.
func (a *app) end(now time.Time, set *live, failed bool) {
	b := set.Block
	if b.ErrorRatio == 0 {
		return
	}
	window, length := cmp.Or(time.Duration(b.Window), time.Minute), cmp.Or(time.Duration(b.For), time.Hour)
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.blockedUntil) {
		return
	}
	if !now.Before(a.windowEnd) {
		a.windowEnd, a.calls, a.failed = now.Add(window), 0, 0
	}
	a.calls++
	if failed {
		a.failed++
	}
	if a.calls >= max(1, b.MinCalls) && float64(a.failed) > b.ErrorRatio*float64(a.calls) {
		a.blockedUntil = now.Add(length)
		a.windowEnd = time.Time{}
	}
}
