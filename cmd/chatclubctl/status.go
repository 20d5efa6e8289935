package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
	"chatclub/internal/replicas"
	"chatclub/internal/service"
)

// statusSettings are those of `chatclubctl status`.
type statusSettings struct {
	adminSettings
	Webhook []string `env:"WEBHOOK" doc:"Admin addresses of the webhooks, in the same form."`
	brokerSettings
}

// About says what the program does.
func (statusSettings) About() string {
	return "chatclubctl status says of RabbitMQ and of each program whether it is ready, and what is on the queues.\n" +
		"Where settings differ that must be equal, it says whose.\n" +
		"The exit code is 0 if all is well, 1 if something is not, or does not answer; 2 if a flag or setting is wrong."
}

// Validate names every fault.
func (s statusSettings) Validate() error {
	return errors.Join(s.adminSettings.Validate(), service.CheckHTTPURLs("WEBHOOK", s.Webhook), s.brokerSettings.Validate())
}

// overview is what programs and RabbitMQ say of themselves.
type overview struct {
	Headline string                 `json:"headline"`
	Differ   string                 `json:"differ,omitempty"` // settings that must be equal and are not, and whose they are
	Programs []replicas.Health      `json:"programs"`
	Broker   *replicas.BrokerHealth `json:"broker,omitempty"` // nil: it was not asked
}

// statusTimeout is enough for a broker that takes nothing, and then counts.
const statusTimeout = 20 * time.Second

// checkAny wants somebody to ask.
func (s statusSettings) checkAny() error {
	if len(s.Dispatchers)+len(s.Core)+len(s.Webhook) == 0 && s.AMQPURL == "" {
		return wrong(errors.New("DISPATCHERS, CORE, WEBHOOK or AMQP_URL must be set"))
	}
	return nil
}

// fleet finds the replicas.
func (s statusSettings) fleet(ctx context.Context) replicas.Fleet {
	f := s.adminSettings.fleet(ctx)
	f.Webhook = find(ctx, s.Webhook)
	return f
}

// lookAt asks RabbitMQ and all programs at once.
func (t tool) lookAt(ctx context.Context, s statusSettings, f replicas.Fleet) (d overview, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var asking sync.WaitGroup
	if s.AMQPURL != "" {
		b, openErr := t.openBroker(s.broker())
		if openErr != nil {
			return d, openErr
		}
		defer func() { err = errors.Join(err, b.Close()) }()
		asking.Go(func() {
			h := replicas.AskBroker(ctx, b)
			if len(h.Idle) > 0 && backoff.Sleep(ctx, t.secondLook) {
				h.Idle = queue.StillIdle(h.Idle, replicas.AskBroker(ctx, b).Idle)
			}
			d.Broker = &h
		})
	}
	asking.Go(func() { d.Differ = f.DifferingSettings(ctx) })
	d.Programs = f.Health(ctx)
	asking.Wait()
	d.Headline = replicas.Trouble(d.Programs, d.Broker)
	return d, nil
}

func (t tool) status(ctx context.Context, _ string, args []string) error {
	flags := flag.NewFlagSet("chatclubctl status", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON, for programs")
	s, err := service.LoadFlags[statusSettings](flags, args, t.environ, t.stdout)
	if err == nil {
		err = s.checkAny()
	}
	if err != nil {
		return err
	}
	d, err := t.lookAt(ctx, s, s.fleet(ctx))
	if err != nil {
		return err
	}
	if *asJSON {
		err = json.NewEncoder(t.stdout).Encode(d)
	} else {
		err = t.printStatus(d)
	}
	if err == nil && d.Headline+d.Differ != "" {
		return service.Exit(service.ExitFailure)
	}
	return err
}

func (t tool) printStatus(d overview) error {
	headline := d.Headline
	if headline == "" {
		headline = "All who were asked are ready."
	}
	fmt.Fprintln(t.stdout, printable(headline))
	if d.Differ != "" {
		fmt.Fprintln(t.stdout, "Settings differ: "+printable(d.Differ)+".")
	}
	w := newTable(t.stdout)
	fmt.Fprintln(w, "\nPROGRAM\tADDRESS\tSTATE")
	if b := d.Broker; b == nil {
		fmt.Fprintln(w, "rabbitmq\t-\tnot asked: AMQP_URL is not set")
	} else {
		fmt.Fprintf(w, "rabbitmq\t%s\t%s\n", printable(b.Version), printable(orReady(b.Error)))
	}
	for _, h := range d.Programs {
		fmt.Fprintf(w, "%s\t%s\t%s\n", h.Program, printable(h.Name), printable(orReady(h.Says)))
	}
	for _, kind := range []struct{ program, setting string }{{"webhook", "WEBHOOK"}, {"core", "CORE"}, {"dispatcher", "DISPATCHERS"}} {
		if !d.has(kind.program) {
			fmt.Fprintf(w, "%s\t-\tnot asked: %s is not set\n", kind.program, kind.setting)
		}
	}
	if d.Broker != nil {
		var names, counts []string
		for _, k := range d.Broker.Kinds {
			n := "not known"
			if k.Ready >= 0 {
				n = fmt.Sprint(k.Ready)
			}
			names, counts = append(names, strings.ToUpper(k.Name)), append(counts, n)
		}
		fmt.Fprintf(w, "\nREADY ON\t%s\n\t%s\n", strings.Join(names, "\t"), strings.Join(counts, "\t"))
	}
	return w.Flush()
}

// has reports whether a program of a kind was asked.
func (d overview) has(program string) bool {
	for _, h := range d.Programs {
		if h.Program == program {
			return true
		}
	}
	return false
}

// orReady is what somebody says of itself, who says nothing while it is ready.
func orReady(says string) string {
	if says == "" {
		return "ready"
	}
	return says
}
