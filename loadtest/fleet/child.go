package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/fakeapi/web"
	"chatclub/internal/app"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/sender"
	"chatclub/internal/service"
)

// Kinds of child processes: the only argument by which a program that holds this
// package starts itself.
const (
	KindWebhook    = "webhook"
	KindCore       = "core"
	KindDispatcher = "dispatcher"
	KindWorker     = "worker" // of a strategy
	KindPlatform   = "platform"
)

// Kinds are all of them.
func Kinds() []string {
	return []string{KindWebhook, KindCore, KindDispatcher, KindWorker, KindPlatform}
}

// Variables of children beside those of the programs.
const (
	sharedVariable   = "LOADTEST_SHARED"   // core's copies go to the shared queue
	strategyVariable = "LOADTEST_STRATEGY" // a worker's
	replicasVariable = "LOADTEST_REPLICAS"
	replicaVariable  = "LOADTEST_REPLICA"
	redisVariable    = "LOADTEST_REDIS"
	keysVariable     = "LOADTEST_KEYS"
)

// Child is a child process, whose settings are in its environment, as those of the
// program that it is. It ends cleanly when ctx does.
func Child(ctx context.Context, kind string, stdin io.Reader, stdout, stderr io.Writer) error {
	switch kind {
	case KindWebhook:
		return runProgram(ctx, stdout, func(s app.WebhookSettings) (*app.Program, error) {
			return app.NewWebhook(ctx, app.WebhookConfig{Settings: s})
		})
	case KindDispatcher:
		return runProgram(ctx, stdout, func(s app.DispatcherSettings) (*app.Program, error) {
			return app.NewDispatcher(ctx, app.DispatcherConfig{Settings: s})
		})
	case KindCore:
		if os.Getenv(sharedVariable) != "" {
			return runSharedCore(ctx, stdout)
		}
		return runProgram(ctx, stdout, func(s app.CoreSettings) (*app.Program, error) {
			return app.NewCore(ctx, app.CoreConfig{Settings: s})
		})
	case KindWorker:
		return runWorker(ctx, stdout, stderr)
	case KindPlatform:
		return runPlatform(ctx)
	}
	return fmt.Errorf("kind of process %.20q is unknown", kind)
}

// runProgram loads a program's settings, makes it and runs it.
func runProgram[S any](ctx context.Context, stdout io.Writer, wire func(S) (*app.Program, error)) error {
	s, err := service.Load[S](nil, nil, stdout)
	if err != nil {
		return err
	}
	p, err := wire(s)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// open opens the broker that settings name.
func open(s app.ProgramSettings, name string, log *slog.Logger, reg prometheus.Registerer) (*rabbit.Broker, error) {
	return rabbit.Open(rabbit.Config{URLs: s.Broker.URLs(), Topology: s.Broker.Topology(), Name: "loadtest " + name, Log: log, Registerer: reg})
}

// runSharedCore is core before the queue that all workers of a strategy share.
func runSharedCore(ctx context.Context, stdout io.Writer) error {
	return runProgram(ctx, stdout, func(s app.CoreSettings) (*app.Program, error) {
		reg := service.NewRegistry()
		b, err := open(s.ProgramSettings, KindCore, slog.New(slog.DiscardHandler), reg)
		if err != nil {
			return nil, err
		}
		return app.NewCore(ctx, app.CoreConfig{Settings: s, Options: app.Options{Broker: shared{b}, Registry: reg}}) // the process ends with it
	})
}

// faultsMetric is where a worker counts its strategy's errors.
const faultsMetric = "loadtest_strategy_errors_total"

// runWorker runs a strategy's worker on a broker of its own, and an admin server.
func runWorker(ctx context.Context, stdout, stderr io.Writer) (err error) {
	s, err := service.Load[app.DispatcherSettings](nil, nil, stdout)
	if err != nil {
		return err
	}
	replicas, err1 := strconv.Atoi(os.Getenv(replicasVariable))
	replica, err2 := strconv.Atoi(os.Getenv(replicaVariable))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	log, _ := service.NewLogger(s.Log, stderr)
	reg := service.NewRegistry()
	send, err := sender.New(sender.Config{BaseURL: s.GraphURL, Tokens: tokens{}, MaxInFlight: MaxInFlight, CallTimeout: callTimeout, Registerer: reg})
	if err != nil {
		return err
	}
	defer send.Close()
	broker, err := open(s.ProgramSettings, KindWorker, log, reg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	faults := prometheus.NewCounter(prometheus.CounterOpts{Name: faultsMetric, Help: "Errors of the strategy."})
	reg.MustRegister(faults)
	o := Options{
		Strategy: os.Getenv(strategyVariable), Replicas: replicas, RedisURL: os.Getenv(redisVariable), KeyPrefix: os.Getenv(keysVariable),
		Limit: float64(s.LimitText), Media: float64(s.LimitMedia), MessageTTL: s.MessageTTL,
	}
	if s.MaxInFlight != MaxInFlight {
		o.MaxInFlight = s.MaxInFlight
	}
	r, err := newRunner(ctx, o, parts{broker: broker, caller: send, reg: reg, log: log, replica: replica, fault: func(err error) {
		faults.Inc()
		log.Error("strategy", "err", err)
	}})
	if err != nil {
		return err
	}
	admin := service.NewAdmin(service.AdminConfig{Addr: s.Admin.Addr, Registry: reg, Log: log, Ready: r.ready})
	if err := admin.Listen(); err != nil {
		return err
	}
	return service.Run(ctx, log, service.Actor{Name: KindWorker, Run: r.run}, admin.Actor())
}

// runPlatform is the fake at HTTP_ADDR.
func runPlatform(ctx context.Context) error {
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		return fmt.Errorf("SEED: %w", err)
	}
	api, err := fakeapi.New(fakeapi.Config{Seed: seed, Seconds: keptSeconds})
	if err != nil {
		return err
	}
	if _, err := web.New(web.Config{API: api}); err != nil {
		return err
	}
	admin := service.NewAdmin(service.AdminConfig{Addr: os.Getenv("ADMIN_ADDR"), Registry: service.NewRegistry()})
	if err := admin.Listen(); err != nil {
		return err
	}
	ln, err := service.Listen(ctx, os.Getenv("HTTP_ADDR"))
	if err != nil {
		return errors.Join(err, admin.Close())
	}
	return service.Run(ctx, slog.New(slog.DiscardHandler),
		service.Actor{Name: KindPlatform, Run: func(ctx context.Context) error { return api.Serve(ctx, ln) }}, admin.Actor())
}
