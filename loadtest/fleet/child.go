package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/fakeapi/web"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/sender"
	"chatclub/internal/service"
)

// childSpec is what a child process is told on its standard input. It holds the
// broker's password, which would be seen among the arguments.
type childSpec struct {
	Options  Options        `json:"options"`
	Replica  int            `json:"replica"`
	Ingress  Ingress        `json:"ingress"`
	AMQPURL  string         `json:"amqp_url,omitempty"`
	Topology queue.Topology `json:"topology"`
	Graph    string         `json:"graph,omitempty"` // the platform's address
	Seed     uint64         `json:"seed"`
}

// Kinds of child processes: the first argument by which a program that holds
// this package starts itself. It must then call Child.
const (
	KindDispatcher = "dispatcher"
	KindIngress    = "ingress"
	KindPlatform   = "platform"
)

// Child is a child process: it reads its spec from stdin, says on stdout where
// it listens once it is ready for that, and ends cleanly when ctx ends or its
// stdin does, so that it never outlives its parent.
func Child(ctx context.Context, kind string, stdin io.Reader, stdout, stderr io.Writer) error {
	var o childSpec
	lines := json.NewDecoder(stdin)
	if err := lines.Decode(&o); err != nil {
		return fmt.Errorf("read the spec of a child process: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process: nothing else ends a read of stdin
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	say := func(address string) { fmt.Fprintln(stdout, address) }
	switch kind {
	case KindDispatcher:
		return o.dispatch(ctx, log, say)
	case KindIngress:
		return o.ingress(ctx, log, say)
	case KindPlatform:
		return o.platform(ctx, say)
	}
	return fmt.Errorf("kind of process %.20q is unknown", kind)
}

func (o *childSpec) broker(kind string, log *slog.Logger, reg prometheus.Registerer) (*rabbit.Broker, error) {
	return rabbit.Open(rabbit.Config{
		URLs: []string{o.AMQPURL}, Topology: o.Topology, Log: log, Registerer: reg, Name: "loadtest " + kind,
	})
}

func (o *childSpec) dispatch(ctx context.Context, log *slog.Logger, say func(string)) error {
	reg := service.NewRegistry()
	if o.Options.Strategy == Bare {
		run, err := o.bare(ctx, reg)
		if err != nil {
			return err
		}
		return serve(ctx, log, reg, say, &runner{send: run})
	}
	return o.dispatcher(ctx, log, reg, say)
}

// dispatcher runs a dispatcher on a broker of its own.
func (o *childSpec) dispatcher(ctx context.Context, log *slog.Logger, reg *prometheus.Registry, say func(string)) (err error) {
	send, err := sender.New(sender.Config{
		BaseURL: o.Graph + graphVersion, Tokens: tokens{}, MaxInFlight: MaxInFlight, CallTimeout: callTimeout, Registerer: reg,
	})
	if err != nil {
		return err
	}
	defer send.Close()
	broker, err := o.broker(KindDispatcher, log, reg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	faults := prometheus.NewCounter(prometheus.CounterOpts{Name: faultsMetric, Help: "Errors of the strategy."})
	reg.MustRegister(faults)
	r, err := newRunner(ctx, o.Options, parts{
		broker: broker, caller: send, reg: reg, log: log, replica: o.Replica, fault: func(error) { faults.Inc() },
	})
	if err != nil {
		return err
	}
	return serve(ctx, log, reg, say, r)
}

// serve runs a dispatcher and an admin server until ctx ends.
func serve(ctx context.Context, log *slog.Logger, reg *prometheus.Registry, say func(string), r *runner) error {
	admin := service.NewAdmin(service.AdminConfig{
		Addr: "127.0.0.1:0", Registry: reg, Log: log, Ready: r.ready,
	})
	if err := admin.Listen(); err != nil {
		return err
	}
	address := "http://" + admin.Addr()
	say(address + " " + address)
	return service.Run(ctx, log, service.Actor{Name: KindDispatcher, Run: r.run}, admin.Actor())
}

func (o *childSpec) ingress(ctx context.Context, log *slog.Logger, say func(string)) (err error) {
	reg := service.NewRegistry()
	broker, err := o.broker(KindIngress, log, reg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	f, err := startIngress(ctx, o.Ingress, broker, log)
	if err != nil {
		return err
	}
	admin := service.NewAdmin(service.AdminConfig{Addr: "127.0.0.1:0", Registry: reg, Log: log})
	if err := admin.Listen(); err != nil {
		return errors.Join(err, f.stop())
	}
	say(f.url + " http://" + admin.Addr())
	return service.Run(ctx, log, service.Actor{Name: KindIngress, Run: func(ctx context.Context) error {
		<-ctx.Done()
		return f.stop()
	}}, admin.Actor())
}

func (o *childSpec) platform(ctx context.Context, say func(string)) error {
	api, err := fakeapi.New(fakeapi.Config{Seed: o.Seed})
	if err != nil {
		return err
	}
	if _, err := web.New(web.Config{API: api}); err != nil {
		return err
	}
	ln, err := service.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	say("http://" + ln.Addr().String())
	return api.Serve(ctx, ln)
}
