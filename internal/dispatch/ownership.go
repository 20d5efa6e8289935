package dispatch

import (
	"time"
)

const (
	// minRest and maxRest bound how long a replica leaves a partition that it
	// gave up to others; twice as long each time while the API is silent.
	minRest = 2 * time.Second
	maxRest = time.Minute
	// fullTicks is how many ticks in a row all calls are taken before a replica
	// gives up its busiest partition.
	fullTicks = 3
	// balanceEvery is how often a replica gives up a partition for balance, so
	// that others have time to take it.
	balanceEvery = 5
)

// health is how this replica fares.
type health struct {
	silences int // in a row
	full     int // ticks in a row in which all calls were taken
	ticks    int // since a partition was given up for balance
}

// counted is the number of replicas as the broker last said.
func (e *engine) counted() int { return int(e.sources.replicas.Load()) }

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
		if e.counted() > 1 {
			for _, s := range e.allSources() {
				e.giveUp(s, "silent")
			}
		}
	}
	e.silent.Store(silent)
}

// leaveAll gives all up.
func (e *engine) leaveAll(reason string) {
	for _, s := range e.allSources() {
		e.leave(s, reason)
	}
}

// balance gives a partition up while this replica has more than its part, or
// while every call is taken and it has more than one.
func (e *engine) balance(now time.Time) {
	h := &e.calls.health
	h.ticks++
	if e.calls.inFlight < e.calls.limit.Limit() {
		h.full = 0
	} else {
		h.full++
	}
	replicas := e.counted()
	if replicas == 1 || h.ticks < balanceEvery {
		return
	}
	part := (len(e.sources.partitions) + replicas - 1) / replicas
	owned := e.sources.owned(now)
	var busiest, calmest *source
	for _, p := range e.sources.partitions {
		s := p.src
		if s == nil || s.stopped() || p.since.IsZero() || now.Sub(p.last) >= activeFor {
			continue
		}
		if busiest == nil || s.inFlight > busiest.inFlight {
			busiest = s
		}
		if calmest == nil || s.held < calmest.held {
			calmest = s
		}
	}
	switch {
	case h.full >= fullTicks && owned > 1 && busiest != nil:
		h.full, h.ticks = 0, 0
		e.Log.Info("every call is taken; giving up the busiest partition", "queue", busiest.queue, "owned", owned)
		e.leave(busiest, "overloaded")
	case owned > part && calmest != nil:
		h.ticks = 0
		e.leave(calmest, "balance")
	}
}
