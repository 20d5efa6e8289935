package fleet

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/queue"
)

// Fleet is a system under test. Its methods are called by one goroutine, but
// for Usage.
type Fleet interface {
	// Join starts one more dispatcher and returns when it takes messages.
	Join(ctx context.Context) error
	// Leave stops the dispatcher that joined last, cleanly.
	Leave(ctx context.Context) error
	// Kill ends the dispatcher that joined last as kill -9 does.
	Kill(ctx context.Context) error
	// Stop stops what is still running, cleanly: webhook and core, then the
	// dispatchers. The platform and the broker stay.
	Stop(ctx context.Context) error

	// Front starts webhook and core, with rooms of so many, and returns the
	// address to post events to.
	Front(ctx context.Context, f Front) (string, error)

	Broker() queue.Broker        // of whoever publishes and looks after what is left
	Platform() Platform          // the fake
	Usage() (Usage, error)       // so far
	Errors() []string            // of dispatchers that ended by themselves
	Close(context.Context) error // ends everything
}

// Platform is where the fake's control interface is.
type Platform struct {
	URL       string            // with the host that Transport expects
	Transport http.RoundTripper // nil: over the network
}

// Front is how webhook and core are run.
type Front struct {
	Secret   string
	Capacity int     // of a room
	Limit    float64 // beyond which core puts copies straight on lanes; 0: it never does
}

// Usage is what the system has used of the machine. The CPU times and the
// memory are of processes; nil where there is no process of that kind, or no
// way to ask it.
type Usage struct {
	Operations  *int64 // published, delivered and settled messages
	All         *time.Duration
	Dispatchers *time.Duration
	Broker      *time.Duration
	Fake        *time.Duration
	Memory      *int64 // highest so far of the dispatchers together, in bytes
	Machine     *Machine
	Whole       bool // All and Memory are of one process with the load generator in it
}

// Config of a fleet.
type Config struct {
	Options  Options
	Topology queue.Topology
	Seed     uint64 // of the platform
	Log      *slog.Logger

	// Wrap is around every dispatcher's calls. It serves tests of whoever
	// judges: a caller that cheats must be found out. nil: none.
	Wrap func(dispatch.Caller) dispatch.Caller
}
