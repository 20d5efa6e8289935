// Command asynq joins asynq to chatclub's load test: a queue for each page, and
// the recipe of asynq's wiki on rate limiting. A token bucket in each worker has
// its share of the page's limit. A task without a token is tried again later,
// which is no failure.
//
// https://github.com/hibiken/asynq/wiki/Rate-Limiting
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/time/rate"

	"chatclub/loadtest/peers/peer"
)

func main() { os.Exit(peer.Main(peer.Peer{Feed: feed, Work: work})) }

// taskType is of the only kind of task.
const taskType = "send"

// queueOf is the name of a page's queue.
func queueOf(s peer.Settings, page string) string { return s.Namespace + "-" + page }

func connection(s peer.Settings) (asynq.RedisConnOpt, error) {
	opt, err := asynq.ParseRedisURI(s.RedisURL)
	if err != nil {
		return nil, errors.New("REDIS_URL must look like redis://host:port/db") // err repeats it, with the password
	}
	return opt, nil
}

// rateLimitError says that the page may not be sent to now.
type rateLimitError struct{ retryIn time.Duration }

func (e *rateLimitError) Error() string { return fmt.Sprintf("rate limited, retry in %v", e.retryIn) }

// later is such an error. The wiki draws a time of up to ten seconds. One to two
// seconds serve a limit that counts by seconds better.
func later() error {
	return &rateLimitError{time.Second + rand.N(time.Second)}
}

// config is a worker's.
func config(s peer.Settings) asynq.Config {
	queues := make(map[string]int, len(s.Pages))
	for _, page := range s.Pages {
		queues[queueOf(s, page)] = 1
	}
	return asynq.Config{
		Concurrency: s.AllCalls(), Queues: queues,
		IsFailure: func(err error) bool {
			_, limited := errors.AsType[*rateLimitError](err)
			return !limited
		},
		RetryDelayFunc: func(n int, err error, task *asynq.Task) time.Duration {
			if limited, ok := errors.AsType[*rateLimitError](err); ok {
				return limited.retryIn
			}
			return asynq.DefaultRetryDelayFunc(n, err, task)
		},
		// The default of 5 s would add as much to each second that a task waits.
		DelayedTaskCheckInterval: time.Second,
		ShutdownTimeout:          20 * time.Second, // two call time-outs
		LogLevel:                 asynq.ErrorLevel,
		Logger:                   quiet{},
	}
}

// limiters are a worker's token buckets, by page.
func limiters(s peer.Settings) map[string]*rate.Limiter {
	all := make(map[string]*rate.Limiter, len(s.Pages))
	for _, page := range s.Pages {
		all[page] = rate.NewLimiter(rate.Limit(s.Share()), max(1, int(s.Share()/10))) // a tenth of a second's worth
	}
	return all
}

func work(ctx context.Context, s peer.Settings, g *peer.Graph, ready func()) error {
	opt, err := connection(s)
	if err != nil {
		return err
	}
	buckets := limiters(s)
	srv := asynq.NewServer(opt, config(s))
	err = srv.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var m peer.Message
		if err := json.Unmarshal(t.Payload(), &m); err != nil {
			return fmt.Errorf("decode task: %w: %w", err, asynq.SkipRetry)
		}
		bucket := buckets[m.Page]
		if bucket == nil {
			return fmt.Errorf("page %q is not in PAGES_FILE: %w", m.Page, asynq.SkipRetry)
		}
		if !bucket.Allow() {
			return later()
		}
		err := g.Send(ctx, m)
		if errors.Is(err, peer.ErrThrottled) {
			return later()
		}
		return err
	}))
	if err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	srv.Shutdown()
	return nil
}

// quiet leaves out what is not fatal: a test that ends a worker is full of it.
type quiet struct{}

func (quiet) Debug(...any)   {}
func (quiet) Info(...any)    {}
func (quiet) Warn(...any)    {}
func (quiet) Error(a ...any) { log.Print(a...) }
func (quiet) Fatal(a ...any) { log.Fatal(a...) }
