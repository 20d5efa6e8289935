// Command webhook receives Messenger's events at /webhook, checks their
// signature and puts them on the inbound partitions. It keeps nothing: run any
// number behind a load balancer. `webhook -h` lists the settings.
package main

import (
	"context"
	"os"

	"chatclub/internal/app"
	"chatclub/internal/service"
)

func main() { os.Exit(service.Main(os.Stderr, run)) }

func run(ctx context.Context) error {
	s, err := service.Load[app.WebhookSettings](os.Args[1:], nil, os.Stdout)
	if err != nil {
		return err
	}
	p, err := app.NewWebhook(ctx, app.WebhookConfig{Settings: s})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}
