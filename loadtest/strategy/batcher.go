package strategy

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"chatclub/internal/article"
	"chatclub/internal/backoff"
)

const (
	// pollEvery is how soon a message is offered again whose page waits for an
	// answer from Redis. It is some round trips in one data centre, and little
	// against the 40 ms of a call.
	pollEvery = time.Millisecond
	// redisTimeout bounds one round trip; redisRetry is the pause after one that
	// failed. Nothing is sent meanwhile: no answer is no permission.
	redisTimeout = time.Second
	redisRetry   = 50 * time.Millisecond
)

// batcher collects pages for which Redis is to be asked something. It asks for all
// of them in one round trip, on another goroutine than the engine's.
type batcher struct {
	client *redis.Client
	log    *slog.Logger
	fault  func(error)
	prefix string
	every  time.Duration // between two round trips; 0: as soon as there is something to ask
	// ask makes one round trip for all keys. An error leaves them all to be
	// asked for again.
	ask func(ctx context.Context, keys []article.Key) error

	listMu sync.Mutex // not "mu": a desk is embedded beside a gate that has one
	wanted []article.Key
	more   chan struct{} // one place: set when there is something to see
}

func newBatcher(c Config) (*batcher, error) {
	opts, err := redisOptions(c.RedisURL)
	if err != nil {
		return nil, err
	}
	opts.Dialer = c.Dial
	return &batcher{
		client: redis.NewClient(opts), log: c.Log, fault: c.Fault, prefix: c.KeyPrefix, more: make(chan struct{}, 1),
	}, nil
}

// onRedis makes a strategy that has a batcher.
func onRedis[S Strategy](build func(Config, *batcher) S) func(Config) (Strategy, error) {
	return func(c Config) (Strategy, error) {
		d, err := newBatcher(c)
		if err != nil {
			return nil, err
		}
		return build(c, d), nil
	}
}

// name is a page's name in Redis.
func (d *batcher) name(kind string, k article.Key) string {
	return fmt.Sprintf("%s:%s:{%s/%s}", d.prefix, kind, k.Page, k.Class)
}

// want has a page asked for. It does not block.
func (d *batcher) want(keys ...article.Key) {
	d.listMu.Lock()
	d.wanted = append(d.wanted, keys...)
	d.listMu.Unlock()
	select {
	case d.more <- struct{}{}:
	default:
	}
}

// Run asks until ctx ends, then closes the connections.
func (d *batcher) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			if err := d.client.Close(); err != nil {
				return fmt.Errorf("close Redis client: %w", err)
			}
			return nil
		case <-d.more:
		}
		d.listMu.Lock()
		keys := d.wanted
		d.wanted = nil
		d.listMu.Unlock()
		pause := d.every
		if len(keys) > 0 {
			if err := d.ask(ctx, keys); err != nil && ctx.Err() == nil {
				d.log.Warn("ask Redis", "pages", len(keys), "err", err)
				d.fault(err)
				d.want(keys...)
				pause = max(pause, redisRetry)
			}
		}
		backoff.Sleep(ctx, pause)
	}
}
