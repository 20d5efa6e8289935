// Package app wires chatclub's three programs: webhook, core and dispatcher,
// each with its settings. It is the only place that does so. The binaries, the
// quick start, the load test and the tests all start programs through it, and
// differ only in their settings and options.
//
// A binary gives a program its settings alone, by [Main].
//
// A caller that wants a program within its own process takes the settings from
// [service.Defaults], and gives a broker, a registry or a log in [Options].
package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
	"chatclub/internal/service"
)

// Options replace parts that a program would make from its settings. The zero value
// replaces nothing.
type Options struct {
	// Name tells several programs in one process apart: it is the label
	// "program" of their metrics, and names their connections in RabbitMQ.
	// Empty: the connection has the program's own name, and the metrics no label.
	Name string
	// Instance tells replicas apart in traces. Empty: the host and process.
	Instance string
	// Broker is used and stays open. Nil: RabbitMQ at AMQP_URL.
	Broker queue.Broker
	// Registry takes the metrics. Nil: one of its own, with the metrics of the
	// Go runtime and of the process.
	Registry *prometheus.Registry
	// Log takes the log. Nil: standard error, as LOG_LEVEL and LOG_FORMAT say; the admin
	// server can change the level.
	Log *slog.Logger

	ownsBroker bool              // for tests: Broker is closed as one from AMQP_URL is
	logLevel   *service.LogLevel // of a Log that was made; nil: it cannot be changed
}

func (o Options) withDefaults() Options {
	if o.Registry == nil {
		o.Registry = service.NewRegistry()
	}
	return o
}

// Main is a binary's main function, and returns its exit code: it loads the settings from
// flags and the environment, makes the program, and runs it until SIGINT, SIGTERM or SIGHUP.
// A reader of the log that is gone ends nothing.
func Main[S any](program func(context.Context, S) (*Program, error)) int {
	signal.Ignore(syscall.SIGPIPE) // a write fails in place of ending the process
	return service.Main(os.Stderr, func(ctx context.Context) error {
		s, err := service.Load[S](os.Args[1:], nil, os.Stdout)
		if err != nil {
			return err
		}
		p, err := program(ctx, s)
		if err != nil {
			return err
		}
		return p.Run(ctx)
	})
}

// Program is a webhook, a core or a dispatcher: wired, and with its addresses
// bound. NewWebhook, NewCore and NewDispatcher make one. Run it once, or Close
// it. Its other methods are safe for concurrent use.
type Program struct {
	log      *slog.Logger
	ready    func(context.Context) error
	still    func() time.Duration    // the time for which the program's work has made no turn
	flush    func() error            // writes the log
	pages    map[string]http.Handler // on the admin server, beside those that every program has
	actors   []service.Actor         // in the order of shutdown
	closers  []func() error          // in the order of opening
	http     net.Listener            // nil where there is none
	admin    *service.Admin          // nil without an address
	stopping atomic.Bool
	closed   sync.Once
}

// Run does the program's work until ctx ends, or a part of it fails. Then it
// stops the parts in the order that the constructor gives, each within its
// bound, and closes the program's resources.
//
// It also returns, with an error and without stopping anything, when the program's work
// stands still. The caller must end the process then.
func (p *Program) Run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(service.Run(ctx, p.log, p.actors...), p.Close()) }()
	return p.watch(ended)
}

// Close closes the resources of a program that will not run.
func (p *Program) Close() error {
	var errs []error
	p.closed.Do(func() {
		for _, closer := range slices.Backward(p.closers) {
			if err := closer(); !errors.Is(err, net.ErrClosed) { // the HTTP server has closed its listener
				errs = append(errs, err)
			}
		}
	})
	return errors.Join(errs...)
}

// errStopping is the readiness of a program that was asked to end.
var errStopping = errors.New("stopping")

// Ready returns nil while the program can do its work, otherwise why not. It is
// what /readyz answers.
func (p *Program) Ready(ctx context.Context) error {
	if p.stopping.Load() {
		return errStopping
	}
	return p.ready(ctx)
}

// HTTPAddr returns the address at which webhook serves /webhook. For the other
// programs it is empty.
func (p *Program) HTTPAddr() string {
	if p.http == nil {
		return ""
	}
	return p.http.Addr().String()
}

// AdminAddr returns the address of the admin server, or "" without one.
func (p *Program) AdminAddr() string {
	if p.admin == nil {
		return ""
	}
	return p.admin.Addr()
}

// MountPages adds the program's own admin pages, such as the operators' API of
// core, to an admin server that is not its own.
func (p *Program) MountPages(on interface {
	Handle(pattern string, h http.Handler)
},
) {
	for pattern, h := range p.pages {
		on.Handle(pattern, h)
	}
}
