package dispatch

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/internal/aimd"
)

const (
	// tickEvery is how often lanes are checked for progress.
	tickEvery = time.Second
	// stuckAfter is how long a lane may make no progress while the API could be
	// called before this replica gives it up.
	stuckAfter = 5 * time.Second
	// fullTicks is how many ticks in a row all calls are taken before a replica
	// that owns more than its part of the lanes gives one up.
	fullTicks = 3
)

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
	broadcasts []aside         // messages of them that were taken, and are neither their pages' nor on their way yet
	toldBusy   map[string]bool // pages that core was told of since the last tick
	stopping   bool            // nothing more is sent
	answered   time.Time       // when the API last answered, or nothing was asked of it
	canary     bool            // it does not: one message at a time is taken
	full       int             // ticks in a row in which all calls were taken
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
		moves:    newMover(d),
		laneIn:   make([]*source, n),
		pages:    make(map[pageID]*pageQueue),
		lines:    newLines(),
		toldBusy: make(map[string]bool),
		limit:    limit,
		lanes:    make([]lane, n),
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
		case a.page == nil: // for a broadcast that was set aside: the loop has turned
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
