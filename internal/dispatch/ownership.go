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
	// idleCounts is for how many equal counts idle partitions are given up.
	idleCounts = 3 * balanceEvery
)

// health is how this replica fares.
type health struct {
	silences int // in a row
	counts   int // since partitions were given up for balance
	replicas int // as they were last counted; 0: not yet
	steady   int // counts in a row that came to the same
	settled  int // replicas, when they were last steady; 0: not yet

	unsure bool // partitions may have changed hands without a word
}

// count learns how many replicas there are now. It makes way for those that have
// come, and gives up what is more than this one's part. That must not be by an
// older count: it might be left to one that is gone.
func (e *engine) count(n int) {
	now, h := e.Now(), &e.calls.health
	if e.ending {
		return
	}
	if n > h.replicas {
		e.makeWay(now, n)
	}
	if h.steady++; n != h.replicas {
		h.steady = 1
	}
	h.unsure = h.unsure || n < h.replicas
	h.replicas, h.settled = n, min(h.settled, n)
	e.balance(now)
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

// uncounted means that the broker did not say how many replicas there are. Those that
// it counts next have reconnected, as this one has, and did not come.
func (e *engine) uncounted() {
	h := &e.calls.health
	h.steady, h.settled, h.unsure = 0, 0, true
}

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

// balance gives up what others should have.
//
// Replicas that came get their share of the partitions that are busy here, once the
// count is steady. Besides, one that has more than its part of all partitions gives up
// what is too much: half of it if these are busy, the calmest first, because the broker
// may leave them to one that has its part. Idle ones may go on from there, so all of
// them go; for a while only, in case that nobody takes them.
func (e *engine) balance(now time.Time) {
	h := &e.calls.health
	h.counts++
	came := 0
	if h.settled > 0 {
		came = h.replicas - h.settled
	}
	steady := h.steady >= balanceEvery
	switch {
	case steady:
		h.settled = h.replicas
	case came > 0:
		return
	}
	if h.replicas <= 1 {
		return
	}
	if steady && h.unsure {
		h.unsure = false
		e.sayHello(e.sources.partitions)
	}
	busy, idle := e.active(now)
	part := e.part(h.replicas)
	give := len(busy) * came / h.replicas
	if more := len(busy) - part; more > 0 && h.counts >= balanceEvery {
		give = max(give, (more+1)/2)
	}
	if give > 0 {
		h.counts = 0
	}
	slices.SortStableFunc(busy, func(a, b *source) int { return cmp.Compare(a.held, b.held) })
	more := max(len(busy)-give+len(idle)-part, 0)
	if !steady || h.steady >= idleCounts {
		more = 0
	}
	var given []*partition
	for _, s := range slices.Concat(busy[:give], idle[:min(more, len(idle))]) {
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
