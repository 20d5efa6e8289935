// Package leftover takes what is left off the queues of a run that has ended. It
// is for runs that own their queues: what is taken is gone.
package leftover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
)

// quiet is how long the broker may take to have back what consumers held, and to
// deliver what a queue has.
const quiet = 300 * time.Millisecond

// Take takes everything off the queues of the broker's topology and off more, but
// for the dead letters, and returns it. Nobody else may consume any of them. A lane
// is looked at when its token is found: without one nobody would ever send what is
// on it. Tokens are not returned, nor is what dispatchers say to each other.
func Take(ctx context.Context, b queue.Broker, more ...string) (left []*queue.Delivery, err error) {
	names := slices.Clone(more)
	for _, s := range b.Topology().Specs() {
		if s.Name != b.Topology().Dead() {
			names = append(names, s.Name)
		}
	}
	for range 2 { // the second time for what came back late
		time.Sleep(quiet)
		for i := 0; i < len(names); i++ {
			found, err := Empty(ctx, b, names[i])
			if err != nil {
				return nil, err
			}
			for _, d := range found {
				if d.Headers[message.HeaderHello] != "" {
					continue
				}
				lane := b.Topology().LaneOf(d.Message)
				if lane == "" {
					left = append(left, d)
				} else if !slices.Contains(names, lane) {
					names = append(names, lane)
				}
			}
		}
	}
	return left, nil
}

// Delete deletes the topology's queues and more, with what is on them, and the lanes
// whose tokens are found. It returns the broker's name and version. What does not exist
// is no error.
func Delete(ctx context.Context, amqpURL string, top queue.Topology, more ...string) (version string, err error) {
	if version, err = rabbit.Version(ctx, amqpURL); err != nil { // a client would wait for it
		return "", fmt.Errorf("delete queues: %w", err)
	}
	b, err := rabbit.Open(rabbit.Config{URLs: []string{amqpURL}, Topology: top, Name: "chatclub leftover", Passive: true})
	if err != nil {
		return "", err
	}
	lanes, err := findLanes(ctx, b)
	if err := errors.Join(err, b.Close()); err != nil {
		return version, err
	}
	return rabbit.Delete(ctx, amqpURL, top, append(lanes, more...)...)
}

// findLanes takes everything off the partitions, and returns the lanes whose tokens
// were there.
func findLanes(ctx context.Context, b queue.Broker) (lanes []string, err error) {
	time.Sleep(quiet)
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for i := range b.Topology().Partitions {
		g.Go(func() error {
			found, err := Empty(ctx, b, b.Topology().Outbound(i))
			mu.Lock()
			defer mu.Unlock()
			for _, d := range found {
				if lane := b.Topology().LaneOf(d.Message); lane != "" {
					lanes = append(lanes, lane)
				}
			}
			return err
		})
	}
	err = g.Wait() // before lanes is read
	return lanes, err
}

// Empty takes everything off one queue, which nobody else consumes. There may be
// none of that name.
func Empty(ctx context.Context, b queue.Broker, name string) (found []*queue.Delivery, err error) {
	info, err := b.Inspect(ctx, name)
	if errors.Is(err, queue.ErrUnroutable) || err == nil && info.Ready == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sub, err := b.Consume(name, queue.ConsumeOptions{Prefetch: 1000})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sub.Close()) }()
	for {
		select {
		case d, ok := <-sub.Deliveries():
			if !ok {
				return found, fmt.Errorf("look at queue %q: %w", name, queue.ErrClosed)
			}
			if err := d.Ack(); err != nil {
				continue // it comes again
			}
			found = append(found, d)
		case <-time.After(quiet):
			info, err := b.Inspect(ctx, name)
			if err != nil || info.Ready == 0 {
				return found, err
			}
		}
	}
}
