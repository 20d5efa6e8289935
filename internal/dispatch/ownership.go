package dispatch

import "time"

const (
	// minRest and maxRest bound how long a replica leaves a partition that it
	// gave up to others; twice as long each time while the API is silent.
	minRest = 2 * time.Second
	maxRest = time.Minute
	// balanceEvery is after how many counts of the replicas one gives up a
	// partition for balance, so that others have time to take it.
	balanceEvery = 5
)

// health is how this replica fares.
type health struct {
	silences int // in a row
	counts   int // since a partition was given up for balance
	replicas int // as they were last counted; 0: not yet
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
	h.replicas = n
	e.balance(now)
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

// balance gives the calmest partition up while this replica has more than its
// part.
func (e *engine) balance(now time.Time) {
	h := &e.calls.health
	h.counts++
	if h.replicas <= 1 || h.counts < balanceEvery {
		return
	}
	var calmest *source
	for _, p := range e.sources.partitions {
		s := p.src
		if s == nil || s.leaving || p.since.IsZero() || now.Sub(p.last) >= activeFor {
			continue
		}
		if calmest == nil || s.held < calmest.held {
			calmest = s
		}
	}
	if part := (len(e.sources.partitions) + h.replicas - 1) / h.replicas; calmest != nil && len(e.sources.owned(now)) > part {
		h.counts = 0
		e.leave(calmest, "balance")
	}
}
