// Command core takes events off the inbound queue, keeps users and rooms in a
// SQL database, and puts a copy of every message for every other member of its
// room on the outbound queue. Run any number on one PostgreSQL; on SQLite one.
// `core -h` lists the settings.
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

// start reads the settings, opens the broker and handles events until ctx ends.
func start(ctx context.Context, args []string, environ map[string]string, stdout, stderr io.Writer) (err error) {
	s, err := service.Load[service.CoreSettings](args, environ, stdout)
	if err != nil {
		return err
	}
	log := service.NewLogger(s.Log, stderr)
	reg := service.NewRegistry()
	b, err := broker.Open(s.Broker, "core", log, reg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }() // for the ways out before the group runs
	return program{settings: s, broker: b, registry: reg, log: log}.run(ctx)
}
