package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"strings"
	"time"

	"chatclub/internal/service"
	"chatclub/internal/term"
)

// topSettings are those of `chatclubctl top`.
type topSettings struct {
	adminSettings
	Webhook []string `env:"WEBHOOK" doc:"Admin addresses of the webhooks, likewise."`
	queueSettings
}

// About says what the program does.
func (topSettings) About() string {
	return "chatclubctl top shows what all replicas do, and what waits on the queues, every second until Ctrl-C.\n" +
		"Where there is no terminal it shows it once."
}

// Validate names every fault.
func (s topSettings) Validate() error {
	return errors.Join(s.adminSettings.Validate(), service.CheckHTTPURLs("WEBHOOK", s.Webhook), s.queueSettings.Validate())
}

const (
	// topEvery is the time between two looks.
	topEvery = time.Second
	// topWait is how long a look waits for what does not answer, the first time.
	topWait = 500 * time.Millisecond
	// onceWait is the same for one who looks once, and has no later look.
	onceWait = 3 * time.Second
)

func (t tool) top(ctx context.Context, _ string, args []string) (err error) {
	flags := flag.NewFlagSet("chatclubctl top", flag.ContinueOnError)
	once := flags.Bool("once", false, "show it once, and end")
	asJSON := flags.Bool("json", false, "print it once as JSON, for programs")
	s, err := service.LoadFlags[topSettings](flags, args, t.environ, t.stdout)
	if err != nil {
		return err
	}
	if len(s.Dispatchers)+len(s.Core)+len(s.Webhook) == 0 {
		return wrong(errors.New("DISPATCHERS, CORE or WEBHOOK must be set"))
	}
	screen := term.NewScreen(t.stdout)
	wait := topWait
	if *once = *once || *asJSON || !screen.IsShown(); *once {
		wait = onceWait
	}
	m, end, err := t.newMonitor(s, wait)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		err = errors.Join(err, end())
	}()
	looks := 0
	for v := range m.views(ctx) {
		switch looks++; {
		case !*once:
			var text strings.Builder
			v.print(&text)
			screen.Show(text.String())
		case looks < 2: // the rates of pages need a whole second
		case *asJSON:
			return errors.Join(json.NewEncoder(t.stdout).Encode(v), v.err())
		default:
			v.print(t.stdout)
			return v.err()
		}
	}
	return nil
}
