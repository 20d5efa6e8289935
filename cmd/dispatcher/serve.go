package main

import (
	"context"
	"errors"
	"os"
	"time"

	"chatclub/internal/broker"
	"chatclub/internal/dispatch"
	"chatclub/internal/excess"
	"chatclub/internal/sender"
	"chatclub/internal/service"
)

// serve wires the program and runs it until ctx ends. Shutdown: no more
// deliveries, calls in flight finish and are settled, broker, admin server.
func serve(ctx context.Context, s service.DispatcherSettings) (err error) {
	log := service.NewLogger(s.Log, os.Stderr)
	reg := service.NewRegistry()

	pages, err := sender.OpenPagesFile(s.PagesFile, log)
	if err != nil {
		return err
	}
	send, err := sender.New(sender.Config{
		BaseURL: s.GraphURL, Tokens: pages, MaxInFlight: s.MaxInFlight,
		CallTimeout: s.CallTimeout, Registerer: reg,
	})
	if err != nil {
		return err
	}
	defer send.Close()
	var caller dispatch.Caller = send
	if s.BatchCalls > 1 {
		if caller, err = sender.NewBatcher(sender.BatchConfig{Sender: send, Size: s.BatchCalls, Wait: s.BatchWait}); err != nil {
			return err
		}
	}

	b, err := broker.Open(s.Broker, "dispatcher", log, reg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()

	gate := excess.New(excess.Config{Limit: s.Limit, LaneHold: s.LanePrefetch}, time.Now())
	d, err := dispatch.New(dispatch.Config{
		Broker: b, Sender: caller, Gate: gate, Log: log, Registerer: reg,
		Prefetch: s.Prefetch, LanePrefetch: s.LanePrefetch, LatencyTarget: s.LatencyTarget, MaxInFlight: s.MaxInFlight, MaxAttempts: s.MaxAttempts,
		MessageTTL: s.MessageTTL, ShutdownTimeout: s.ShutdownTimeout,
	})
	if err != nil {
		return err
	}

	admin := service.NewAdmin(service.AdminConfig{
		Addr: s.Admin.Addr, Registry: reg, PProf: s.Admin.PProf, Log: log,
		Ready: func(context.Context) error { return d.Ready() },
	})
	admin.Handle("/pages", d.PagesHandler())
	admin.Handle("/pages/", d.PagesHandler())
	if err := admin.Listen(); err != nil {
		return err
	}
	return service.Run(ctx, log,
		service.Actor{Name: "dispatcher", Run: d.Run},
		service.Actor{Name: "pages file", Run: pages.Run},
		admin.Actor(),
	)
}
