package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Kind is a group of a topology's queues. Ready counts the messages that wait for a consumer.
type Kind struct {
	Name  string `json:"name"`
	Ready int    `json:"ready"` // -1: not all of its queues could be asked
}

// Idle is a queue that has messages and no consumer, although programs consume it while they
// run.
type Idle struct {
	Queue string `json:"queue"`
	Ready int    `json:"ready"`
}

// Census is the state of a topology's queues at a moment.
type Census struct {
	Kinds   []Kind   `json:"kinds"` // inbound, outbound, lanes, retry, dead
	Idle    []Idle   `json:"idle,omitempty"`
	Missing []string `json:"missing,omitempty"` // queues that no program has declared
	// Beyond is the partitions whose numbers the topology does not have: a program has more.
	Beyond []Idle `json:"beyond,omitempty"`
}

// Count asks for the state of all queues, one after another: some 400 with 64 partitions. With
// an error the Kinds that were not counted have -1.
func Count(ctx context.Context, b Broker) (c Census, err error) {
	top := b.Topology()
	groups := []struct {
		name     string
		consumed bool
		queues   []string
	}{{"inbound", true, top.Inbounds()}, {"outbound", true, []string{top.OutboundAny()}}, {"lanes", true, nil}, {"retry", false, nil}, {"dead", false, []string{top.Dead()}}}
	for i := range top.Partitions {
		groups[1].queues = append(groups[1].queues, top.Outbound(i))
		groups[2].queues = append(groups[2].queues, top.LanesOf(i)...)
	}
	for _, d := range Delays() {
		groups[3].queues = append(groups[3].queues, top.Retry(d))
	}
	for _, g := range groups {
		k := Kind{Name: g.name}
		for _, name := range g.queues {
			info, askErr := b.Inspect(ctx, name)
			switch {
			case errors.Is(askErr, ErrUnroutable):
				c.Missing = append(c.Missing, name)
			case askErr != nil:
				k.Ready, err = -1, askErr
			case g.consumed && info.Ready > 0 && info.Consumers == 0:
				c.Idle = append(c.Idle, Idle{name, info.Ready})
				fallthrough
			default:
				k.Ready += info.Ready
			}
			if k.Ready < 0 {
				break
			}
		}
		c.Kinds = append(c.Kinds, k)
	}
	if err == nil {
		c.Beyond, err = beyond(ctx, b)
	}
	return c, err
}

// StillIdle returns those of now that were idle before: while a queue goes from one consumer to
// the next, it has none for up to some seconds.
func StillIdle(before, now []Idle) (still []Idle) {
	for _, q := range now {
		if slices.ContainsFunc(before, func(b Idle) bool { return b.Queue == q.Queue }) {
			still = append(still, q)
		}
	}
	return still
}

// beyond looks for partitions whose numbers are too high for the topology.
func beyond(ctx context.Context, b Broker) (found []Idle, err error) {
	top := b.Topology()
	for i := top.Partitions; i < MaxPartitions; i++ {
		for _, name := range []string{top.Inbound(i), top.Outbound(i)} {
			info, err := b.Inspect(ctx, name)
			if errors.Is(err, ErrUnroutable) {
				return found, nil
			}
			if err != nil {
				return found, err
			}
			found = append(found, Idle{name, info.Ready})
		}
	}
	return found, nil
}

// Takes returns nil if the broker takes messages now, and otherwise why not: RabbitMQ tells a
// connection of an alarm once something is published on it. It publishes to a queue that does
// not exist, so nothing is queued.
func Takes(ctx context.Context, b Broker) error {
	err := b.Publish(ctx, Message{Queue: b.Topology().Prefix + ".nowhere", ID: "probe"})
	if errors.Is(err, ErrUnroutable) {
		return nil
	}
	if err != nil {
		if ready := b.Ready(); ready != nil { // without what the context adds
			return ready
		}
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}
