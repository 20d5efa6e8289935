package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/docs/schema"
	"chatclub/internal/orders"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/service"
	"chatclub/internal/submit"
	"chatclub/internal/tracing"
)

// wiring is a program in the making. A constructor gets it from begin, adds the
// parts in the order of their shutdown, and ends with finish.
type wiring struct {
	*Program
	Options
	settings ProgramSettings
	trace    *tracing.Tracer       // nil: off
	metrics  prometheus.Registerer // Registry, with the label of Name
	useless  <-chan error          // why the program can do nothing on the broker; nil where Broker is given
}

// begin opens the broker. The constructor then defers undo.
func begin(ctx context.Context, program string, s ProgramSettings, o Options) (*wiring, error) {
	o = o.withDefaults()
	w := &wiring{
		Program: &Program{
			pages: map[string]http.Handler{schema.Pattern: schema.Handler()},
			still: func() time.Duration { return 0 }, flush: func() error { return nil },
		},
		Options: o, settings: s, metrics: o.Registry,
	}
	if o.Name != "" {
		program = o.Name
		w.metrics = prometheus.WrapRegistererWith(prometheus.Labels{"program": o.Name}, o.Registry)
	}
	w.openLog(program) //nolint:contextcheck // it outlives ctx, until Close
	if w.Broker == nil {
		useless := make(chan error, 1)
		b, err := rabbit.Open(rabbit.Config{
			URLs: s.Broker.URLs(), Topology: s.Broker.Topology(), Name: "chatclub " + program, Log: w.Log, Registerer: w.metrics,
			Useless: func(err error) {
				select {
				case useless <- err:
				default:
				}
			},
		})
		if err != nil {
			w.undo(&err)
			return nil, err
		}
		w.Broker, w.ownsBroker, w.useless = b, true, useless
		w.onClose(b.Close) // for a program that does not run; otherwise it is closed already
	}
	var err error
	if w.trace, err = w.tracer(ctx, program); err != nil {
		w.undo(&err)
		return nil, err
	}
	w.onClose(w.trace.Close)
	// Readiness ends before any part is stopped.
	w.add("readiness", func(ctx context.Context) error {
		<-ctx.Done()
		w.stopping.Store(true)
		return nil
	})
	return w, nil
}

// openLog opens the log, if none is given. It is closed after all else.
func (w *wiring) openLog(program string) {
	dropped := service.DroppedLines(w.metrics)
	if w.Log == nil {
		log := service.OpenLog(w.settings.Log, os.Stderr, dropped)
		w.Log, w.logLevel = log.Logger, log.Level
		w.flush = log.Close
		w.onClose(log.Close)
	}
	w.Log = w.Log.With("program", program)
	w.log = w.Log
}

// book returns the operators' orders, with the settings that all programs must have in common.
func (w *wiring) book(program string, text, media int) *orders.Book {
	book := orders.NewBook()
	book.Compare(orders.Settings{Program: program, Protocol: schema.Version, Text: text, Media: media})
	w.pages["GET /settings"] = book.SettingsHandler()
	return book
}

// submits adds POST /messages to the admin pages. knows reports whether a page has a token;
// nil: this program has no tokens.
func (w *wiring) submits(maxBacklog int, knows func(page string) bool) error {
	h, err := submit.New(submit.Config{Broker: w.Broker, KnowsPage: knows, MaxBacklog: maxBacklog, Registerer: w.metrics, Log: w.Log})
	w.pages[submit.Pattern] = h
	return err
}

// add appends a part to those that are stopped before it.
func (w *wiring) add(name string, run func(ctx context.Context) error) {
	w.actors = append(w.actors, service.Actor{Name: name, Run: run})
}

// onClose has Close call closer, before the closers that were given earlier.
func (w *wiring) onClose(closer func() error) { w.closers = append(w.closers, closer) }

// finish adds the last parts of every program: the last spans, the broker, which all
// other parts need, and the admin server, which shows metrics and health until all
// has stopped.
func (w *wiring) finish(ctx context.Context) (*Program, error) {
	if w.trace != nil {
		w.add("tracing", w.trace.Run)
	}
	if w.ownsBroker {
		w.add("broker", w.runBroker)
	}
	s := w.settings.Admin
	if s.Addr == "" {
		return w.Program, nil
	}
	listener, err := service.Listen(ctx, s.Addr)
	if err != nil {
		return nil, err
	}
	w.onClose(listener.Close)
	w.admin = service.NewAdmin(service.AdminConfig{
		Addr: s.Addr, Listener: listener, Registry: w.Registry, Tokens: s.Tokens, Metrics: w.metrics, PProf: s.PProf, Log: w.Log, LogLevel: w.logLevel, Ready: w.Ready, Still: w.still,
	})
	w.MountPages(w.admin)
	w.actors = append(w.actors, w.admin.Actor())
	return w.Program, nil
}

// runBroker closes the broker when its turn comes. A server that is too old ends the
// program, and programs beside it with another number of partitions do.
func (w *wiring) runBroker(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case err := <-w.useless:
		if other, ok := errors.AsType[*rabbit.OtherPartitionsError](err); ok {
			err = &service.SettingsError{Faults: []error{service.Named("PARTITIONS", other)}}
		}
		return err
	}
	if err := w.Broker.Close(); err != nil {
		return fmt.Errorf("close broker: %w", err)
	}
	return nil
}

// undo closes the program's resources when the wiring failed.
func (w *wiring) undo(err *error) {
	if *err == nil {
		return
	}
	if closeErr := w.Close(); closeErr != nil {
		*err = errors.Join(*err, closeErr)
	}
}
