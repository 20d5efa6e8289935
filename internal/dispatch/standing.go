package dispatch

import (
	"context"
	"time"

	"chatclub/internal/circuit"
	"chatclub/internal/partitions"
)

const (
	// minRest and maxRest bound the rest of a replica whose API is silent, behind all
	// others: twice as long each time.
	minRest = time.Minute
	maxRest = 16 * time.Minute
	// askAPI bounds a question to the API.
	askAPI = 10 * time.Second
)

// standing is this replica's place among the others. Where its priorities change, it has
// the partitions renewed.
type standing struct {
	*run
	place
	circuits *circuit.Circuits
	calls    *calls
	renewAll func(reason string)
	quit     chan struct{} // closed when no place is looked for any more
}

// place is a slot, and whether this replica is on trial.
type place struct {
	partitions.Place
	trial    bool
	until    time.Time // when the trial ends
	silences int       // in a row
	silentAt time.Time // when the last one was seen; zero: a call that began later was answered
	checked  time.Time // when it was looked whether others have the slot
}

// priority is that of this replica's subscription of a partition. The queue for all pages
// has that of the first one.
func (s *standing) priority(partition int) int { return s.Priority(max(0, partition), s.trial) }

// places returns the configuration of the search for this replica's place.
func (d *Dispatcher) places() partitions.Config {
	return partitions.Config{Broker: d.Broker, Slots: d.Broker.Topology().Slots(), Log: d.Log, Random: d.Random}
}

// find takes a slot, however long that takes, and then begins to consume.
func (s *standing) find() {
	s.others.Go(func() {
		if p, alone, ok := s.places().Find(s.quit); ok {
			s.post(func() { s.enter(p, alone) })
		}
	})
}

// enter begins to consume with a slot's priorities, on trial where others are there.
// If it had another slot before, it takes its place at once.
func (s *standing) enter(p partitions.Place, alone bool) {
	now, old := s.Now(), s.Place
	if s.ending {
		s.closeSlot(p)
		return
	}
	s.place = place{Place: p, trial: !alone && old.Ranks == nil, until: now.Add(partitions.TrialTime), checked: now}
	s.closeSlot(old)
	s.renewAll("rank")
}

// closeSlot gives a slot up.
func (s *standing) closeSlot(p partitions.Place) { s.others.Go(p.Close) }

// check ends a trial that is over, and finds another slot where somebody has
// taken the same.
func (s *standing) check(now time.Time) {
	switch {
	case !s.trial || now.Before(s.until) || s.silent.Load():
	case s.silentAt.IsZero():
		s.takePlace()
	default:
		s.tryAgain(now)
	}
	if s.Sub == nil || now.Sub(s.checked) < partitions.SlotCheck || s.ending {
		return
	}
	s.checked = now
	mine, taken := s.Place, false
	s.beside(askBroker, func(ctx context.Context) (err error) {
		taken, err = s.places().IsTaken(ctx, mine)
		return err
	}, func(err error) {
		if err == nil && taken && s.Random() < 0.5 { // the other one may find one, too
			s.find()
		}
	})
}

// takePlace ends the trial: this replica's partitions come to it.
func (s *standing) takePlace() {
	if s.trial && !s.ending {
		s.trial = false
		s.renewAll("rank")
	}
}

// tryAgain ends the rest after a silence if the API answers, or else rests for longer. While
// others have its partitions no call of this replica tells.
func (s *standing) tryAgain(now time.Time) {
	s.until = now.Add(minRest)
	s.beside(askAPI, s.Sender.Reach, func(err error) {
		if err != nil {
			s.Log.Warn("the API still does not answer", "error", err)
			return
		}
		s.takePlace()
	})
}

// watchSilence looks now and then whether the API answers.
func (s *standing) watchSilence() {
	now := s.Now()
	s.checkSilence(now)
	s.timers.add(now.Add(silenceEvery), s.watchSilence)
}

// checkSilence goes behind all others when the API answers nothing here: they may
// fare better. Where nobody else is there nothing changes. While the app is throttled
// the API does answer.
func (s *standing) checkSilence(now time.Time) {
	silent := s.circuits.Silent(now)
	if silent && !s.silent.Load() {
		s.Log.Warn("the API does not answer", "calls", s.calls.inFlight)
		s.until = now.Add(min(minRest<<min(s.silences, 5), maxRest))
		s.silences++
		s.silentAt = now
		s.stepBack()
	}
	s.silent.Store(silent)
}

// stepBack goes behind all others, if there are any and the API is still silent. It tries
// again where the broker does not say.
func (s *standing) stepBack() {
	mayStep := func() bool { return !s.silentAt.IsZero() && !s.trial && !s.ending }
	if !mayStep() {
		return
	}
	others, slot := false, s.Slot
	s.beside(askBroker, func(ctx context.Context) error {
		for i, name := range s.Broker.Topology().Slots() {
			info, err := s.Broker.Inspect(ctx, name)
			if err != nil {
				return err
			}
			others = others || info.Consumers > 0 && i != slot
		}
		return nil
	}, func(err error) {
		switch {
		case err != nil:
			s.timers.add(s.Now().Add(consumeRetry), s.stepBack)
		case others && mayStep():
			s.trial = true
			s.renewAll("silent")
		}
	})
}

// answered notes that the API answers: this replica is as good as others, and its
// trial is over. Late answers to calls from before a silence say nothing of that.
func (s *standing) answered(now, began time.Time) {
	if began.Before(s.silentAt) {
		return
	}
	s.silent.Store(false)
	s.silences, s.silentAt = 0, time.Time{}
	if s.trial {
		s.until = now
	}
}
