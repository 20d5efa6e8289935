// Package broadcast puts the operators' broadcasts on their pages' partitions, each
// at its rate. It guarantees that
//
//   - each broadcast is worked on by one Scheduler at a time, however many share
//     the database;
//   - a Scheduler that dies leaves at most a second's worth of messages to be
//     queued again, under the same ids;
//   - it adds nothing to a partition that is long, and to no partition more than a
//     bounded number of messages at a time. So a slow or large broadcast delays no
//     other, and a pause or stop takes effect within about a second;
//   - a partition that takes no messages delays only its own broadcasts, and a page
//     whose recipients the database does not read in time only its own, too.
//
// A broadcast is a row of the database with a cursor: its last recipient whose
// messages are queued. A Scheduler claims the row with a lease and renews it.
// Once a second the broadcast has a round. The Scheduler reads the recipients that
// are due behind the cursor, publishes their messages confirmed, and then moves
// the cursor.
package broadcast

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"chatclub/internal/backoff"
	"chatclub/internal/rooms"
)

const (
	// lease is the time for which a Scheduler that died keeps its broadcasts from
	// others. They look for free ones every claimEvery, so that a broadcast goes on
	// within ten seconds. And a database may be away for four before a lease is lost.
	lease      = 8 * time.Second
	claimEvery = time.Second
	// claimMore is the pause before the next claim when one was not enough.
	claimMore = 100 * time.Millisecond
	// claimAhead is the pause after a claim by a clock that is ahead. Only people set it right.
	claimAhead = 15 * time.Second
	// maxRounds is the number of rounds in progress at a time, so that events have
	// connections to the database. One more is for jobs whose last round failed: a page
	// whose recipients the database does not read in time takes no place for long.
	maxRounds = 3
)

// advanceRetry spaces the tries to write how far a broadcast has come. It begins
// with the length of a deadlock or a failover, and is 2 s at most.
var advanceRetry = backoff.Policy{Min: 50 * time.Millisecond, Max: 1600 * time.Millisecond, Low: 0.75, High: 1.25}

// roundRetry spaces the rounds of a job that fail. It begins with the time between two
// rounds.
var roundRetry = backoff.Policy{Min: roundEvery, Max: 30 * time.Second, Low: 1, High: 1}

// Scheduler works on broadcasts. The zero value is not useful; New makes a
// Scheduler. Safe for concurrent use.
type Scheduler struct {
	cfg        Config
	metrics    *metrics
	holder     string        // the name of this Scheduler in leases
	jobs       *jobs         // the broadcasts that it holds
	partitions *partitions   // how much may be put on each
	added      chan struct{} // of capacity 1: there is a broadcast to claim
	rounds     *semaphore.Weighted
	again      *semaphore.Weighted // for rounds after one that failed
}

// New returns a Scheduler that does nothing before Run.
func New(cfg Config) (*Scheduler, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new broadcast scheduler: %w", err)
	}
	m := newMetrics(cfg.Registerer)
	return &Scheduler{
		cfg: cfg, metrics: m, holder: rand.Text(), jobs: newJobs(m.held, cfg.Broker.Topology()),
		partitions: newPartitions(cfg, m.full),
		added:      make(chan struct{}, 1),
		rounds:     semaphore.NewWeighted(maxRounds), again: semaphore.NewWeighted(1),
	}, nil
}

// Add stores a new broadcast, which begins at once, and returns the broadcast
// that is stored under its id. That is another one if the id was taken.
func (s *Scheduler) Add(ctx context.Context, b rooms.Broadcast) (rooms.Broadcast, error) {
	stored, added, err := s.cfg.Store.Add(ctx, b)
	if added {
		s.cfg.Counter.Add(rooms.RoomKey{Page: b.Page, Room: b.Room}, rooms.Count{Events: 1})
		s.cfg.Log.InfoContext(ctx, "broadcast accepted", "page", b.Page, "room", b.Room, "id", b.ID, "recipients", b.Recipients)
		select {
		case s.added <- struct{}{}:
		default: // it is known already
		}
	}
	return stored, err
}

// Stop stops a broadcast and returns it. Queued messages still go out. The error
// is rooms.ErrUnknown if there is none of that id.
func (s *Scheduler) Stop(ctx context.Context, id string) (rooms.Broadcast, error) {
	b, stopped, err := s.cfg.Store.Stop(ctx, id)
	if stopped {
		s.metrics.ended.WithLabelValues(string(b.State)).Inc()
	}
	return b, err
}

// Run works on broadcasts until ctx ends, and returns nil after its goroutines
// have ended. Rounds in progress are finished within ShutdownTimeout, and the
// leases are released for other cores. It waits for a database or a broker that
// is away, as long as it takes. The database must be migrated. Call it once.
func (s *Scheduler) Run(ctx context.Context) error {
	// A round that was begun may go on for a while after ctx has ended.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			begun, pause := s.claim(ctx)
			for _, j := range begun {
				group.Go(func() { s.work(ctx, work, j) })
			}
			wait(ctx, pause, s.added)
		}
	})
	<-ctx.Done()
	timer := time.AfterFunc(s.cfg.ShutdownTimeout, cancel)
	defer timer.Stop()
	group.Wait()
	if err := s.cfg.Store.Release(work, s.holder); err != nil { // others get them when the leases end
		s.noteFailure(ctx, err, lease)
	}
	return nil
}

// wait returns after d, or before that when early is notified or ctx ends.
func wait(ctx context.Context, d time.Duration, early <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-ctx.Done():
	}
}

// claim claims broadcasts without a holder, renews the leases of those held, and
// asks how long their partitions are. It returns those that are new here, and the time
// until the next claim.
func (s *Scheduler) claim(ctx context.Context) (begun []*job, pause time.Duration) {
	claim, err := s.cfg.Store.Claim(ctx, s.holder, lease)
	s.partitions.inspect(ctx, s.jobs.queues(claim.New))
	if err == nil {
		begun = s.jobs.add(claim.New, s.cfg.Now())
		err = s.releaseUnknown(ctx, claim.Held)
	}
	pause = claimEvery
	switch {
	case errors.Is(err, rooms.ErrAhead):
		pause = claimAhead
	case claim.More:
		pause = claimMore
	}
	if err != nil && ctx.Err() == nil {
		s.noteFailure(ctx, err, pause)
	}
	return begun, pause
}

// releaseUnknown releases the broadcasts that this Scheduler holds and does not
// know, because the answer to the claim was lost.
func (s *Scheduler) releaseUnknown(ctx context.Context, held []string) error {
	unknown := s.jobs.missing(held)
	if len(unknown) == 0 {
		return nil
	}
	return s.cfg.Store.Release(ctx, s.holder, unknown...)
}

// noteFailure counts and logs a failure that is tried again after pause.
func (s *Scheduler) noteFailure(ctx context.Context, err error, pause time.Duration) {
	s.metrics.failures.Inc()
	s.cfg.Log.WarnContext(ctx, "broadcasts failed", "retry_in", pause, "err", err)
}
