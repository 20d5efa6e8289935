package dispatch

import (
	"errors"
	"time"

	"chatclub/internal/circuit"
	"chatclub/internal/excess"
)

const (
	// tickEvery is the period of the housekeeping in tick.
	tickEvery = time.Second
	// silenceEvery is the period of the check whether the API answers.
	silenceEvery = 250 * time.Millisecond
	// pausedAfter is the longest delay of a tick while the process runs. With a longer
	// one the process was paused: what it held may be another's by now.
	pausedAfter = 5 * time.Second
	// lookEvery bounds the time until the engine looks again, whatever it
	// computed.
	lookEvery = 2 * time.Second
)

// engine decides. All of it belongs to the goroutine of loop. Each part knows only parts
// that stand before it; standing is given a function to renew all claims.
type engine struct {
	*run
	gate      *excess.Map
	circuits  *circuit.Circuits
	settler   *settler
	pages     *pages
	lanes     *lanes
	markers   *markers
	calls     *calls
	standing  *standing
	claims    *claims
	outcomes  *outcomes
	forecasts *forecasts
	news      *news
	strays    *strays
	tokenless *tokenless

	ticked time.Time
}

func newEngine(d *Dispatcher) (*engine, error) {
	calls, err := newCalls(d)
	if err != nil {
		return nil, err
	}
	r, circuits := &run{Dispatcher: d}, circuit.New(d.Random, d.MaxAttempts)
	e := &engine{run: r, circuits: circuits, calls: calls, news: &news{run: r}}
	e.pages = newPages(r, circuits)
	e.gate, e.settler, e.tokenless = e.pages.gate, e.pages.settler, e.pages.tokenless
	e.lanes = &lanes{run: r, pages: e.pages}
	e.markers = &markers{run: r, lanes: e.lanes}
	e.standing = &standing{run: r, circuits: circuits, calls: calls, quit: make(chan struct{})}
	e.claims = newClaims(r, e.markers, e.standing)
	e.standing.renewAll = e.claims.renewAll
	e.outcomes = &outcomes{run: r, circuits: circuits, pages: e.pages, lanes: e.lanes, settler: e.settler, claims: e.claims, sent: &calls.sent}
	e.forecasts = &forecasts{run: r, pages: e.pages, claims: e.claims}
	e.strays = &strays{Dispatcher: d, settler: e.settler, logged: make(map[string]bool)}
	return e, nil
}

// loop decides, until the end or until all is done. What handles an event makes no call:
// it marks what the event may have made possible, and advance does that.
func (e *engine) loop(end <-chan struct{}, done func() bool) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer e.turned.Store(0)
	for {
		e.turned.Store(e.Now().UnixNano())
		e.advance()
		e.metrics.held.Set(float64(e.pages.inHand))
		e.metrics.inFlight.Set(float64(e.calls.inFlight))
		e.metrics.limit.Set(float64(e.calls.limit.Limit()))
		e.metrics.turns.Set(float64(len(e.calls.turns)))
		if done() {
			return
		}
		timer.Reset(e.timers.next(e.Now()))
		select {
		case <-end:
			return
		case list := <-e.claims.arrivals:
			e.checkPause()
			e.claims.inbox = list
		case c := <-e.calls.results:
			e.ended(c)
			e.checkPause()
			for range len(e.calls.results) { // to be woken for each costs more than all else here
				e.advance()
				e.ended(<-e.calls.results)
			}
		case <-e.settler.more:
			e.outcomes.moved()
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
			e.giveTurns()
		}
		for i := 0; i < len(e.pages.changed); i++ {
			l := e.pages.changed[i]
			l.changed = false
			e.pump(l)
		}
		e.pages.changed = e.pages.changed[:0]
		for _, c := range e.claims.all {
			if c.isGivenUp() {
				e.claims.settle(c)
			}
		}
		if len(e.claims.inbox) == 0 {
			return
		}
		m := e.claims.inbox[0]
		e.claims.inbox = e.claims.inbox[1:]
		e.arrive(m)
	}
}

// post has the engine call f. It is for those who work beside the engine, and
// does nothing once that has ended.
func (d *Dispatcher) post(f func(*engine)) {
	select {
	case d.posts <- f:
	case <-d.finished:
	}
}

// checkPause gives up what was held while the process did not run, before anything is
// sent: it may be another's by now.
func (e *engine) checkPause() {
	now := e.Now()
	if now.Sub(e.ticked) <= tickEvery+pausedAfter {
		return
	}
	e.ticked = now
	for range len(e.calls.results) {
		e.ended(<-e.calls.results)
	}
	e.Log.Warn("this process was paused; what it held goes back to its queues")
	e.claims.renewAll("paused")
}

// tick looks for what does not happen by itself.
func (e *engine) tick() {
	now := e.Now()
	e.ticked = now
	e.timers.add(now.Add(tickEvery), e.tick)
	e.standing.checkSilence(now) // before a page that hangs because of it is taken for sick
	e.logChanges(e.circuits.Check(now), "", errors.New("it does not answer"))
	e.askAbout(e.circuits.Suspects(now))
	e.standing.check(now)
	e.watch(now)
	e.claims.check(now)
	e.gate.Sweep(now)
	e.pages.sweepTraffic(now)
	e.tokenless.check(now, e.pages)
	e.news.tell()
	e.observe()
}

// observe sets the gauges that need a look at everything.
func (e *engine) observe() {
	_, excess := e.gate.Len()
	e.metrics.excess.Set(float64(excess))
	sick, suspended, people := e.circuits.Open()
	e.metrics.sick.Set(float64(sick))
	e.metrics.suspended.Set(float64(suspended + len(e.tokenless.pages)))
	e.metrics.paused.Set(float64(len(e.paused(e.Now()))))
	e.metrics.failing.Set(float64(people))
	e.metrics.lanes.Set(float64(e.claims.lanesUsed()))
	e.metrics.partitions.Set(float64(len(e.claims.owned(e.Now()))))
	e.apiDown.Store(e.circuits.IsOpen())
}

// start begins the housekeeping and looks for a place among the dispatchers. With that
// it consumes.
func (e *engine) start() {
	e.settler.start()
	e.ticked = e.Now() // the orders may have been waited for
	e.timers.add(e.ticked.Add(tickEvery), e.tick)
	e.standing.watchSilence()
	e.forecasts.look()
	e.standing.find()
}
