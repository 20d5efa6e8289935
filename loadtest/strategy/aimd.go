package strategy

import (
	"time"

	"chatclub/internal/excess"
)

const (
	// cutRatio is the factor by which a refusal cuts a replica's rate, cutEvery the
	// least interval between two cuts: what is refused until then was sent before
	// the last cut. It covers a call's round trip.
	cutRatio = 0.9
	cutEvery = 100 * time.Millisecond
	// growShare is the growth of a replica's rate, as a share of the limit, in a
	// second in which messages wait: a cut is made up for in some ten seconds.
	growShare = 0.01
	// least is the slowest rate. Below one message in two seconds, a page that the
	// platform takes again is found too late.
	least = 0.5
)

// rate is one replica's own rate of one page.
type rate struct {
	bucket
	perSecond float64 // 0: not begun
	top       float64
	cut       time.Time // the last one
	grown     time.Time // up to when the rate has grown
}

// newAIMD lets each replica find its part of a page's limit by itself. Its rate
// grows by a constant a second while messages wait, and a 613 cuts it by a
// factor. Nobody is counted, and nothing is said.
//
// Source: Chiu and Jain (1989) for why rates under additive increase and
// multiplicative decrease end up alike. The ratio of 0.9 is the default of
// Netflix's concurrency-limits, where TCP's is ½. Quota use matters more here
// than to be fair within seconds. A replica begins at the whole limit, not
// knowing of any other.
func newAIMD(c Config) *paced[rate] {
	g := newPaced[rate](c.Random)
	g.take = func(now time.Time, k excess.Key, r *rate) time.Duration {
		if r.perSecond == 0 {
			r.top = headroom * c.Limit(k.Class)
			r.perSecond, r.grown = r.top, now
		}
		wait := r.take(now, r.perSecond)
		if wait > 0 {
			r.grow(now)
		}
		return wait
	}
	g.result = func(now time.Time, r *rate, res excess.Result) {
		if res == excess.Refused && now.Sub(r.cut) >= cutEvery {
			r.perSecond, r.cut, r.grown = max(least, cutRatio*r.perSecond), now, now
		}
	}
	return g
}

// grow counts the time since it was last called as time in which messages
// waited, up to a second.
func (r *rate) grow(now time.Time) {
	dt := min(time.Second, now.Sub(r.grown)).Seconds()
	r.grown = now
	r.perSecond = min(r.top, r.perSecond+growShare*r.top*dt)
}
