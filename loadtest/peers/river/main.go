// Command river joins River to chatclub's load test: a queue for each page. River
// has no limit by rate, so that each worker waits for its share of the page's
// limit with the job in hand. A job beyond the limit is snoozed for a second.
//
// https://riverqueue.com/docs/snoozing-jobs
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"golang.org/x/time/rate"

	"chatclub/loadtest/peers/peer"
)

func main() { os.Exit(peer.Main(peer.Peer{Feed: feed, Work: work})) }

// send is a job.
type send struct{ peer.Message }

// Kind implements river.JobArgs.
func (send) Kind() string { return "send" }

// queueOf is the name of a page's queue.
func queueOf(page string) string { return "page-" + page }

// pause is how long a job is put away that was refused: the limit counts by
// seconds.
const pause = time.Second

// sender does jobs.
type sender struct {
	river.WorkerDefaults[send]
	graph    *peer.Graph
	limiters map[string]*rate.Limiter // by page; not changed any more
}

func newSender(s peer.Settings, g *peer.Graph) *sender {
	w := &sender{graph: g, limiters: make(map[string]*rate.Limiter, len(s.Pages))}
	for _, page := range s.Pages {
		w.limiters[page] = rate.NewLimiter(rate.Limit(s.Share()), 1) // evenly
	}
	return w
}

// Work implements river.Worker.
func (w *sender) Work(ctx context.Context, job *river.Job[send]) error {
	limiter := w.limiters[job.Args.Page]
	if limiter == nil {
		return river.JobCancel(fmt.Errorf("page %q is not in PAGES_FILE", job.Args.Page))
	}
	if err := limiter.Wait(ctx); err != nil {
		return err
	}
	err := w.graph.Send(ctx, job.Args.Message)
	if errors.Is(err, peer.ErrThrottled) {
		return river.JobSnooze(pause)
	}
	return err
}

// config is a worker's. What it does not say is River's default.
func config(s peer.Settings, workers *river.Workers) *river.Config {
	queues := make(map[string]river.QueueConfig, len(s.Pages))
	for _, page := range s.Pages {
		queues[queueOf(page)] = river.QueueConfig{MaxWorkers: s.Calls()}
	}
	return &river.Config{
		Queues: queues, Workers: workers, Schema: s.Namespace,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
}

// connections is how many a worker has to the database. Four workers then stay
// below PostgreSQL's 100.
const connections = 10

func connect(ctx context.Context, s peer.Settings) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(s.DatabaseURL)
	if err != nil {
		return nil, errors.New("DATABASE_URL must look like postgres://user@host:port/db") // err may repeat the password
	}
	c.MaxConns = connections
	return pgxpool.NewWithConfig(ctx, c)
}

// stopTimeout is how long jobs in hand may take at the end: two call time-outs.
const stopTimeout = 20 * time.Second

func work(ctx context.Context, s peer.Settings, g *peer.Graph, ready func()) error {
	running := context.WithoutCancel(ctx) // the jobs in hand end first
	pool, err := connect(running, s)
	if err != nil {
		return err
	}
	defer pool.Close()
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, newSender(s, g)); err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), config(s, workers))
	if err != nil {
		return err
	}
	if err := client.Start(running); err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(running, stopTimeout)
	defer cancel()
	return client.Stop(stopping)
}
