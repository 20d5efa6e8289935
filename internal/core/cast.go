package core

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"chatclub/internal/rooms"
)

const (
	// castLease is how long a core that died keeps its broadcasts from the
	// others. They look every castLook, so that one goes on within ten seconds;
	// and a database may be away for four before a lease is lost.
	castLease = 8 * time.Second
	castLook  = time.Second
	// castBeat is how far apart broadcasts may be due and still go together.
	castBeat = 100 * time.Millisecond
	// castBatch broadcasts share their round trips and their publish,
	// castWorkers such batches are on their way at a time.
	castBatch   = 50
	castWorkers = 4
	// bulkBound is how many messages may be ready on the bulk queue when more
	// are put there: some seconds of what one dispatcher sends. More would be
	// sent in one go by dispatchers that come back, and what one page cannot be
	// sent stands before all others'.
	bulkBound = 1000
	// inspectTimeout bounds the question for that.
	inspectTimeout = 2 * time.Second
)

// caster works on broadcasts: of each that it holds it puts on the bulk queue,
// once a second, what is due at its rate. The queue stays short, so that a
// broadcast that is slow or large delays no other. The messages are confirmed
// before it is written down how far it came; a core that dies in between
// leaves at most those of one turn, a second's worth, to be put there again
// under the same ids. Several cores on one database hold different broadcasts.
type caster struct {
	c      *Core
	holder string        // this run's name
	pokes  chan struct{} // one place: there is something to claim
	wakes  chan struct{} // one place: something was claimed
	open   atomic.Bool   // more may be put on the bulk queue
	full   bool          // it is too long; of look
	every  time.Duration // between two looks: castLook, but in tests of many hours

	mu    sync.Mutex
	casts map[string]*cast // what is held, by id
}

func newCaster(c *Core) *caster {
	return &caster{
		c: c, holder: rand.Text(), every: castLook, casts: make(map[string]*cast),
		pokes: make(chan struct{}, 1), wakes: make(chan struct{}, 1),
	}
}

// poke tells that there is a new broadcast.
func (r *caster) poke() { signal(r.pokes) }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run works until ctx ends; a turn that was begun is brought to its end, which
// work bounds. Then other cores may have what is held.
func (r *caster) run(ctx, work context.Context) {
	var looking sync.WaitGroup
	looking.Go(func() {
		for ctx.Err() == nil {
			r.pause(ctx, r.pokes, r.look(ctx))
		}
	})
	for ctx.Err() == nil {
		r.pause(ctx, r.wakes, r.beat(ctx, work))
	}
	looking.Wait()
	err := onStore(work, func(ctx context.Context) error { return r.c.cfg.Store.ReleaseBroadcasts(ctx, r.holder) })
	if err != nil { // they are free when the leases end
		r.c.failed(ctx, stepBroadcast, err, castLease)
	}
}

// pause waits for d, but no longer than for early.
func (*caster) pause(ctx context.Context, early <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-ctx.Done():
	}
}

// look claims broadcasts that nobody holds, prolongs the leases of those held,
// and asks how long the bulk queue is. It returns when to look again.
func (r *caster) look(ctx context.Context) time.Duration {
	var claim rooms.Claim
	err := onStore(ctx, func(ctx context.Context) (err error) {
		claim, err = r.c.cfg.Store.ClaimBroadcasts(ctx, r.holder, castLease)
		return err
	})
	if err == nil {
		err = r.adopt(ctx, claim)
	}
	if err != nil && ctx.Err() == nil {
		r.c.failed(ctx, stepBroadcast, err, castLook)
	}
	r.inspect(ctx)
	if len(claim.New) > 0 {
		signal(r.wakes)
	}
	if claim.More {
		return castBeat
	}
	return r.every
}

// adopt begins to work on what was claimed. What is held but not known here, a
// claim whose answer was lost, is given back.
func (r *caster) adopt(ctx context.Context, claim rooms.Claim) error {
	now := r.c.cfg.Now()
	r.mu.Lock()
	for i, b := range claim.New {
		// Spread over a second, so that not all come in one beat for ever.
		at := now.Add(castEvery * time.Duration(i) / time.Duration(len(claim.New)))
		if r.casts[b.ID] == nil {
			r.casts[b.ID] = &cast{Broadcast: b, parts: partsOf(b.Text), at: at}
		}
	}
	var unknown []string
	for _, id := range claim.Held {
		if r.casts[id] == nil {
			unknown = append(unknown, id)
		}
	}
	r.c.metrics.casts.Set(float64(len(r.casts)))
	r.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	return onStore(ctx, func(ctx context.Context) error { return r.c.cfg.Store.ReleaseBroadcasts(ctx, r.holder, unknown...) })
}

func (r *caster) held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.casts)
}

// inspect opens or shuts the way to the bulk queue, if anything is to go there.
func (r *caster) inspect(ctx context.Context) {
	if r.held() == 0 {
		r.c.metrics.bulkFull.Set(0)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	info, err := r.c.cfg.Broker.Inspect(ctx, r.c.cfg.Broker.Topology().Bulk())
	full := err == nil && info.Ready > bulkBound
	r.open.Store(err == nil && !full)
	if full && !r.full {
		r.c.cfg.Log.WarnContext(ctx, "the bulk queue is long; broadcasts wait", "ready", info.Ready)
	}
	r.full = full
	if full {
		r.c.metrics.bulkFull.Set(1)
	} else {
		r.c.metrics.bulkFull.Set(0)
	}
}

// beat gives those that are due their turn, and returns when the next is.
func (r *caster) beat(ctx, work context.Context) time.Duration {
	now := r.c.cfg.Now()
	var group errgroup.Group
	group.SetLimit(castWorkers)
	for _, casts := range batches(r.due(now), now) {
		group.Go(func() error { turn{r, now, casts}.take(ctx, work); return nil })
	}
	_ = group.Wait() // each has told of its failures
	return r.next()
}

// due are the casts whose turn it is, the latest first.
func (r *caster) due(now time.Time) []*cast {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []*cast
	for _, b := range r.casts {
		if !b.at.After(now) {
			due = append(due, b)
		}
	}
	slices.SortFunc(due, func(a, b *cast) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.ID, b.ID)) })
	return due
}

// next is how long until the next turn of any.
func (r *caster) next() time.Duration {
	now := r.c.cfg.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	next := time.Hour
	for _, b := range r.casts {
		next = min(next, b.at.Sub(now))
	}
	return max(next, castBeat)
}

func (r *caster) forget(b *cast) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.casts, b.ID)
	r.c.metrics.casts.Set(float64(len(r.casts)))
}
