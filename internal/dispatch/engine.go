package dispatch

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/internal/aimd"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

const (
	// park is how many messages of one free page may wait here: with more the
	// page has more than its share, and they wait better on disk.
	park = 32
	// tickEvery is how often lanes are checked for progress.
	tickEvery = time.Second
	// stuckAfter is how long a lane may make no progress while the API could be
	// called before this replica gives it up.
	stuckAfter = 5 * time.Second
	// fullTicks is how many ticks in a row all calls are taken before a replica
	// that owns more than its part of the lanes gives one up.
	fullTicks = 3
)

// result is a call, and once it has ended what it came to.
type result struct {
	job   *job
	pass  excess.Pass
	probe bool
	sender.Result
}

// engine is the state of one Run. All of it belongs to the goroutine of loop,
// but for the channels and what says otherwise.
type engine struct {
	*Dispatcher

	arrivals chan *job     // from `outbound` and the lanes
	bulk     chan *job     // from `outbound.bulk`, taken only while there is room
	due      chan result   // calls to make; as many places as calls
	results  chan result   // of calls; as many places as calls, so that no call waits
	closed   chan int      // lanes whose subscription has ended: what is held of them is stale
	stopped  chan struct{} // closed when nothing more is taken

	calls       context.Context // of the calls: outlives Run's until the shutdown timeout
	abort       context.CancelFunc
	feeders     sync.WaitGroup // goroutines that feed the channels
	callers     sync.WaitGroup
	settlers    sync.WaitGroup
	endSettling context.CancelFunc
	replicas    atomic.Int64 // as the broker counts them
	moves       *mover
	outbound    *source
	bulkIn      *source
	laneIn      []*source

	seq        uint64
	inFlight   int
	workers    int // goroutines that make calls: as many as there ever were in flight
	parked     int // held of pages that are on no lane
	freeCalls  int // of them in calls
	pages      map[pageID]*pageQueue
	lines      *lines
	alarms     alarms
	ready      []*pageQueue // wait for a call to end
	limit      *aimd.Limiter
	lanes      []lane
	broadcasts *broadcasts
	next       *job      // of a broadcast: taken, and neither its page's nor on its way yet
	nextAt     time.Time // the alarm set for it
	stopping   bool      // nothing more is sent
	answered   time.Time // when the API last answered, or nothing was asked of it
	canary     bool      // it does not: one message at a time is taken
	full       int       // ticks in a row in which all calls were taken
	latency    time.Duration
}

// lane is what the engine knows of a lane that is delivered to it, since it was
// last subscribed to.
type lane struct {
	term     int       // how often the lane was given up: calls from before do not count
	held     int       // messages of it in the engine's hands
	inFlight int       // calls of them
	progress time.Time // when one was answered, or the first came
	leaving  bool      // nothing more is sent; given up once its calls have ended
}

func newEngine(d *Dispatcher) (*engine, error) {
	limit, err := newLimiter(d.MaxInFlight, d.LatencyTarget)
	if err != nil {
		return nil, err
	}
	calls, abort := context.WithCancel(context.Background())
	n := d.Broker.Topology().Lanes
	e := &engine{
		Dispatcher: d,
		arrivals:   make(chan *job),
		bulk:       make(chan *job),
		due:        make(chan result, d.MaxInFlight),
		results:    make(chan result, d.MaxInFlight),
		closed:     make(chan int),
		stopped:    make(chan struct{}),
		calls:      calls, abort: abort,
		moves:      newMover(d),
		laneIn:     make([]*source, n),
		pages:      make(map[pageID]*pageQueue),
		lines:      newLines(),
		limit:      limit,
		lanes:      make([]lane, n),
		broadcasts: newBroadcasts(d.Random),
	}
	e.answered = e.Now()
	e.startSettlers()
	return e, nil
}

// loop decides until ctx ends.
func (e *engine) loop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		bulk := e.bulkNow()
		timer.Reset(e.untilAlarm())
		select {
		case <-ctx.Done():
			return
		case j := <-e.arrivals:
			e.arrive(j)
		case r := <-e.results:
			e.ended(r)
		case j := <-bulk:
			e.takeBulk(j)
		case i := <-e.closed:
			e.purge(i)
		case <-timer.C:
			e.alarm()
		case <-tick.C:
			e.tick()
		case answer := <-e.asks:
			answer <- e.waiting()
		}
		e.metrics.held.Set(float64(e.parked))
		e.metrics.parked.Set(float64(e.parked - e.freeCalls))
	}
}

// untilAlarm is how long until the next alarm.
func (e *engine) untilAlarm() time.Duration {
	if len(e.alarms) == 0 {
		return time.Hour
	}
	return max(0, e.alarms[0].at.Sub(e.Now()))
}

// alarm looks again at what is due.
func (e *engine) alarm() {
	now := e.Now()
	for len(e.alarms) > 0 && !e.alarms[0].at.After(now) {
		a := heap.Pop(&e.alarms).(alarm) //nolint:forcetypeassert // only alarms are pushed
		switch {
		case a.job != nil:
			e.enqueue(a.job)
		case a.page == nil: // for the broadcast in hand: the loop has turned
		case a.page.wakeAt.Equal(a.at):
			a.page.wakeAt = time.Time{}
			e.pump(a.page)
		}
	}
}

// wake makes the engine look at a page after wait.
func (e *engine) wake(q *pageQueue, wait time.Duration) {
	q.wakeAt = e.Now().Add(wait)
	heap.Push(&e.alarms, alarm{at: q.wakeAt, page: q})
}

// arrive takes a message into the engine's hands.
func (e *engine) arrive(j *job) {
	e.seq++
	j.seq = e.seq
	if j.lane != noLane {
		j.term = e.lanes[j.lane].term
	}
	if j.fault != nil {
		e.Log.Error("outbound message cannot be decoded", "id", j.delivery.ID, "err", j.fault)
		e.bury(j, rule{reason: message.ReasonUndecodable}, "")
		return
	}
	q := e.page(j)
	e.hold(q, j, +1)
	if j.lane == noLane {
		if e.Gate.Spills(j.key()) {
			e.hold(q, j, -1)
			e.spill(j)
			e.forget(q)
			return
		}
		e.checkPark(q)
	}
	if e.lines.join(j) {
		e.enqueue(j)
	}
}

// page is the queue that j belongs to.
func (e *engine) page(j *job) *pageQueue {
	if j.page != nil {
		return j.page
	}
	id := pageID{Key: j.key(), lane: j.lane}
	q := e.pages[id]
	if q == nil {
		q = &pageQueue{id: id}
		e.pages[id] = q
	}
	j.page = q
	return q
}

// hold counts j in (+1) or out (−1) of the engine's hands.
func (e *engine) hold(q *pageQueue, j *job, n int) {
	q.held += n
	if j.lane == noLane {
		e.parked += n
		return
	}
	l := &e.lanes[j.lane]
	if j.term != l.term {
		return
	}
	if l.held == 0 || n < 0 {
		l.progress = e.Now()
	}
	l.held += n
}

// forget drops a queue that holds nothing.
func (e *engine) forget(q *pageQueue) {
	if q.held == 0 {
		delete(e.pages, q.id)
	}
}

// checkPark puts a free page in excess when more of it waits for its share than
// should: more than park, or, while all pages together have half the prefetch
// waiting, more than one. What waits for a call to end, or for the API to
// come back, would be no better off on a lane.
func (e *engine) checkPark(q *pageQueue) {
	if !q.gated {
		return
	}
	if n := q.waiting(); n > park || n > 1 && e.parked-e.freeCalls > e.Prefetch/2 {
		e.Gate.Overflow(e.Now(), q.id.Key, n)
		e.pump(q)
	}
}

// enqueue makes j, the first in its line, one of those that can be sent.
func (e *engine) enqueue(j *job) {
	q := e.page(j)
	q.push(j)
	e.pump(q)
}

// release ends j's turn: it is settled, or given to those who settle it.
func (e *engine) release(j *job) {
	q := e.page(j)
	e.hold(q, j, -1)
	if next := e.lines.next(j); next != nil {
		e.page(next).push(next)
		if nq := e.page(next); nq != q {
			e.pump(nq)
		}
	}
	e.forget(q)
}

// pump sends of a page what may be sent now.
func (e *engine) pump(q *pageQueue) {
	for len(q.heap) > 0 && !e.stopping {
		if !e.step(q) {
			return
		}
	}
}

// step handles the first message of a page; false means: not now, nor those
// behind it.
func (e *engine) step(q *pageQueue) bool {
	now := e.Now()
	j := q.heap[0]
	if !j.delivery.Live() {
		q.pop()
		e.dropJob(j)
		return true
	}
	if r, code, dead := e.hopeless(j, now); dead {
		q.pop()
		e.bury(j, r, code)
		e.release(j)
		return true
	}
	if q.id.lane == noLane && e.Gate.Spills(q.id.Key) {
		q.pop()
		e.spill(j)
		e.release(j)
		return true
	}
	if q.id.lane != noLane && e.lanes[q.id.lane].leaving || q.wakeAt.After(now) {
		return false
	}
	if e.inFlight >= e.limit.Limit() {
		e.await(q)
		return false
	}
	wait, probe := e.valve.enter(now)
	if wait > 0 {
		e.wake(q, wait)
		return false
	}
	return e.offer(q, j, probe, now)
}

// offer asks the gate about j, the first of q.
func (e *engine) offer(q *pageQueue, j *job, probe bool, now time.Time) bool {
	var dec excess.Decision
	if q.id.lane == noLane {
		dec = e.Gate.Offer(now, q.id.Key, j.again)
	} else {
		dec = e.Gate.OfferLane(now, q.id.Key)
	}
	q.gated = false
	if dec.Do == excess.Send {
		q.pop()
		if !j.due.IsZero() {
			e.metrics.paceError.Observe(now.Sub(j.due).Seconds())
			j.due = time.Time{}
		}
		e.call(q, j, dec.Pass, probe)
		return true
	}
	if probe {
		e.valve.cancel()
	}
	switch dec.Do {
	case excess.Wait:
		q.gated = true
		if dec.Wait >= 0 { // otherwise the result pumps it
			e.wake(q, dec.Wait)
			if q.id.lane != noLane {
				j.due = q.wakeAt
			}
		}
		if q.id.lane == noLane && q.waiting() > park {
			e.checkPark(q)
		}
		return false
	case excess.Spill:
		q.pop()
		e.spill(j)
		e.release(j)
	case excess.Return:
		q.pop()
		e.giveBack(j, giveBackDelay)
		e.release(j)
	case excess.Send: // above
	}
	return true
}

// call has the call of j made.
func (e *engine) call(q *pageQueue, j *job, pass excess.Pass, probe bool) {
	e.count(q, j, +1)
	e.metrics.inFlight.Inc()
	if pass.Probe() {
		e.metrics.probes[probePage].Inc()
	}
	if probe {
		e.metrics.probes[probeAPI].Inc()
	}
	if j.probe {
		e.metrics.probes[probeStopped].Inc()
	}
	if e.inFlight > e.workers {
		e.workers++
		e.callers.Go(e.work)
	}
	e.due <- result{job: j, pass: pass, probe: probe} // has room: there is a worker for each call
}

// work makes calls, one after another, until the engine ends. Workers stay,
// because a goroutine for each call would grow its stack anew each time.
func (e *engine) work() {
	for r := range e.due {
		r.Result = e.Sender.Send(e.calls, r.job.out)
		e.results <- r
	}
}

// count counts a call of j, of page q, that begins (+1) or has ended (−1).
func (e *engine) count(q *pageQueue, j *job, n int) {
	e.inFlight += n
	q.inFlight += n
	if j.lane == noLane {
		e.freeCalls += n
	} else if l := &e.lanes[j.lane]; j.term == l.term {
		l.inFlight += n
	}
}

// ended settles a message by its call's outcome.
func (e *engine) ended(r result) {
	now := e.Now()
	j := r.job
	q := e.page(j)
	e.count(q, j, -1)
	e.metrics.inFlight.Dec()
	rule := settleRule(r.Outcome)
	dec := e.Gate.Done(now, r.pass, limitResult(r.Outcome))
	if answered(r.Result) { // a refusal is progress, too
		e.wasAnswered(now)
		if j.lane != noLane && j.term == e.lanes[j.lane].term {
			e.lanes[j.lane].progress = now
		}
	}
	e.observe(now, r.Result)
	shut := e.report(now, r, rule)
	e.settle(j, rule, dec, r.Result, shut)
	if len(e.ready) == 0 {
		e.pump(q)
	} else if len(q.heap) > 0 { // behind those that wait: the call that is free now is theirs
		e.await(q)
	}
	e.drainReady()
	if j.lane != noLane {
		e.leave(j.lane)
	}
}

// drainReady tries the pages that waited for a call to end, in turn.
func (e *engine) drainReady() {
	for len(e.ready) > 0 && e.inFlight < e.limit.Limit() && !e.stopping {
		q := e.ready[0]
		e.ready[0] = nil
		e.ready = e.ready[1:]
		q.ready = false
		if len(q.heap) == 0 {
			continue
		}
		// One message each, so that no page takes every call.
		if e.step(q) && len(q.heap) > 0 {
			e.await(q)
		}
	}
}

// await puts a page among those that wait for a call to end.
func (e *engine) await(q *pageQueue) {
	if !q.ready {
		q.ready = true
		e.ready = append(e.ready, q)
	}
}

// answered tells whether the API said something about the message or its page;
// a failing server or a lost connection did not.
func answered(res sender.Result) bool {
	return settleRule(res.Outcome).api != apiFails && res.Outcome != sender.Canceled
}

// limitResult is an outcome as the gate sees it.
func limitResult(o sender.Outcome) excess.Result {
	switch o {
	case sender.PageThrottled:
		return excess.Refused
	case sender.Sent, sender.Ambiguous:
		return excess.Accepted
	case sender.AppThrottled, sender.RecipientThrottled, sender.Transient, sender.RecipientGone,
		sender.WindowClosed, sender.NotOurs, sender.BadMessage, sender.PageStopped,
		sender.PageStoppedForATime, sender.Canceled:
		return excess.Other
	}
	return excess.Other
}
