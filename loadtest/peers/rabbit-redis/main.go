// Command rabbit-redis joins a dispatcher as one would make it of known parts to
// chatclub's load test: one queue on RabbitMQ for all pages, and a token bucket
// for each page in Redis. A message without a token, or refused, goes to a delay
// queue, which gives it back after a second.
//
// https://github.com/go-redis/redis_rate
// https://www.rabbitmq.com/docs/dlx
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/go-redis/redis_rate/v10"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"chatclub/loadtest/peers/keys"
	"chatclub/loadtest/peers/peer"
)

func main() { os.Exit(peer.Main(peer.Peer{Feed: feed, Work: work})) }

// names of the queues.
func mainQueue(s peer.Settings) string  { return s.Namespace + ".main" }
func delayQueue(s peer.Settings) string { return s.Namespace + ".delay" }

// delay is how long a message is put away: the limit counts by seconds.
const delay = time.Second

// bucket is a page's.
func bucket(s peer.Settings) redis_rate.Limit {
	return redis_rate.PerSecond(max(1, int(math.Floor(s.Limit))))
}

// dial connects to the broker. No error holds the password.
func dial(s peer.Settings) (*amqp.Connection, error) {
	conn, err := amqp.Dial(s.AMQPURL)
	if err != nil {
		return nil, fmt.Errorf("reach RabbitMQ: %w", err)
	}
	return conn, nil
}

// sender sends what the main queue has.
type sender struct {
	settings peer.Settings
	graph    *peer.Graph
	publish  *amqp.Channel
	limiter  *redis_rate.Limiter
}

func work(ctx context.Context, s peer.Settings, g *peer.Graph, ready func()) (err error) {
	client, err := keys.Open(s.RedisURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	conn, err := dial(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	publish, err := confirming(conn)
	if err != nil {
		return err
	}
	w := &sender{settings: s, graph: g, publish: publish, limiter: redis_rate.NewLimiter(client)}
	consume, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := consume.Qos(s.AllCalls(), 0, false); err != nil {
		return err
	}
	deliveries, err := consume.ConsumeWithContext(context.WithoutCancel(ctx), mainQueue(s), "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	ready()
	return w.run(ctx, deliveries)
}

// run handles deliveries, as many at a time as are held, until ctx ends or one
// cannot be handled. What is held then goes back when the connection closes.
func (w *sender) run(ctx context.Context, deliveries <-chan amqp.Delivery) error {
	handling, ctx := errgroup.WithContext(ctx)
	for {
		select {
		case <-ctx.Done():
			return handling.Wait()
		case d, ok := <-deliveries:
			if !ok {
				return errors.Join(errors.New("the broker has ended the deliveries"), handling.Wait())
			}
			handling.Go(func() error { return w.handle(context.WithoutCancel(ctx), d) })
		}
	}
}

// handle sends a message, or puts it away for a while.
func (w *sender) handle(ctx context.Context, d amqp.Delivery) error {
	var m peer.Message
	if err := json.Unmarshal(d.Body, &m); err != nil {
		return errors.Join(fmt.Errorf("decode message: %w", err), d.Reject(false))
	}
	allowed, err := w.limiter.Allow(ctx, w.settings.Namespace+":"+m.Page, bucket(w.settings))
	if err != nil {
		return fmt.Errorf("ask the bucket: %w", err)
	}
	if allowed.Allowed > 0 && w.graph.Send(ctx, m) == nil {
		return d.Ack(false)
	}
	// Whatever else went wrong, a second later it may do.
	if err := publishAll(ctx, w.publish, delayQueue(w.settings), d.Body); err != nil {
		return err
	}
	return d.Ack(false)
}
