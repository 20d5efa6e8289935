// Command dispatcher takes outbound messages off the queue and sends them
// through the Send API within the limits of each page. Run as many replicas as
// the load needs: they share nothing but the queues. `dispatcher -h` lists the
// settings.
package main

import (
	"context"
	"os"

	"chatclub/internal/app"
	"chatclub/internal/service"
)

func main() { os.Exit(service.Main(os.Stderr, run)) }

func run(ctx context.Context) error {
	s, err := service.Load[app.DispatcherSettings](os.Args[1:], nil, os.Stdout)
	if err != nil {
		return err
	}
	p, err := app.NewDispatcher(ctx, app.DispatcherConfig{Settings: s})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}
