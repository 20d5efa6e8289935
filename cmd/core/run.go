package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/broadcast"
	"chatclub/internal/broker"
	"chatclub/internal/core"
	"chatclub/internal/message"
	"chatclub/internal/operator"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
	"chatclub/internal/service"
)

// otherConns are the database connections beside one per worker: four for
// broadcasts, and for pruning, counting, the silent, operators and the
// readiness check.
const otherConns = 8

// program is core with what it needs from outside.
type program struct {
	settings service.CoreSettings
	broker   queue.Broker
	registry *prometheus.Registry
	log      *slog.Logger
	bound    func(adminAddr string) // told once it listens; may be nil
}

// run handles events until ctx ends. Shutdown: no more events, those in hand
// are finished within SHUTDOWN_TIMEOUT and the others handed back, then the
// broker's connection is closed, then the admin server, then the database.
func (p program) run(ctx context.Context) (err error) {
	s := p.settings
	store, err := rooms.Open(rooms.Config{
		DatabaseURL: s.DatabaseURL.Reveal(), Capacity: s.RoomCapacity, MaxConns: s.Workers + otherConns,
		Idle: s.RoomIdle, FloodLimit: s.FloodLimit, FloodPeriod: s.FloodPeriod,
	})
	if err != nil {
		return &service.SettingsError{Faults: []error{service.Faultf("DATABASE_URL", "%w", err)}}
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	counter := new(rooms.Counter)
	broadcasts, err := broadcast.New(broadcast.Config{
		Broker: p.broker, Store: store, Counter: counter,
		PublishTimeout: s.PublishTimeout, ShutdownTimeout: s.ShutdownTimeout, Registerer: p.registry, Log: p.log,
	})
	if err != nil {
		return err
	}
	operators, err := operator.New(operator.Config{
		Store: store, Broadcasts: broadcasts, MaxRate: s.Limit(string(message.ClassText)), Log: p.log,
	})
	if err != nil {
		return err
	}
	c, err := core.New(core.Config{
		Broker: p.broker, Store: store, Counter: counter, Alongside: broadcasts.Run,
		Prefetch: s.Prefetch, Workers: s.Workers, Limit: s.Limit, Idle: s.RoomIdle, Language: s.Language,
		PublishTimeout: s.PublishTimeout, ShutdownTimeout: s.ShutdownTimeout, Registerer: p.registry, Log: p.log,
	})
	if err != nil {
		return err
	}
	admin := service.NewAdmin(service.AdminConfig{
		Addr: s.Admin.Addr, Registry: p.registry, PProf: s.Admin.PProf, Log: p.log,
		Ready: service.ReadyUntil(ctx, c.Ready),
	})
	for _, pattern := range operator.Patterns() {
		admin.Handle(pattern, operators)
	}
	if err := admin.Listen(); err != nil {
		return err
	}
	if p.bound != nil {
		p.bound(admin.Addr())
	}
	return service.Run(ctx, p.log,
		service.Actor{Name: "core", Run: c.Run},
		broker.Actor(p.broker),
		admin.Actor(),
	)
}
