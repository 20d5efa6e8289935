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
	if n > h.replicas {
		e.makeWay(now, n)
	}
	if h.steady++; n != h.replicas {
		h.steady = 1
	}
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

// balance gives up what others should have, once the count of the replicas is steady.
//
// Replicas that came get their share of the partitions that are busy here. Besides,
// one that has more than its part of all partitions gives up what is too much. Of busy
// ones it is half of that, the calmest first: not all, because the broker may leave them
// to one that has its part. Idle ones may go on to the next.
func (e *engine) balance(now time.Time) {
	h := &e.calls.health
	h.counts++
	if h.steady < balanceEvery {
		return
	}
	came := 0
	if h.settled > 0 {
		came = h.replicas - h.settled
	}
	h.settled = h.replicas
	if h.replicas <= 1 {
		return
	}
	busy, idle := e.active(now), e.idle(now)
	give, part := len(busy)*came/h.replicas, e.part(h.replicas)
	if h.counts >= balanceEvery {
		give = max(give, (len(busy)-part+1)/2)
	}
	giveIdle := 0
	if h.steady < 3*balanceEvery {
		giveIdle = min(max(len(busy)-give+len(idle)-part, 0), len(idle))
	}
	slices.SortStableFunc(busy, func(a, b *source) int { return cmp.Compare(a.held, b.held) })
	given := make([]*partition, 0, give+giveIdle)
	if give > 0 {
		h.counts = 0
	}
	for _, s := range slices.Concat(busy[:give], idle[:giveIdle]) {
		given = append(given, s.partition)
		e.leave(s, "balance")
	}
	if len(given) > 0 {
		e.sources.feeders.Go(func() { e.hello(given) })
	}
}

// active are the partitions of which messages were delivered lately.
func (e *engine) active(now time.Time) (list []*source) {
	for _, p := range e.sources.partitions {
		if s := p.src; s != nil && !s.leaving && now.Sub(p.busy) < activeFor {
			list = append(list, s)
		}
	}
	return list
}

// idle are the partitions that were said to be ours lately, and had no messages.
func (e *engine) idle(now time.Time) (list []*source) {
	for _, p := range e.sources.partitions {
		if s := p.src; s != nil && !s.leaving && now.Sub(p.busy) >= activeFor && now.Sub(p.last) < activeFor {
			list = append(list, s)
		}
	}
	return list
}
