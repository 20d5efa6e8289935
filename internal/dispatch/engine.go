package dispatch

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/internal/aimd"
	"chatclub/internal/queue/transfer"
)

const (
	// tickEvery is how often lanes are checked for progress.
	tickEvery = time.Second
	// stuckAfter is how long a lane may make no progress, though something of it
	// could be sent, before nothing more is. The replica gives the lane up when
	// the calls in flight, which may still be answered, have ended.
	stuckAfter = 5 * time.Second
	// fullTicks is for how many ticks in a row all calls are taken before a
	// replica gives up a lane. It gives up one only if it owns more than its
	// part.
	fullTicks = 3
)

// engine is the state of one Run. All of it belongs to the goroutine of loop,
// except the channels and what says otherwise.
type engine struct {
	*Dispatcher

	arrivals chan *item    // from `outbound` and the lanes
	bulk     chan *item    // from `outbound.bulk`, taken only while there is room
	due      chan result   // calls to make; as many places as calls
	results  chan result   // of calls; as many places as calls, so that no call waits
	closed   chan *source  // whose subscription has ended: what is held of it is stale
	stopped  chan struct{} // closed when nothing more is taken

	calls       context.Context // of the calls: outlives Run's until the shutdown timeout
	abort       context.CancelFunc
	feeders     sync.WaitGroup // goroutines that feed the channels
	callers     sync.WaitGroup
	settlers    sync.WaitGroup
	endSettling context.CancelFunc
	replicas    atomic.Int64 // as the broker counts them
	probing     atomic.Bool  // the API does not answer: a few messages at a time are taken from each queue
	moves       *transfer.Mover
	outbound    *source
	bulkIn      *source
	laneIn      []*source

	seq        uint64
	inFlight   int
	workers    int // goroutines that make calls: as many as there ever were in flight
	held       int // held of pages that are on no lane
	freeCalls  int // of them in calls
	pages      map[pageID]*pageQueue
	recipients *recipientOrder
	timers     timers
	ready      []*pageQueue // wait for a call to end
	limit      *aimd.Limiter
	lanes      []lane
	deferred   []deferred      // messages of them that were taken, and are neither their pages' nor on their way yet
	toldBusy   map[string]bool // pages that core was told of since the last tick
	stopping   bool            // nothing more is sent
	answered   time.Time       // when the API last answered, or nothing was asked of it
	free       lane            // whether what is on no lane may be sent, and is being given up
	full       int             // ticks in a row in which all calls were taken
	latency    time.Duration
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
		arrivals:   make(chan *item),
		bulk:       make(chan *item),
		due:        make(chan result, d.MaxInFlight),
		results:    make(chan result, d.MaxInFlight),
		closed:     make(chan *source),
		stopped:    make(chan struct{}),
		calls:      calls, abort: abort,
		moves: transfer.New(transfer.Config{
			Publisher: d.Broker, Log: d.Log, Now: d.Now, Random: d.Random, Stale: d.metrics.stale,
		}),
		laneIn:     make([]*source, n),
		pages:      make(map[pageID]*pageQueue),
		recipients: newRecipientOrder(),
		toldBusy:   make(map[string]bool),
		limit:      limit,
		lanes:      make([]lane, n),
	}
	e.answered = e.Now()
	e.startSettlers()
	return e, nil
}

// loop decides until ctx ends.
func (e *engine) loop(ctx context.Context) {
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		e.sendDeferred()
		bulk := e.bulkChannel()
		due.Reset(e.untilTimer())
		select {
		case <-ctx.Done():
			return
		case m := <-e.arrivals:
			e.arrive(m)
		case r := <-e.results:
			e.ended(r)
		case m := <-bulk:
			e.takeBulk(m)
		case s := <-e.closed:
			e.purge(s)
		case <-due.C:
			e.fireTimers()
		case <-tick.C:
			e.tick()
		case answer := <-e.asks:
			answer <- e.waiting()
		}
		e.metrics.held.Set(float64(e.held))
		e.metrics.waiting.Set(float64(e.held - e.freeCalls))
	}
}

// untilTimer returns how long until the next timer.
func (e *engine) untilTimer() time.Duration {
	if len(e.timers) == 0 {
		return time.Hour
	}
	return max(0, e.timers[0].at.Sub(e.Now()))
}

// fireTimers looks again at what is due.
func (e *engine) fireTimers() {
	now := e.Now()
	for len(e.timers) > 0 && !e.timers[0].at.After(now) {
		t := heap.Pop(&e.timers).(timer) //nolint:forcetypeassert // only timers are pushed
		switch {
		case t.item != nil:
			e.enqueue(t.item)
		case t.page == nil: // for a deferred message: the loop comes round to it
		case t.page.wakeAt.Equal(t.at):
			t.page.wakeAt = time.Time{}
			e.pump(t.page)
		}
	}
}

// wake makes the engine look at a page after wait.
func (e *engine) wake(q *pageQueue, wait time.Duration) {
	q.wakeAt = e.Now().Add(wait)
	heap.Push(&e.timers, timer{at: q.wakeAt, page: q})
}
