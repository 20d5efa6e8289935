// Command fakeapi serves package fakeapi: a fake Messenger Platform with its
// Send API, ledger and page. On request it adds simulated users who chat
// through the system under test. `fakeapi -h` lists the settings; fakeapi/README.md
// describes the interface.
package main

import (
	"context"
	"io"
	"os"

	"chatclub/internal/service"
)

func main() { os.Exit(service.Main(os.Stderr, run)) }

func run(ctx context.Context) error { return start(ctx, os.Args[1:], nil, os.Stdout, os.Stderr) }

// start reads the settings and serves until ctx, or the users' run, ends.
func start(ctx context.Context, args []string, environ map[string]string, stdout, stderr io.Writer) error {
	s, err := service.Load[settings](args, environ, stdout)
	if err != nil {
		return err
	}
	again, stop := service.SecondSignal(ctx)
	defer stop()
	log, level := service.NewLogger(s.Log, stderr)
	p := program{settings: s, registry: service.NewRegistry(), log: log.With("program", "fakeapi"), level: level, stdout: stdout}
	service.LogStart(ctx, p.log, s)
	return p.run(ctx, again)
}
