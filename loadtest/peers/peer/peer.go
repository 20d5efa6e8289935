// Package peer is the Go side of the interface by which chatclub's load test
// runs somebody else's system: a feeder, which puts messages into the system's
// queue, and workers, which send them. README.md in the folder above describes
// the interface for every language.
package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Message is one message to send.
type Message struct {
	ID   string `json:"id"`   // unique in a run
	Page string `json:"page"` // whose limit it counts against
	Body string `json:"body"` // what to post, as it is
}

// Settings are what the load test says of the run.
type Settings struct {
	GraphURL  string   // GRAPH_URL, with the version, as in http://127.0.0.1:8090/v23.0
	Limit     float64  // LIMIT, calls per second of each page
	Replicas  int      // REPLICAS, workers at the start
	Replica   int      // REPLICA, which of them this is, from 0; of a feeder it means nothing
	Pages     []string // PAGES_FILE, ids of the pages that messages may be for
	Namespace string   // NAMESPACE, first part of the names of all that the run makes

	RedisURL    string // REDIS_URL, where the peer needs one
	DatabaseURL string // DATABASE_URL, of a PostgreSQL, where the peer needs one
	AMQPURL     string // AMQP_URL, where the peer needs one
}

// Load reads the settings from the environment. The error names every variable
// that is wrong.
func Load(get func(string) string) (Settings, error) {
	s := Settings{
		GraphURL: get("GRAPH_URL"), Namespace: get("NAMESPACE"),
		RedisURL: get("REDIS_URL"), DatabaseURL: get("DATABASE_URL"), AMQPURL: get("AMQP_URL"),
	}
	var faults []error
	var err error
	if s.Limit, err = strconv.ParseFloat(get("LIMIT"), 64); err != nil || !(s.Limit > 0) || math.IsInf(s.Limit, 0) {
		faults = append(faults, fmt.Errorf("LIMIT: %.40q must be a number above 0", get("LIMIT")))
	}
	if s.Replicas, err = strconv.Atoi(get("REPLICAS")); err != nil || s.Replicas < 1 {
		faults = append(faults, fmt.Errorf("REPLICAS: %.40q must be a whole number above 0", get("REPLICAS")))
	}
	if s.Replica, err = strconv.Atoi(get("REPLICA")); err != nil || s.Replica < 0 {
		faults = append(faults, fmt.Errorf("REPLICA: %.40q must be a whole number", get("REPLICA")))
	}
	pages, err := os.ReadFile(get("PAGES_FILE"))
	if err != nil {
		faults = append(faults, fmt.Errorf("PAGES_FILE: %w", err))
	}
	if s.Pages = strings.Fields(string(pages)); len(s.Pages) == 0 && err == nil {
		faults = append(faults, errors.New("PAGES_FILE: there is no page in it"))
	}
	for name, value := range map[string]string{"GRAPH_URL": s.GraphURL, "NAMESPACE": s.Namespace} {
		if value == "" {
			faults = append(faults, fmt.Errorf("%s must be set", name))
		}
	}
	return s, errors.Join(faults...)
}

// slowest is how long nearly every call takes at most: the platform's 99th
// percentile is 1.9 s.
const slowest = 2 * time.Second

// Calls returns how many calls of one page a worker must be able to make at a
// time, so that the workers together can use the page's limit.
func (s *Settings) Calls() int {
	return max(50, int(math.Ceil(s.Limit*slowest.Seconds()/float64(s.Replicas))))
}

// mostCalls bounds AllCalls.
const mostCalls = 1000

// AllCalls is the same for a worker that serves all pages from one pool. Not all
// of very many pages can be at their limit.
func (s *Settings) AllCalls() int { return min(mostCalls, s.Calls()*len(s.Pages)) }

// Share returns a worker's part of a page's limit where each has the same.
func (s *Settings) Share() float64 { return s.Limit / float64(s.Replicas) }

// Peer is a system that is put to the test.
type Peer struct {
	// Feed connects a feeder.
	Feed func(ctx context.Context, s Settings) (Queue, error)
	// Work sends messages until ctx ends. Then it takes no more, lets the calls
	// in flight end, and returns. It calls ready once it takes messages.
	Work func(ctx context.Context, s Settings, g *Graph, ready func()) error
}

// Main runs the program that the arguments ask for, feed or work, and returns
// its exit code.
func Main(p Peer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := p.run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (p Peer) run(ctx context.Context, args []string, get func(string) string, in io.Reader, out io.Writer) error {
	if len(args) != 1 || args[0] != "feed" && args[0] != "work" {
		return errors.New("usage: feed | work")
	}
	s, err := Load(get)
	if err != nil {
		return err
	}
	if args[0] == "feed" {
		q, err := p.Feed(ctx, s)
		if err != nil {
			return fmt.Errorf("feed: %w", err)
		}
		return feed(ctx, q, in, out)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process, or with whoever started it
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	if err := p.Work(ctx, s, NewGraph(s.GraphURL), func() { fmt.Fprintln(out, "ready") }); err != nil {
		return fmt.Errorf("work: %w", err)
	}
	return nil
}
