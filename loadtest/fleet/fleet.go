// Package fleet starts the system that is put to a test: dispatchers, which join, leave
// and are killed, before a broker and the fake platform; and webhook and core where the
// test goes through the whole. All of it runs in this process, before the broker in
// memory or a RabbitMQ (Local). Somebody else's programs (Peer) are processes, and so
// are the programs that package faults makes fail (Group).
package fleet

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"chatclub/fakeapi"
	"chatclub/internal/dispatch"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/networktest"
)

// Fleet is a system under test. Its methods are called by one goroutine.
type Fleet interface {
	// Join starts one more dispatcher and returns when it takes messages.
	Join(ctx context.Context) error
	// Leave stops the oldest dispatcher that runs, cleanly.
	Leave() error
	// Kill ends the oldest dispatcher that runs as kill -9 does, and returns at
	// once. The oldest, because it is the one that most probably owns a lane.
	Kill() error
	// Stop stops all that still runs, cleanly: webhook and core, then the
	// dispatchers. The platform and the broker stay.
	Stop() error

	// Ingress starts webhook and core, with rooms of so many, and returns the
	// address to post events to.
	Ingress(ctx context.Context, f Ingress) (string, error)

	Broker() queue.Broker // to publish on, and to look at the rest in the end; nil: the queues are the system's own
	Platform() Platform   // the fake
	// Operations are the messages published, delivered and settled so far. known is
	// false where the broker is not ours.
	Operations() (n int64, known bool)
	Errors() []string // all that makes the run doubtful: a program that ended by itself, a strategy's errors
	Close() error     // ends everything
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

// Platform is the address of the fake's control interface.
type Platform struct {
	URL       string            // with the host that Transport expects
	Transport http.RoundTripper // nil: over the network
}

// Ingress is the configuration of webhook and core.
type Ingress struct {
	Secret   string
	Capacity int  // of a room
	Shared   bool // copies go to the queue that all workers of a strategy share
}

// Config of a fleet.
type Config struct {
	Options  Options
	Topology queue.Topology
	Pages    []string // ids of the pages that messages may be for
	Seed     uint64   // of the platform, and of the dispatchers without Random
	Log      *slog.Logger

	// AMQP is the address of a RabbitMQ, whose queues of the topology are deleted
	// before and after. Without one the broker is in memory.
	AMQP   string
	Memory networktest.Options // makes the broker in memory slow
	Fake   *fakeapi.Settings   // nil: the fake's defaults

	// Wrap is around every dispatcher's calls. It serves tests of the
	// judge, who must find out a caller that cheats. nil: none.
	Wrap func(dispatch.Caller) dispatch.Caller
	// Random returns a dispatcher's source of random numbers in [0, 1), which
	// must be safe for concurrent use. nil: of the seed.
	Random func() func() float64
}

// member is a dispatcher of a crew.
type member interface {
	comparable
	// Stop ends it cleanly and waits for that.
	Stop() error
	// Kill ends it at once, as kill -9 does.
	Kill() error
}

// crew are the dispatchers of a system, in the order in which they joined. Safe for
// concurrent use.
type crew[M member] struct {
	start func(ctx context.Context, replica int) (M, error)

	mu      sync.Mutex
	joined  int
	running []M
}

// Join implements Fleet.
func (c *crew[M]) Join(ctx context.Context) error {
	m, err := c.start(ctx, c.joined)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.joined++
	c.running = append(c.running, m)
	return nil
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
	before := len(c.running)
	c.running = slices.DeleteFunc(c.running, func(other M) bool { return other == m })
	return len(c.running) < before
}

// oldest takes the oldest off those that run, and ends it.
func (c *crew[M]) oldest(end func(M) error) error {
	live := c.live()
	if len(live) == 0 {
		return errors.New("no dispatcher is running")
	}
	c.take(live[0])
	return end(live[0])
}

// Leave implements Fleet.
func (c *crew[M]) Leave() error { return c.oldest(M.Stop) }

// Kill implements Fleet.
func (c *crew[M]) Kill() error { return c.oldest(M.Kill) }

// stop stops these together, as far as they run: each waits for its calls in flight.
func (c *crew[M]) stop(which ...M) error {
	return Each(which, func(m M) error {
		if !c.take(m) {
			return nil
		}
		return m.Stop()
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
