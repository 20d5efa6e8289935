// Package fleet starts the system that is put to a test: dispatchers, which join, leave
// and are killed, before a broker and the fake platform; and webhook and core where the
// test goes through the whole. In one process on the memory broker (Local), each
// program as a process on RabbitMQ (Processes), somebody else's programs (Peer), or a
// deployment that runs already (Running). Its figures are those of the machine and the
// broker, never those that a dispatcher tells of its sends.
package fleet

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/machine"
	"chatclub/internal/queue"
)

// Fleet is a system under test. Its methods are called by one goroutine, but
// for Usage.
type Fleet interface {
	// Join starts one more dispatcher and returns when it takes messages.
	Join(ctx context.Context) error
	// Leave stops the second oldest dispatcher that runs, or else the only one,
	// cleanly. The oldest stays for Kill.
	Leave(ctx context.Context) error
	// Retire stops the oldest dispatcher that runs, cleanly.
	Retire(ctx context.Context) error
	// Kill ends the oldest dispatcher that runs as kill -9 does, and returns at
	// once. The oldest, because it is the one that most probably owns a lane.
	Kill(ctx context.Context) error
	// Stop stops all that still runs, cleanly: webhook and core, then the
	// dispatchers. The platform and the broker stay.
	Stop(ctx context.Context) error

	// Ingress starts webhook and core, with rooms of so many, and returns the
	// address to post events to.
	Ingress(ctx context.Context, f Ingress) (string, error)

	Broker() queue.Broker        // to publish on, and to look at the rest in the end; nil: the queues are the system's own
	Platform() Platform          // the fake
	Usage() (Usage, error)       // so far
	Errors() []string            // all that makes the run doubtful: a program that ended by itself, a strategy's errors, a count that could not be read
	Close(context.Context) error // ends everything
}

// Outside is a system whose queues are its own, so that no broker of ours can be
// asked for them.
type Outside interface {
	// Publish puts messages on the system's queues. A message's body is the one to
	// be posted; see [PeerBody].
	queue.Publisher
	// Left returns the ids of the messages that the system has not sent, once it is
	// stopped: those that it would send later, and those it has given up. An id is
	// there as often as the message is.
	Left(ctx context.Context) (waiting, dead []string, err error)
}

// Platform is where the fake's control interface is.
type Platform struct {
	URL       string            // with the host that Transport expects
	Transport http.RoundTripper // nil: over the network
}

// Ingress is how webhook and core are run.
type Ingress struct {
	Secret   string
	Capacity int  // of a room
	Shared   bool // copies go to the queue that all workers of a strategy share
}

// Usage is the system's use of the machine. The CPU times and the memory are of
// processes; nil where one of them could not be asked: a sum without it would be too
// low.
type Usage struct {
	Operations  *int64         // published, delivered and settled messages
	All         *time.Duration // of dispatchers, webhook, core, broker and fake; in one process of all of it
	Dispatchers *time.Duration
	Memory      *int64 // the most that any one dispatcher has held so far, in bytes
	Machine     *machine.Use
}

// Config of a fleet.
type Config struct {
	Options  Options
	Topology queue.Topology
	Pages    []string // ids of the pages that messages may be for
	Seed     uint64   // of the platform
	Log      *slog.Logger

	// Wrap is around every dispatcher's calls. It serves tests of the
	// judge, who must find out a caller that cheats. nil: none.
	Wrap func(dispatch.Caller) dispatch.Caller
}

// member is a dispatcher of a crew.
type member interface {
	comparable
	// Stop ends it cleanly and waits for that.
	Stop(ctx context.Context) error
	// Kill ends it at once, as kill -9 does.
	Kill(ctx context.Context) error
}

// crew are the dispatchers of a system, in the order in which they joined. Safe for
// concurrent use.
type crew[M member] struct {
	start func(ctx context.Context, replica int) (M, error)

	mu      sync.Mutex
	running []M
	past    []M
}

// Places in the order in which dispatchers joined.
const (
	oldest = 0
	second = 1
)

// Join implements Fleet.
func (c *crew[M]) Join(ctx context.Context) error {
	m, err := c.start(ctx, len(c.all()))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = append(c.running, m)
	return nil
}

// all are those that have ended, and those that run.
func (c *crew[M]) all() []M {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Concat(c.past, c.running)
}

// live are those that run.
func (c *crew[M]) live() []M {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.running)
}

// take takes one off those that run; false: it does not.
func (c *crew[M]) take(m M) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.running, m)
	if i < 0 {
		return false
	}
	c.running = slices.Delete(c.running, i, i+1)
	c.past = append(c.past, m)
	return true
}

// at takes the one at a place, or the last there is, off those that run.
func (c *crew[M]) at(place int) (m M, err error) {
	live := c.live()
	if len(live) == 0 {
		return m, errors.New("no dispatcher is running")
	}
	m = live[min(place, len(live)-1)]
	c.take(m)
	return m, nil
}

func (c *crew[M]) leave(ctx context.Context, place int) error {
	m, err := c.at(place)
	if err != nil {
		return err
	}
	return m.Stop(ctx)
}

// Leave implements Fleet.
func (c *crew[M]) Leave(ctx context.Context) error { return c.leave(ctx, second) }

// Retire implements Fleet.
func (c *crew[M]) Retire(ctx context.Context) error { return c.leave(ctx, oldest) }

// Kill implements Fleet.
func (c *crew[M]) Kill(ctx context.Context) error {
	m, err := c.at(oldest)
	if err != nil {
		return err
	}
	return m.Kill(ctx)
}

// stop stops these together, as far as they run: each waits for its calls in flight.
func (c *crew[M]) stop(ctx context.Context, which ...M) error {
	return Each(which, func(m M) error {
		if !c.take(m) {
			return nil
		}
		return m.Stop(ctx)
	})
}

// Each does something to all at once.
func Each[T any](list []T, do func(T) error) error {
	faults := make([]error, len(list))
	var all sync.WaitGroup
	for i, x := range list {
		all.Go(func() { faults[i] = do(x) })
	}
	all.Wait()
	return errors.Join(faults...)
}

// running is a deployment that runs already. Nothing in it is started or stopped, and
// its use of the machine is not known.
type running struct{ target, ledger string }

// Running returns the deployment behind a webhook's address and that of the fakeapi to
// which it sends.
func Running(target, ledger string) Fleet { return running{target, ledger} }

var errRunning = errors.New("a running deployment's dispatchers can only be started and stopped by its operator")

// Join implements Fleet; it cannot be done.
func (running) Join(context.Context) error { return errRunning }

// Leave implements Fleet; it cannot be done.
func (running) Leave(context.Context) error { return errRunning }

// Retire implements Fleet; it cannot be done.
func (running) Retire(context.Context) error { return errRunning }

// Kill implements Fleet; it cannot be done.
func (running) Kill(context.Context) error { return errRunning }

// Stop implements Fleet; it does nothing.
func (running) Stop(context.Context) error { return nil }

// Ingress implements Fleet.
func (r running) Ingress(context.Context, Ingress) (string, error) { return r.target, nil }

// Broker implements Fleet.
func (running) Broker() queue.Broker { return nil }

// Platform implements Fleet.
func (r running) Platform() Platform { return Platform{URL: r.ledger} }

// Usage implements Fleet.
func (running) Usage() (Usage, error) { return Usage{}, nil }

// Errors implements Fleet.
func (running) Errors() []string { return nil }

// Close implements Fleet; it does nothing.
func (running) Close(context.Context) error { return nil }
