package dispatch

import (
	"context"
	"time"

	"chatclub/internal/circuit"
	"chatclub/internal/partitions"
)

const (
	// restTime is the time for which a replica whose API is silent stays behind all
	// others before it asks the API, and the period of asking again. Where the API
	// answers questions but no call, each rest is twice the one before, maxRest at most.
	// So long a slow API is not silent after a rest, either.
	restTime = 30 * time.Second
	maxRest  = 5 * time.Minute
	// askAPI bounds a question to the API.
	askAPI = 5 * time.Second
	// commonTime is the time for which a silence is said to be the same for all others, unless
	// a call is answered in less than slowTime.
	commonTime = 30 * time.Minute
	slowTime   = 3 * time.Second
	// unheardTime is the time without an answer, while calls are made, after which an
	// owner asks the API; askEvery is the period of asking again.
	unheardTime = 5 * time.Second
	askEvery    = 10 * time.Second
	// heardTime is the time since an answer up to which a slow API is not silent.
	heardTime = time.Second
)

// standing is this replica's place among the others. Where its priorities change, it has
// the partitions renewed.
type standing struct {
	*run
	partitions.Place
	checked time.Time // when it was looked whether others have the slot

	trial bool      // it is behind all others: as a newcomer or, with silentAt, at rest
	until time.Time // when the API is asked whether the trial may end; zero: it has answered

	isSilent bool          // calls of several pages hang
	restedAt time.Time     // when the last rest ended
	silentAt time.Time     // when the API was found silent; zero: it answers
	again    bool          // the latest rest followed another one, and nothing was answered between
	nextRest time.Duration // its least length; not zero: since the last one began no call was answered
	common   time.Time     // when a call was made during a rest: the others rest, too
	asked    time.Time     // when an owner asked it last
	looked   time.Time     // when checkSilence looked last, or will look next

	circuits *circuit.Circuits
	calls    *calls
	renewAll func(reason string)
	quit     chan struct{} // closed when no place is looked for any more
}

// priority is that of this replica's subscription of a partition. The queue for all pages
// has that of the first one.
func (s *standing) priority(partition int) int { return s.Priority(max(0, partition), s.trial) }

// places returns the configuration of the search for this replica's place.
func (d *Dispatcher) places() partitions.Config {
	return partitions.Config{Broker: d.Broker, Slots: d.Broker.Topology().Slots(), Log: d.Log, Random: d.Random, Watch: d.Watch}
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
// If it had another slot before, its standing is the same as before.
func (s *standing) enter(p partitions.Place, alone bool) {
	now, old := s.Now(), s.Place
	if s.ending {
		s.closeSlot(p)
		return
	}
	if old.Ranks == nil {
		s.trial, s.until = !alone, now.Add(partitions.TrialTime)
	}
	s.Place, s.checked = p, now
	s.closeSlot(old)
	s.renewAll("rank")
}

// closeSlot gives a slot up.
func (s *standing) closeSlot(p partitions.Place) { s.others.Go(p.Close) }

// check ends a trial that is over, and finds another slot where somebody has
// taken the same.
func (s *standing) check(now time.Time) {
	switch {
	case !s.trial:
	case s.until.IsZero():
		s.takePlace()
	case !now.Before(s.until):
		s.tryPlace(now)
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

// tryPlace ends the trial if the API answers. While others have its partitions no call
// of this replica tells. One that gets no answer stays behind them.
func (s *standing) tryPlace(now time.Time) {
	was := s.silentAt
	if s.until = now.Add(partitions.TrialTime); !was.IsZero() {
		s.until = now.Add(restTime)
	}
	s.ask(func(err error) {
		switch {
		case err != nil: // so an answer says something
			s.nextRest = 0
		case s.silentAt.Equal(was):
			s.takePlace()
		}
	})
}

// ask asks the API for nothing, to learn whether it answers.
func (s *standing) ask(then func(err error)) {
	s.question(s.Sender.Reach, func(err error) {
		if s.ending {
			return
		}
		if err != nil {
			s.Log.Warn("the API does not answer", "error", err)
		} else if s.circuits.Heard(); !s.trial && !s.isSilent { // one that rests has to take its place, too
			s.hears()
		}
		then(err)
	})
}

// question asks the API something, until the engine ends.
func (s *standing) question(f func(ctx context.Context) error, then func(err error)) {
	s.beside(askAPI, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-s.quit:
				cancel()
			case <-ctx.Done():
			}
		}()
		return f(ctx)
	}, then)
}

// takePlace ends the trial: this replica's partitions come to it.
func (s *standing) takePlace() {
	if s.trial && !s.ending {
		s.trial = false
		if !s.silentAt.IsZero() {
			s.restedAt = s.Now()
		}
		s.hears()
		s.renewAll("rank")
	}
}

// watchSilence looks now and then whether the API answers.
func (s *standing) watchSilence() {
	now := s.Now()
	s.checkSilence(now)
	s.timers.add(now.Add(silenceEvery), s.watchSilence)
}

// checkSilence goes behind all others when the API answers nothing here: they may
// fare better. Where many calls hang it does so at once. Else, where calls fail or hang and
// none is answered, it asks the API first: single pages may be at fault, or persons. After
// a rest that no answered call has followed, failures of several pages are enough. While
// the app is throttled the API does answer. After a pause of the process, answers are there
// and not yet read. Where a rest has not made the answers quicker, the API is probably slow
// for all.
func (s *standing) checkSilence(now time.Time) {
	if now.Sub(s.looked) > time.Second {
		s.looked = now.Add(time.Second)
	}
	if now.Before(s.looked) {
		return
	}
	s.looked = now
	was := s.isSilent
	s.isSilent = s.circuits.Silent(now, s.nextRest > 0)
	if now.Sub(s.restedAt) < maxRest && s.circuits.Unheard(now) < heardTime {
		s.isSilent = false
	}
	s.silent.Store(s.isSilent || !s.silentAt.IsZero() || s.circuits.Unheard(now) >= unheardTime)
	switch {
	case s.trial && !s.silentAt.IsZero(): // tryPlace asks
	case s.isSilent && !was:
		s.rest(now)
	case s.circuits.Unheard(now) >= unheardTime && now.Sub(s.asked) >= askEvery:
		s.asked = now
		if s.isSilent || s.nextRest > 0 && s.circuits.IsOpen() {
			s.rest(now)
			return
		}
		s.ask(func(err error) {
			if now := s.Now(); err != nil && s.circuits.Unheard(now) >= unheardTime {
				s.rest(now)
			}
		})
	}
}

// calling notes that a call is made. One that rests is delivered something only where all
// others rest, too, or there are none.
func (s *standing) calling(now time.Time) {
	if s.trial && !s.silentAt.IsZero() {
		s.common = now
	}
}

// rest goes behind all others until the API answers, unless it is silent for all of them:
// each change of owner costs a message a call.
func (s *standing) rest(now time.Time) {
	if s.silentAt.IsZero() && now.Sub(s.common) >= commonTime {
		s.Log.Warn("no call is answered; if others are there, they get the partitions", "calls", s.calls.inFlight)
		d := max(restTime, s.nextRest)
		s.again = s.nextRest > 0
		s.silentAt, s.until, s.nextRest = now, now.Add(d), min(2*d, maxRest)
		s.stepBack()
	}
}

// hears ends a silence.
func (s *standing) hears() { s.silentAt = time.Time{} }

// isMute reports whether calls in flight have probably no answer to come. One that rests
// has calls again, with answers, where the others rest too and the API is back.
func (s *standing) isMute() bool {
	return s.isSilent || !s.silentAt.IsZero() && s.circuits.Unheard(s.Now()) >= unheardTime
}

// stepBack goes behind all others, if there are any and the API is still silent. It tries
// again where the broker does not say.
func (s *standing) stepBack() {
	mayStep := func() bool { return !s.silentAt.IsZero() && !s.trial && !s.ending }
	if !mayStep() {
		return
	}
	others, slot := false, s.Slot
	names := s.Broker.Topology().Slots()
	from := int(s.Random() * float64(len(names))) // one that gives no answer takes all the time
	s.beside(askBroker, func(ctx context.Context) error {
		var failed error
		for k := range names {
			i := (from + k) % len(names)
			info, err := s.Broker.Inspect(ctx, names[i])
			if others = info.Consumers > 1 || info.Consumers == 1 && i != slot; others {
				return nil
			}
			if err != nil {
				failed = err
			}
		}
		return failed
	}, func(err error) {
		switch {
		case err != nil:
			s.timers.add(s.Now().Add(consumeRetry), s.stepBack)
		case others && mayStep():
			s.trial = true
			s.renewAll("silent")
		case !others: // it goes on, and asks again
			s.hears()
			s.nextRest = 0
		}
	})
}

// answered notes that the API answers: this replica is as good as others, and a
// newcomer's trial is over. One that rests asks after restTime. Late answers to calls
// from before a silence say nothing of that.
func (s *standing) answered(began time.Time) {
	if began.Before(s.silentAt) {
		return
	}
	if s.nextRest = 0; s.Now().Sub(began) < slowTime {
		s.common = time.Time{}
	}
	switch first := s.silentAt.Add(restTime); {
	case !s.trial:
		s.hears()
	case s.silentAt.IsZero():
		s.until = time.Time{}
	case s.until.After(first):
		s.until = first
	}
}
