package fleet

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
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
	// Stop stops what is still running, cleanly: webhook and core, then the
	// dispatchers. The platform and the broker stay.
	Stop(ctx context.Context) error

	// Ingress starts webhook and core, with rooms of so many, and returns the
	// address to post events to.
	Ingress(ctx context.Context, f Ingress) (string, error)

	Broker() queue.Broker        // to publish on, and to look at what is left
	Platform() Platform          // the fake
	Usage() (Usage, error)       // so far
	Delayed() int                // messages that the broker keeps back where nobody can look
	Errors() []string            // what makes the run doubtful: who ended by itself, a strategy's errors, what could not be counted
	Close(context.Context) error // ends everything
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

// Usage is what the system has used of the machine. The CPU times and the
// memory are of processes; nil where there is no process of that kind, or where
// one of that kind could not be asked: a sum without it would be too low.
type Usage struct {
	Operations  *int64         // published, delivered and settled messages
	All         *time.Duration // of all below
	Dispatchers *time.Duration
	Ingress     *time.Duration // webhook and core
	Broker      *time.Duration
	Fake        *time.Duration
	Memory      *int64 // the most that any one dispatcher has held so far, in bytes
	Machine     *machine.Use
	Whole       bool // All is of one process with the load generator in it
}

// strategyFaults is how Errors says that the strategy's figures are not what it
// can do: whose, how many errors, and one of them.
const strategyFaults = "the strategy of %s met %d errors, and its figures are those of a strategy that met them: %v"

// Places in the order in which dispatchers joined.
const (
	oldest = 0
	second = 1
)

// take takes the dispatcher at a place, or the last there is, off those that
// run.
func take[T any](running *[]T, place int) (one T, err error) {
	n := len(*running)
	if n == 0 {
		return one, errors.New("no dispatcher is running")
	}
	place = min(place, n-1)
	one = (*running)[place]
	*running = slices.Delete(*running, place, place+1)
	return one, nil
}

// Config of a fleet.
type Config struct {
	Options  Options
	Topology queue.Topology
	Pages    []string // ids of the pages that messages may be for: what may have a lane
	Seed     uint64   // of the platform
	Log      *slog.Logger

	// Wrap is around every dispatcher's calls. It serves tests of the
	// judge, who must find out a caller that cheats. nil: none.
	Wrap func(dispatch.Caller) dispatch.Caller
}
