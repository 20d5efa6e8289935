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

	"chatclub/internal/broadcast"
	"chatclub/internal/core"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
	"chatclub/internal/service"
	"chatclub/internal/webhook"
)

// front is webhook and core with a database of their own, which is removed.
type front struct {
	url  string
	stop func() error
}

// startFront starts them on a broker that stays open.
func startFront(ctx context.Context, f Front, broker queue.Broker, log *slog.Logger) (_ *front, err error) {
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
	store, err := rooms.Open(rooms.Config{DatabaseURL: "sqlite:" + filepath.Join(dir, "rooms.db"), Capacity: f.Capacity})
	if err != nil {
		return nil, err
	}
	closers = append(closers, store.Close)
	h, err := webhook.New(webhook.Config{
		Broker: broker, Topology: broker.Topology(), AppSecret: []byte(f.Secret), VerifyToken: f.Secret,
		Registerer: prometheus.NewRegistry(), Log: log,
	})
	if err != nil {
		return nil, err
	}
	broadcasts, err := broadcast.New(broadcast.Config{Broker: broker, Store: store, Log: log, ShutdownTimeout: shutdownTimeout})
	if err != nil {
		return nil, err
	}
	c, err := core.New(core.Config{
		Broker: broker, Store: store, Limit: f.limit(), Alongside: broadcasts.Run, Log: log, ShutdownTimeout: shutdownTimeout,
	})
	if err != nil {
		return nil, err
	}
	ln, err := service.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		done <- service.Run(running, log,
			service.Actor{Name: "webhook", Run: func(ctx context.Context) error {
				return service.ServeHTTP(ctx, service.NewHTTPServer(h, log), ln, shutdownTimeout)
			}},
			service.Actor{Name: "core", Run: c.Run})
	}()
	return &front{
		url:  "http://" + ln.Addr().String() + "/webhook",
		stop: func() error { cancel(); return errors.Join(<-done, closeAll()) },
	}, nil
}

// limit is what core is told of the platform's limits.
func (f Front) limit() func(class string) float64 {
	if f.Limit == 0 {
		return nil
	}
	return func(class string) float64 {
		if class == string(message.ClassMedia) {
			return mediaLimit
		}
		return f.Limit
	}
}
