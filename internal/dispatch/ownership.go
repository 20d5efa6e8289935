package dispatch

import (
	"context"
	"time"

	"chatclub/internal/partitions"
)

const (
	// minRest and maxRest bound how long a replica whose API is silent stays behind
	// all others: twice as long each time.
	minRest = time.Minute
	maxRest = 16 * time.Minute
	// arrivalTime is what a delivery takes at most from the broker to the engine, unless
	// either is late.
	arrivalTime = 100 * time.Millisecond
)

// standing is this replica's place among the others, and whether it is on trial.
type standing struct {
	partitions.Place
	trial    bool
	until    time.Time // when the trial ends
	silences int       // in a row
	silent   time.Time // when the last one was seen; zero: a call that began later was answered
	checked  time.Time // when it was looked whether others have the slot
}

// priority is that of this replica's subscription of a partition. The queue for all pages
// has that of the first one.
func (s *standing) priority(partition int) int { return s.Priority(max(0, partition), s.trial) }

// places is how this replica finds its place.
func (d *Dispatcher) places() partitions.Config {
	return partitions.Config{Broker: d.Broker, Slots: d.Broker.Topology().Slots(), Log: d.Log, Random: d.Random}
}

// findSlot takes a slot, however long that takes, and then begins to consume.
func (e *engine) findSlot() {
	e.others.Go(func() {
		if p, alone, ok := e.places().Find(e.sources.quit); ok {
			e.post(func() { e.enter(p, alone) })
		}
	})
}

// enter begins to consume with a slot's priorities, on trial where others are there.
// If it had another slot before, it takes its place at once.
func (e *engine) enter(p partitions.Place, alone bool) {
	now, old := e.Now(), e.standing.Place
	if e.ending {
		e.closeSlot(p)
		return
	}
	e.standing = standing{Place: p, trial: !alone && old.Ranks == nil, until: now.Add(partitions.TrialTime), checked: now}
	e.closeSlot(old)
	e.renewAll("rank")
}

// closeSlot gives a slot up.
func (e *engine) closeSlot(p partitions.Place) { e.others.Go(p.Close) }

// checkStanding ends a trial that is over, and finds another slot where somebody has
// taken the same.
func (e *engine) checkStanding(now time.Time) {
	s := &e.standing
	if s.trial && !now.Before(s.until) && !e.silent.Load() {
		e.takePlace()
	}
	if s.Sub == nil || now.Sub(s.checked) < partitions.SlotCheck || e.ending {
		return
	}
	s.checked = now
	place, taken := s.Place, false
	e.beside(askBroker, func(ctx context.Context) (err error) {
		taken, err = e.places().IsTaken(ctx, place)
		return err
	}, func(err error) {
		if err == nil && taken && e.Random() < 0.5 { // the other one may find one, too
			e.findSlot()
		}
	})
}

// takePlace ends the trial: this replica's partitions come to it.
func (e *engine) takePlace() {
	if e.standing.trial && !e.ending {
		e.standing.trial = false
		e.renewAll("rank")
	}
}

// checkRank finds out whether this replica is outranked: it holds something, is
// delivered nothing, and more waits. Then the broker waits for it to hold nothing.
func (e *engine) checkRank(c *claim, now time.Time) {
	if c.leaving || c.asking {
		return
	}
	for _, s := range c.sources {
		if s.held == 0 || s.free() <= 0 || now.Sub(s.came) < partitions.LookAfter || len(s.sub.Deliveries()) > 0 {
			continue
		}
		came := s.came
		c.asking = true
		e.askReady(s.queue, func(ready int, err error) {
			if c.asking = false; err != nil || ready == 0 {
				return
			}
			e.timers.add(e.Now().Add(arrivalTime), func() {
				if !c.leaving && !e.ending && s.held > 0 && s.came.Equal(came) {
					e.renew(c.partition, "outranked")
				}
			})
		})
		return
	}
}

// watchSilence looks now and then whether the API answers.
func (e *engine) watchSilence() {
	now := e.Now()
	e.checkSilence(now)
	e.timers.add(now.Add(silenceEvery), e.watchSilence)
}

// checkSilence goes behind all others when the API answers nothing here: they may
// fare better. Where nobody else is there nothing changes. While the app is throttled
// the API does answer.
func (e *engine) checkSilence(now time.Time) {
	silent := e.circuits.Silent(now, !e.standing.silent.IsZero())
	if silent && !e.silent.Load() {
		e.Log.Warn("the API does not answer", "calls", e.calls.inFlight)
		s := &e.standing
		s.until = now.Add(min(minRest<<min(s.silences, 5), maxRest))
		s.silences++
		s.silent = now
		e.stepBack()
	}
	e.silent.Store(silent)
}

// stepBack goes behind all others, if there are any and the API is still silent. It tries
// again where the broker does not say.
func (e *engine) stepBack() {
	mayStep := func() bool { return !e.standing.silent.IsZero() && !e.standing.trial && !e.ending }
	if !mayStep() {
		return
	}
	others, slot := false, e.standing.Slot
	e.beside(askBroker, func(ctx context.Context) error {
		for i, name := range e.Broker.Topology().Slots() {
			info, err := e.Broker.Inspect(ctx, name)
			if err != nil {
				return err
			}
			others = others || info.Consumers > 0 && i != slot
		}
		return nil
	}, func(err error) {
		switch {
		case err != nil:
			e.timers.add(e.Now().Add(consumeRetry), e.stepBack)
		case others && mayStep():
			e.standing.trial = true
			e.renewAll("silent")
		}
	})
}

// answered notes that the API answers: this replica is as good as others, and its
// trial is over. Late answers to calls from before a silence say nothing of that.
func (e *engine) answered(now, began time.Time) {
	s := &e.standing
	if began.Before(s.silent) {
		return
	}
	e.silent.Store(false)
	s.silences, s.silent = 0, time.Time{}
	if s.trial {
		s.until = now
	}
}
