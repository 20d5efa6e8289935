package dispatch

import (
	"cmp"
	"slices"
	"time"
)

const (
	// minRest and maxRest bound how long a replica leaves a partition that it
	// gave up to others; twice as long each time while the API is silent, if another
	// one consumes it.
	minRest = 2 * time.Second
	maxRest = time.Minute
	// steadyCounts is for how many equal counts the number of replicas is believed.
	// After as many again more is given up, so that others have time to take it.
	steadyCounts = 5
	// idleCounts is until how many equal counts idle partitions are given up.
	idleCounts = 3 * steadyCounts
)

// health is how this replica fares.
type health struct {
	silences int  // in a row
	replicas int  // as they were last counted; 0: not yet
	steady   int  // counts in a row that came to the same
	settled  int  // replicas, when they were last steady; 0: not yet
	unsure   bool // partitions may have changed hands without a word
}

// count learns how many replicas there are now. It makes way for those that have
// come, and gives up what is more than this one's part. That must not be by an
// older count: it might be left to one that is gone. Where the broker does not say
// how many there are, those that it counts next have reconnected and did not come.
func (e *engine) count(n int, err error) {
	now, h := e.Now(), &e.calls.health
	switch {
	case e.ending:
		return
	case err != nil:
		h.steady, h.settled, h.unsure = 0, 0, true
		return
	case n > h.replicas:
		e.makeWay(now, n)
	}
	if h.steady++; n != h.replicas {
		h.steady = 1
	}
	h.unsure = h.unsure || n < h.replicas
	h.replicas, h.settled = n, min(h.settled, n)
	if h.steady < steadyCounts {
		return
	}
	if n > 1 {
		e.balance(now)
	}
	h.settled = n
}

// makeWay subscribes anew to the partitions that are not ours, so that what is given
// up goes to those that have less than their part. Among these, who have all come
// lately, the order is random.
func (e *engine) makeWay(now time.Time, n int) {
	from := now
	if h := &e.calls.health; h.settled > 0 || len(e.sources.owned(now)) >= e.part(n) {
		from = now.Add(renewSpread)
	}
	for _, p := range e.sources.partitions {
		e.timers.add(from.Add(time.Duration(e.Random()*float64(renewSpread))), func() { e.renew(p) })
	}
}

// part is how many partitions each of n replicas should have at most.
func (e *engine) part(n int) int { return (len(e.sources.partitions) + n - 1) / n }

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
			e.leaveAll("silent")
		}
	}
	e.silent.Store(silent)
}

// leaveAll gives all up.
func (e *engine) leaveAll(reason string) {
	for _, s := range e.sources.open {
		e.leave(s, reason)
	}
}

// balance gives up what others should have, once the count is steady: of the busy
// partitions the newcomers' share at once, and half of those above this one's part of
// all after each steadyCounts, the calmest first, because the broker may leave them to
// one that has its part. Idle ones may go on from there, so all of those above the part
// go; for a while only, in case that nobody takes them.
func (e *engine) balance(now time.Time) {
	h := &e.calls.health
	if h.unsure {
		h.unsure = false
		e.sayHello(e.sources.partitions)
	}
	busy, idle := e.active(now)
	part, give, more := e.part(h.replicas), 0, 0
	if h.settled > 0 {
		give = len(busy) * (h.replicas - h.settled) / h.replicas
	}
	if h.steady%steadyCounts == 0 {
		give = max(give, (len(busy)-part+1)/2)
	}
	if h.steady < idleCounts {
		more = min(max(0, len(busy)-give+len(idle)-part), len(idle))
	}
	slices.SortStableFunc(busy, func(a, b *source) int { return cmp.Compare(a.held, b.held) })
	var given []*partition
	for _, s := range slices.Concat(busy[:give], idle[:more]) {
		given = append(given, s.partition)
		e.leave(s, "balance")
	}
	e.sayHello(given) // to who has them now
}

// active are the partitions of which messages were delivered lately. Those that are
// idle were only said to be ours.
func (e *engine) active(now time.Time) (busy, idle []*source) {
	for _, p := range e.sources.partitions {
		switch s := p.src; {
		case s == nil || s.leaving:
		case now.Sub(p.busy) < activeFor:
			busy = append(busy, s)
		case now.Sub(p.last) < activeFor:
			idle = append(idle, s)
		}
	}
	return busy, idle
}
