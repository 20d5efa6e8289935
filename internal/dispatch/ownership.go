package dispatch

import (
	"cmp"
	"slices"
	"time"
)

const (
	// minRest and maxRest bound how long a replica leaves a partition that it
	// gave up to others; twice as long each time while the API is silent.
	minRest = 2 * time.Second
	maxRest = time.Minute
	// balanceEvery is after how many counts of the replicas one gives up partitions
	// for balance, so that others have time to take them; and how many counts must be
	// equal before the replicas that came are believed in.
	balanceEvery = 5
)

// health is how this replica fares.
type health struct {
	silences int // in a row
	counts   int // since partitions were given up for balance
	replicas int // as they were last counted; 0: not yet
	steady   int // counts in a row that came to the same
	settled  int // replicas, when they were last steady; 0: not yet
}

// count learns how many replicas there are now. It makes way for those that have
// come, and gives up what is more than this one's part. That must not be by an
// older count: it might be left to one that is gone.
func (e *engine) count(n int) {
	now, h := e.Now(), &e.calls.health
	if e.ending {
		return
	}
	if h.replicas > 0 && n > h.replicas {
		for _, p := range e.sources.partitions {
			e.timers.add(now.Add(time.Duration(e.Random()*float64(spread))), func() { e.renew(p) })
		}
	}
	if h.steady++; n != h.replicas {
		h.steady = 1
	}
	h.replicas, h.settled = n, min(h.settled, n)
	e.balance(now)
}

// uncounted means that the broker did not say how many replicas there are. Those that
// it counts next have reconnected, as this one has, and did not come.
func (e *engine) uncounted() { e.calls.health.settled = 0 }

// rest is how long a partition that was given up is left to others.
func (e *engine) rest() time.Duration {
	d := minRest << min(e.calls.health.silences, 5)
	return min(d, maxRest)/2 + time.Duration(e.Random()*float64(min(d, maxRest))/2)
}

// checkSilence gives up everything when the API answers nothing here and other
// replicas may fare better. While the app is throttled the API does answer.
func (e *engine) checkSilence(now time.Time) {
	silent := e.breaker.Silent(now)
	if silent && !e.silent.Load() {
		e.Log.Warn("the API does not answer", "calls", e.calls.inFlight)
		e.calls.health.silences++
		if e.calls.health.replicas > 1 {
			e.leaveAll("silent", true)
		}
	}
	e.silent.Store(silent)
}

// leaveAll gives all up. Calls that hang are not waited for.
func (e *engine) leaveAll(reason string, hung bool) {
	for _, s := range e.sources.open {
		s.hung = s.hung || hung
		e.leave(s, reason)
	}
}

// balance gives up what others should have, the calmest partitions first.
//
// Replicas that came get their share of the partitions that are busy here, once the
// count is steady. Besides, one that has more than its part of all partitions gives up
// half of what is too much; not all, because the broker may leave it to one that has
// its part.
func (e *engine) balance(now time.Time) {
	h := &e.calls.health
	h.counts++
	came := 0
	if h.settled > 0 {
		came = h.replicas - h.settled
	}
	switch {
	case h.steady >= balanceEvery:
		h.settled = h.replicas
	case came > 0:
		return
	}
	if h.replicas <= 1 {
		return
	}
	active := e.active(now)
	give := len(active) * came / h.replicas
	part := (len(e.sources.partitions) + h.replicas - 1) / h.replicas
	if more := len(e.sources.owned(now)) - part; more > 0 && h.counts >= balanceEvery {
		give = max(give, (more+1)/2)
	}
	slices.SortStableFunc(active, func(a, b *source) int { return cmp.Compare(a.held, b.held) })
	for _, s := range active[:min(give, len(active))] {
		h.counts = 0
		e.leave(s, "balance")
	}
}

// active are the partitions of which something was delivered lately.
func (e *engine) active(now time.Time) (list []*source) {
	for _, p := range e.sources.partitions {
		if s := p.src; s != nil && !s.leaving && !p.since.IsZero() && now.Sub(p.last) < activeFor {
			list = append(list, s)
		}
	}
	return list
}
