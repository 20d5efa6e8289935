// Command cost measures the CPU time that fakeapi needs for an accepted send. It
// compares it with a bare handler of the same HTTP library that only parses the
// body and answers.
//
//	go run ./cost -pairs 9 -sends 40000
//
// Both are servers in processes of their own, whose CPU time getrusage returns.
// The client's part would draw the ratio towards 1, and the wall clock would
// include the machine's other work. They are loaded in turn, A B, B A, A B …, so
// that a machine that grows slower or faster meets both alike. The result is the
// median of the pairs' ratios. This is a measurement and no test, because its
// result depends on the machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// config are the values of the flags.
type config struct {
	pairs, sends int
	serve        string // which server to be, in the processes that cost starts
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	var c config
	flags := flag.NewFlagSet("cost", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&c.pairs, "pairs", 9, "how often each server is loaded")
	flags.IntVar(&c.sends, "sends", 40_000, "sends of each load")
	flags.StringVar(&c.serve, "serve", "", "be a server, `bare or fakeapi`, that prints its CPU time for each line read")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if c.pairs < 1 || c.sends < 1 || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "cost: -pairs and -sends must be at least 1, and nothing may follow")
		return 2
	}
	var err error
	if c.serve != "" {
		err = serve(ctx, c.serve, stdin, stdout)
	} else {
		err = measure(ctx, c, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "cost:", err)
		return 1
	}
	return 0
}

// The two servers.
const (
	nameBare = "bare"
	nameFake = "fakeapi"
)

// measure loads the servers in turn and prints the result of each pair and of
// all.
func measure(ctx context.Context, c config, stdout io.Writer) (err error) {
	bare, err := start(ctx, nameBare)
	if err != nil {
		return err
	}
	defer bare.stop()
	fake, err := start(ctx, nameFake)
	if err != nil {
		return err
	}
	defer fake.stop()
	for _, s := range []*server{bare, fake} { // opens connections, fills pools
		if _, err := s.load(ctx, c.sends/4+1); err != nil {
			return err
		}
	}
	var bares, fakes, ratios []float64
	for i := range c.pairs {
		order := []*server{bare, fake}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		cost := make(map[*server]float64, len(order))
		for _, s := range order {
			if cost[s], err = s.load(ctx, c.sends); err != nil {
				return err
			}
		}
		bares, fakes = append(bares, cost[bare]), append(fakes, cost[fake])
		ratios = append(ratios, cost[fake]/cost[bare])
		fmt.Fprintf(stdout, "pair %d: bare %.2f µs, fakeapi %.2f µs of CPU a send: %.2f\n", i+1, cost[bare], cost[fake], ratios[i])
	}
	fmt.Fprintf(stdout, "median of %d pairs: bare %.2f µs, fakeapi %.2f µs, ratio %.2f (lowest %.2f, highest %.2f)\n",
		c.pairs, median(bares), median(fakes), median(ratios), slices.Min(ratios), slices.Max(ratios))
	return nil
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
