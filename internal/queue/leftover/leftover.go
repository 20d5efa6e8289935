// Package leftover takes the messages left off the queues of a run that has ended. It
// is for runs that own their queues: messages that are taken are gone.
package leftover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// quiet is the time for the broker to take held messages back, and to deliver a queue.
const quiet = 300 * time.Millisecond

// Take takes everything off the queues of the broker's topology, but for the dead
// letters, and returns it. Nobody else may consume any of them. What dispatchers leave in
// their lanes for themselves is not returned.
func Take(ctx context.Context, b queue.Broker) (left []*queue.Delivery, err error) {
	var names []string
	for _, s := range b.Topology().Specs() {
		if s.Name != b.Topology().Dead() && s.Name != b.Topology().Orders() { // nothing is taken off a stream
			names = append(names, s.Name)
		}
	}
	for range 2 { // the second time for late returns
		time.Sleep(quiet)
		for _, name := range names {
			found, err := Empty(ctx, b, name)
			if err != nil {
				return nil, err
			}
			for _, d := range found {
				if !message.IsMarker(d.Headers) {
					left = append(left, d)
				}
			}
		}
	}
	return left, nil
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
