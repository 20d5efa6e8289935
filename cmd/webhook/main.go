// Command webhook receives Messenger's events at /webhook, checks their
// signature and puts them on the inbound queue. It keeps nothing: run any
// number behind a load balancer. `webhook -h` lists the settings.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"chatclub/internal/broker"
	"chatclub/internal/service"
)

func main() { os.Exit(service.Main(os.Stderr, run)) }

func run(ctx context.Context) error { return start(ctx, os.Args[1:], nil, os.Stdout, os.Stderr) }

// start reads the settings, opens the broker and serves until ctx ends.
func start(ctx context.Context, args []string, environ map[string]string, stdout, stderr io.Writer) (err error) {
	s, err := service.Load[service.WebhookSettings](args, environ, stdout)
	if err != nil {
		return err
	}
	log := service.NewLogger(s.Log, stderr)
	reg := service.NewRegistry()
	b, err := broker.Open(s.Broker, "webhook", log, reg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }() // for the ways out before the group runs
	return program{settings: s, broker: b, registry: reg, log: log}.run(ctx)
}
