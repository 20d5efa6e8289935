// Command core takes events off the inbound partitions and keeps users and rooms in a
// SQL database. It puts copies of each message on the outbound queue, one for
// every other member of the room. Run any number on one PostgreSQL; on SQLite one.
// `core -h` lists the settings.
package main

import (
	"context"
	"os"

	"chatclub/internal/app"
	"chatclub/internal/service"
)

func main() { os.Exit(service.Main(os.Stderr, run)) }

func run(ctx context.Context) error {
	s, err := service.Load[app.CoreSettings](os.Args[1:], nil, os.Stdout)
	if err != nil {
		return err
	}
	p, err := app.NewCore(ctx, app.CoreConfig{Settings: s})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}
