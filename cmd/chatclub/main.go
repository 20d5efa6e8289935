// Command chatclub runs the whole system in one process: webhook, core,
// dispatchers and a fake Messenger. The fake's simulated users chat, and its
// ledger judges the arrivals. With no setting at all it needs nothing but itself: the
// queue is in memory and the database an SQLite file that it removes.
// `chatclub -h` lists the settings.
//
// `chatclub watch` serves the same page beside a deployment: `chatclub watch -h`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"chatclub/internal/service"
)

func main() { os.Exit(service.Main(os.Stderr, run)) }

func run(ctx context.Context) error {
	if len(os.Args) > 1 && os.Args[1] == "watch" {
		s, err := service.LoadFlags[watchSettings](flag.NewFlagSet("chatclub watch", flag.ContinueOnError), os.Args[2:], nil, os.Stdout)
		if err != nil {
			return err
		}
		return s.serve(ctx, os.Stdout, os.Stderr)
	}
	flags := flag.NewFlagSet("chatclub", flag.ContinueOnError)
	length := flags.Duration("for", 0, "how long the users chat; 0: until Ctrl-C")
	tour := flags.Bool("tour", false, "play the tour of 40 s, and end")
	s, err := service.LoadFlags[settings](flags, os.Args[1:], nil, os.Stdout)
	if err != nil {
		return err
	}
	if *length < 0 {
		return &service.SettingsError{Faults: []error{fmt.Errorf("-for: %v is negative", *length)}}
	}
	again, stop := service.SecondSignal(ctx)
	defer stop()
	sys := newSystem(s, os.Stdout, os.Stderr)
	sys.tour = *tour
	return sys.serve(ctx, again, *length)
}
