// Command dispatchcost tells what the dispatcher costs: the CPU time of its
// process per message, compared with a bare loop that consumes, posts and
// acknowledges.
//
//	go run ./internal/tools/dispatchcost -pairs 21 -messages 8000
//
// The dispatcher is the real one: its engine, excess map, sender and broker as
// cmd/dispatcher wires them. The bare loop is what one would write without
// thinking of limits, and written well: the same AMQP client, prefetch and
// number of workers, an http.Transport with the sender's settings, bodies read
// to their end, one acknowledgement a message. It decodes nothing: what lies on
// its queue is the body to post. See sideConfig.bare for what it leaves out.
//
// Dispatcher, loop and judge are processes of their own. The judge is fakeapi:
// its ledger must show every message accepted exactly once, and the queues must
// be empty in the end, or the run fails. Messages are spread over so many pages
// that no limit plays a part.
//
// The sides are loaded in pairs and judged as package paired says. It is a
// measurement and no test: how it ends depends on the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"chatclub/fakeapi"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// config is what the flags say.
type config struct {
	sides           [2]string // loaded in turn; the second is compared with the first
	pairs, messages int
	pages           int
	rate            int // messages per second that are published; 0: as fast as possible
	limit           float64
	side            sideConfig
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	c, err := parse(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "dispatchcost:", err)
		return 2
	}
	if c.side.Name != "" {
		err = c.side.serve(ctx, stdin, stdout)
	} else {
		err = c.measure(ctx, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "dispatchcost:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	var sides string
	s := &c.side
	flags := flag.NewFlagSet("dispatchcost", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&sides, "sides", nameBare+","+nameDispatcher, "the two sides, of bare, dispatcher and batch (the dispatcher with batch calls); the second is compared with the first")
	flags.IntVar(&c.pairs, "pairs", 21, "how often each side is loaded; at least 7 for a verdict")
	flags.IntVar(&c.messages, "messages", 8000, "messages of each load")
	flags.IntVar(&c.pages, "pages", 200, "pages that they are spread over")
	flags.IntVar(&c.rate, "rate", 0, "messages `per second` that are published; 0: as fast as the broker takes them")
	flags.Float64Var(&c.limit, "limit", 1.2, "ratio that the verdict is about")
	flags.IntVar(&s.Prefetch, "prefetch", 1024, "messages held at most")
	flags.IntVar(&s.Workers, "workers", 64, "calls in flight at most")
	flags.IntVar(&s.Quota, "quota", 300, "calls per second that the fake Send API takes of each page, and the dispatcher makes")
	flags.DurationVar(&s.Wait, "batchwait", 20*time.Millisecond, "how long batch lets a message wait for others")
	flags.TextVar(&s.Latency, "latency", fakeapi.Latency{}, "`latency` of the fake Send API, such as lognormal:40ms,150ms")
	flags.StringVar(&s.Name, "serve", "", "be a `side`, or fakeapi: for the processes that this program starts")
	flags.StringVar(&s.Prefix, "prefix", "", "prefix of the queues of a side that is served")
	flags.StringVar(&s.Graph, "graph", "", "address of the fake Send API of a side that is served")
	flags.StringVar(&s.Profile, "profile", "", "`folder` into which each side writes a CPU profile of its loads")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	first, second, _ := strings.Cut(sides, ",")
	c.sides = [2]string{first, second}
	s.Pages = c.pages
	for _, name := range c.sides {
		if !knownSide(name) {
			return c, fmt.Errorf("side %.20q of -sides is none of bare, dispatcher and batch", name)
		}
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"pairs", c.pairs}, {"messages", c.messages}, {"pages", c.pages}, {"prefetch", s.Prefetch}, {"workers", s.Workers}, {"quota", s.Quota}} {
		if f.value < 1 {
			return c, fmt.Errorf("-%s must be at least 1", f.name)
		}
	}
	if c.rate < 0 || flags.NArg() > 0 {
		return c, errors.New("-rate must not be negative, and nothing may follow")
	}
	return c, nil
}
