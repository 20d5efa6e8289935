package dispatch

import (
	"context"
	"time"

	"chatclub/internal/breaker"
	"chatclub/internal/excess"
)

const (
	// tickEvery is how often what does not happen by itself is looked for.
	tickEvery = time.Second
	// pausedAfter is how much later than due a tick shows that the process was
	// paused: what it held may be another's by now.
	pausedAfter = 5 * time.Second
	// lookEvery bounds the time until the engine looks again, whatever it
	// computed.
	lookEvery = 2 * time.Second
	// settleEvery is the same while queues are given up, which has bounds in time.
	settleEvery = 10 * time.Millisecond
)

// engine is the state of one Run. All of it belongs to the goroutine of loop.
type engine struct {
	*Dispatcher

	gate    *excess.Map
	breaker *breaker.Breaker
	pages   pages
	people  people
	denials map[string]denial // by page
	sources sources
	lanes   lanes
	calls   *calls
	settler *settler
	timers  timers
	ticked  time.Time
	ending  bool // nothing more is taken or sent
}

func newEngine(d *Dispatcher) (*engine, error) {
	calls, err := newCalls(d)
	if err != nil {
		return nil, err
	}
	return &engine{
		Dispatcher: d,
		gate:       excess.New(excess.Config{Limit: d.Limit, Random: d.Random}),
		breaker:    breaker.New(d.Random),
		pages:      newPages(),
		people:     newPeople(),
		denials:    make(map[string]denial),
		sources:    newSources(d),
		calls:      calls,
		settler:    newSettler(d),
		ticked:     d.Now(),
	}, nil
}

// loop decides, until the end or until all is done. What handles an event only
// changes the state, and marks what that may have made possible; advance does it.
func (e *engine) loop(end <-chan struct{}, done func() bool) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		e.advance()
		e.metrics.held.Set(float64(e.pages.held))
		e.metrics.inFlight.Set(float64(e.calls.inFlight))
		e.metrics.waiting.Set(float64(len(e.calls.waiting)))
		if done() {
			return
		}
		wait := e.timers.next(e.Now())
		if len(e.sources.leaving) > 0 {
			wait = min(wait, settleEvery)
		}
		timer.Reset(wait)
		select {
		case <-end:
			return
		case list := <-e.sources.arrivals:
			e.checkPause()
			e.sources.inbox = list
		case c := <-e.calls.results:
			e.checkPause()
			e.ended(c)
			for range len(e.calls.results) { // to be woken for each costs more than all else here
				e.advance()
				e.ended(<-e.calls.results)
			}
		case <-e.settler.more:
			e.settled()
		case f := <-e.posts:
			e.checkPause()
			f(e)
		case <-timer.C:
			e.checkPause()
			e.timers.run(e.Now())
		}
	}
}

// advance sends what an event made possible, and goes on with what is given up.
// Then it takes what arrived, one message after another.
func (e *engine) advance() {
	for {
		if e.calls.freed { // for those that waited, before all others
			e.calls.freed = false
			e.drainWaiting()
		}
		for i := 0; i < len(e.pages.changed); i++ {
			l := e.pages.changed[i]
			l.changed = false
			e.pump(l)
		}
		e.pages.changed = e.pages.changed[:0]
		for _, s := range e.sources.leaving {
			e.settleSource(s)
		}
		if len(e.sources.inbox) == 0 {
			return
		}
		m := e.sources.inbox[0]
		e.sources.inbox = e.sources.inbox[1:]
		e.arrive(m)
	}
}

// post has the engine call f. It is for those who work beside the engine, and
// does nothing once that has ended.
func (e *engine) post(f func(*engine)) {
	select {
	case e.posts <- f:
	case <-e.sources.ended:
	}
}

// beside runs f outside the engine, with a context that ends after most. Then it calls
// then in the engine, with f's error.
func (e *engine) beside(most time.Duration, f func(ctx context.Context) error, then func(e *engine, err error)) {
	e.sources.feeders.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), most)
		defer cancel()
		err := f(ctx)
		e.post(func(e *engine) { then(e, err) })
	})
}

// checkPause gives up what was held while the process did not run. It comes
// before all else, because what was held may be another's by now.
func (e *engine) checkPause() {
	now := e.Now()
	if now.Sub(e.ticked) <= tickEvery+pausedAfter {
		return
	}
	e.ticked = now
	e.Log.Warn("this process was paused; what it held goes back to its queues")
	e.leaveAll("paused")
}

// tick looks for what does not happen by itself.
func (e *engine) tick() {
	now := e.Now()
	e.ticked = now
	e.timers.add(now.Add(tickEvery), e.tick)
	for _, page := range e.breaker.Check(now) {
		e.Log.Warn("page does not answer; probing it", "page", page)
	}
	e.checkSilence(now)
	e.checkSources(now)
	e.checkLanes(now)
	e.gate.Sweep(now)
	e.pages.sweepTraffic(now)
	e.people.sweep(now)
	e.tellNews(now)
	if n := e.suspended.sweep(now); n > 0 {
		e.Log.Info("suspended pages that nothing was sent to are forgotten", "pages", n)
	}
	e.observe()
}

// observe sets the gauges that need a look at everything.
func (e *engine) observe() {
	_, excess := e.gate.Len()
	e.metrics.excess.Set(float64(excess))
	e.metrics.sick.Set(float64(e.breaker.OpenPages()))
	e.metrics.failing.Set(float64(e.people.len()))
	e.metrics.lanes.Set(float64(len(e.lanes.list)))
	e.metrics.partitions.Set(float64(len(e.sources.owned(e.Now()))))
	e.metrics.limit.Set(float64(e.calls.limit.Limit()))
	e.apiDown.Store(e.breaker.IsOpen())
}
