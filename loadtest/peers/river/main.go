// Command river joins River to chatclub's load test: a queue for each page. River
// has no limit by rate, so each worker waits for its share of the page's limit with
// the job in hand. A job beyond the limit is snoozed for a second. README.md in the
// folder above describes the interface.
//
// https://riverqueue.com/docs/snoozing-jobs
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"golang.org/x/time/rate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// settings are those of the load test.
type settings struct {
	graph, namespace string
	limit            float64 // calls a second of each page
	replicas         int
	pages            []string
}

func run(ctx context.Context) error {
	s := settings{graph: os.Getenv("GRAPH_URL"), namespace: os.Getenv("NAMESPACE")}
	if _, err := fmt.Sscan(os.Getenv("LIMIT")+" "+os.Getenv("REPLICAS"), &s.limit, &s.replicas); err != nil {
		return fmt.Errorf("LIMIT, REPLICAS: %w", err)
	}
	pages, err := os.ReadFile(os.Getenv("PAGES_FILE")) //nolint:gosec // the load test's
	if err != nil {
		return fmt.Errorf("PAGES_FILE: %w", err)
	}
	s.pages = strings.Fields(string(pages))
	c, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	c.MaxConns = 10 // four workers stay below PostgreSQL's 100
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), c)
	if err != nil {
		return err
	}
	defer pool.Close()
	if len(os.Args) > 1 && os.Args[1] == "feed" {
		return feed(ctx, pool, s)
	}
	return work(ctx, pool, s)
}

// send is a job: a message to send.
type send struct {
	ID   string `json:"id"`
	Page string `json:"page"`
	Body string `json:"body"` // to post as it is
}

// Kind implements river.JobArgs.
func (send) Kind() string { return "send" }

// queueOf is the name of a page's queue.
func queueOf(page string) string { return "page-" + page }

// sender does jobs.
type sender struct {
	river.WorkerDefaults[send]
	graph    string
	client   http.Client
	limiters map[string]*rate.Limiter // by page; not changed any more
}

// Work implements river.Worker.
func (w *sender) Work(ctx context.Context, job *river.Job[send]) (err error) {
	m := job.Args
	if err := w.limiters[m.Page].Wait(ctx); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.graph+"/"+m.Page+"/messages", strings.NewReader(m.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer token-"+m.Page)
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	var answer struct {
		Error struct{ Code int }
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&answer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch code := answer.Error.Code; {
	case resp.StatusCode == http.StatusOK:
		return nil
	case code == 613: // beyond the page's limit, which counts by seconds
		return river.JobSnooze(time.Second)
	default:
		return fmt.Errorf("answer %d, code %d", resp.StatusCode, code)
	}
}

// work sends messages until ctx or the standard input ends, and then ends the jobs
// in hand. What is not said to River is its default.
func work(ctx context.Context, pool *pgxpool.Pool, s settings) error {
	share := s.limit / float64(s.replicas)
	const slowest = 2 // seconds; the platform's 99th percentile is 1.9 s
	w := &sender{graph: s.graph, limiters: make(map[string]*rate.Limiter), client: http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1000, IdleConnTimeout: 30 * time.Second},
	}}
	queues := make(map[string]river.QueueConfig, len(s.pages))
	for _, page := range s.pages {
		w.limiters[page] = rate.NewLimiter(rate.Limit(share), 1) // evenly
		queues[queueOf(page)] = river.QueueConfig{MaxWorkers: max(50, int(math.Ceil(share*slowest)))}
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: queues, Workers: workers, Schema: s.namespace,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	running := context.WithoutCancel(ctx) // the jobs in hand end first
	if err := client.Start(running); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Fprintln(os.Stdout, "ready")
	<-ctx.Done()
	stopping, done := context.WithTimeout(running, 20*time.Second) // two call time-outs
	defer done()
	return client.Stop(stopping)
}
