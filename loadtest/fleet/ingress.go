package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/app"
	"chatclub/internal/article"
	"chatclub/internal/queue"
	"chatclub/internal/service"
)

// ingress is webhook and core with a database of their own, which is removed.
type ingress struct {
	url  string
	stop func() error
}

// startIngress starts them on a broker that stays open.
func startIngress(ctx context.Context, f Ingress, broker queue.Broker, log *slog.Logger) (_ *ingress, err error) {
	dir, err := os.MkdirTemp("", "loadtest-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the database: %w", err)
	}
	closers := []func() error{func() error { return os.RemoveAll(dir) }}
	closeAll := func() error {
		var faults []error
		for _, closer := range slices.Backward(closers) {
			faults = append(faults, closer())
		}
		return errors.Join(faults...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	if f.Shared {
		broker = shared{broker}
	}
	options := app.Options{Broker: broker, Registry: prometheus.NewRegistry(), Log: log}
	options.Name = "webhook"
	hook, err := app.NewWebhook(ctx, app.WebhookConfig{Settings: f.webhook(), Options: options})
	if err != nil {
		return nil, err
	}
	closers = append(closers, hook.Close)
	options.Name = "core"
	c, err := app.NewCore(ctx, app.CoreConfig{Settings: f.core(filepath.Join(dir, "rooms.db")), Options: options})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		done <- service.Run(running, log,
			service.Actor{Name: "webhook", Run: hook.Run},
			service.Actor{Name: "core", Run: c.Run})
	}()
	return &ingress{
		url:  "http://" + hook.HTTPAddr() + "/webhook",
		stop: func() error { cancel(); return errors.Join(<-done, closeAll()) },
	}, nil
}

func (f Ingress) webhook() app.WebhookSettings {
	s := service.Defaults[app.WebhookSettings]()
	s.Admin.Addr, s.HTTPAddr = "", "127.0.0.1:0"
	s.AppSecret, s.VerifyToken = service.Secret(f.Secret), service.Secret(f.Secret)
	return s
}

// core are the settings of core. Its users write as fast as the load asks for.
func (f Ingress) core(database string) app.CoreSettings {
	s := service.Defaults[app.CoreSettings]()
	s.Admin.Addr, s.DatabaseURL = "", service.Secret("sqlite:"+database)
	s.RoomCapacity, s.RoomIdle, s.FloodLimit, s.FloodShare = f.Capacity, 0, 0, 0
	return s
}

// shared is a broker on which copies go to the shared queue in place of their
// partitions. Events and dead letters stay where they are.
type shared struct{ queue.Broker }

// Publish implements queue.Publisher.
func (s shared) Publish(ctx context.Context, msgs ...queue.Message) error {
	return s.Broker.Publish(ctx, article.Divert(s.Topology(), msgs)...)
}
