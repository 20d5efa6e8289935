package demo

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/article"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// worker makes a member work the article's way: all consume one queue, and each tries by
// itself the messages that were refused.
func (c *Crew) worker(m *member, metrics prometheus.Registerer) error {
	s := c.cfg.Settings
	send, err := sender.New(sender.Config{
		BaseURL: s.GraphURL, Tokens: c.cfg.Tokens, Transport: m.way,
		MaxInFlight: workerInFlight, CallTimeout: s.CallTimeout, Registerer: metrics,
	})
	if err != nil {
		return err
	}
	w := article.NewWorker(article.WorkerConfig{
		Broker: m.link, Caller: send, Strategy: article.New(nil), Log: c.cfg.Log.With("program", m.name),
		Prefetch: 2 * workerInFlight, MaxInFlight: workerInFlight,
		MaxAttempts: s.MaxAttempts, MessageTTL: s.MessageTTL, ShutdownTimeout: s.ShutdownTimeout,
	})
	m.run = func(ctx context.Context) error { defer send.Close(); return w.Run(ctx) }
	m.ready = func(context.Context) error { return w.Ready() }
	return nil
}

// workerInFlight is the number of a worker's calls in flight, as in the load test.
const workerInFlight = 512

// Divert is core's connection to the broker. While it is on, copies go to the one
// queue that the article's workers share. Broker must be set, and has that queue.
type Divert struct {
	queue.Broker
	on atomic.Bool
}

// Set turns it on or off.
func (d *Divert) Set(on bool) { d.on.Store(on) }

// Publish implements queue.Publisher.
func (d *Divert) Publish(ctx context.Context, msgs ...queue.Message) error {
	if d.on.Load() {
		msgs = article.Divert(d.Topology(), msgs)
	}
	return d.Broker.Publish(ctx, msgs...)
}

// movePrefetch is the number of messages of one queue that are moved at a time.
const movePrefetch = 256

// Gather moves the messages on the partitions and their lanes to the shared queue, until
// ctx ends. Messages for dispatchers alone stay where they are.
func (d *Divert) Gather(ctx context.Context) {
	t := d.Topology()
	var moving sync.WaitGroup
	defer moving.Wait()
	for i := range t.Partitions {
		for _, name := range append(t.LanesOf(i), t.Outbound(i)) {
			d.moveFrom(ctx, &moving, name, func(x *queue.Delivery) string {
				if message.IsMarker(x.Headers) {
					return ""
				}
				return t.Shared()
			})
		}
	}
}

// Forward moves the rest of the shared queue to its partitions, until ctx ends.
func (d *Divert) Forward(ctx context.Context) {
	t := d.Topology()
	var moving sync.WaitGroup
	defer moving.Wait()
	d.moveFrom(ctx, &moving, t.Shared(), func(x *queue.Delivery) string {
		if out, err := message.DecodeOutbound(x.Body); err == nil {
			return t.OutboundOf(out.Page)
		}
		return t.Dead()
	})
}

// moveFrom moves messages from a queue to the queue that to returns. Messages with "" go
// back when ctx ends.
func (d *Divert) moveFrom(ctx context.Context, moving *sync.WaitGroup, name string, to func(*queue.Delivery) string) {
	sub, err := d.Consume(name, queue.ConsumeOptions{Prefetch: movePrefetch})
	if err != nil {
		return
	}
	moving.Go(func() {
		defer sub.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case x, ok := <-sub.Deliveries():
				if !ok {
					return
				}
				d.move(ctx, x, to(x))
			}
		}
	})
}

// move moves one message. One that cannot be moved stays unsettled, and goes back.
func (d *Divert) move(ctx context.Context, x *queue.Delivery, to string) {
	if to == "" {
		return
	}
	if err := d.Broker.Publish(ctx, queue.Message{Queue: to, ID: x.ID, Body: x.Body, Headers: x.Headers}); err == nil {
		_ = x.Ack() // stale: it comes again
	}
}
