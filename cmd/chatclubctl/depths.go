package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/replicas"
)

// depths are how many messages wait on the queues. What programs hold is not
// counted.
type depths struct {
	Inbound    int    `json:"inbound"`
	Overflow   int    `json:"overflow"`
	Partitions int    `json:"partitions"`
	Deepest    string `json:"deepest_partition,omitempty"` // the queue of which most waits
	Lanes      int    `json:"lanes"`                       // of pages in excess
	Retry      int    `json:"retry"`
	Dead       int    `json:"dead"`
}

// inspector is the part of a broker that is asked.
type inspector interface {
	Inspect(ctx context.Context, queue string) (queue.Info, error)
	Topology() queue.Topology
}

// queueWatch asks the broker for the depths of its queues, as Watch asks a replica.
type queueWatch struct {
	broker inspector
	lanes  atomic.Pointer[[]string] // those that there are
	watch  replicas.Watch[*depths]
}

func newQueueWatch(broker inspector, wait time.Duration) *queueWatch {
	q := &queueWatch{broker: broker}
	q.lanes.Store(new([]string))
	q.watch = replicas.Watch[*depths]{Wait: wait, Ask: func(ctx context.Context, _ replicas.Replica) (*depths, error) { return q.ask(ctx) }}
	return q
}

// look returns the latest depths, and why there are none.
func (q *queueWatch) look(ctx context.Context, lanes []string) (*depths, error) {
	q.lanes.Store(&lanes)
	a := q.watch.Look(ctx, []replicas.Replica{{Name: "rabbitmq", URL: "amqp:"}})[0]
	return a.Value, a.Err
}

// ask asks for one queue after another.
func (q *queueWatch) ask(ctx context.Context) (*depths, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var d depths
	t := q.broker.Topology()
	var most int
	count := func(sum *int, names ...string) error {
		for _, name := range names {
			info, err := q.broker.Inspect(ctx, name)
			if errors.Is(err, queue.ErrUnroutable) {
				if t.Has(name) {
					return fmt.Errorf("there is no queue %q: QUEUE_PREFIX or PARTITIONS may be another", name)
				}
				continue // a lane that ended meanwhile
			}
			if err != nil {
				return err
			}
			*sum += info.Ready
			if sum == &d.Partitions && info.Ready > most {
				most, d.Deepest = info.Ready, name
			}
		}
		return nil
	}
	partitions := make([]string, t.Partitions)
	for i := range partitions {
		partitions[i] = t.Outbound(i)
	}
	var retries []string
	for _, delay := range queue.Delays() {
		retries = append(retries, t.Retry(delay))
	}
	for _, part := range []struct {
		sum   *int
		names []string
	}{
		{&d.Inbound, []string{t.Inbound()}},
		{&d.Overflow, t.Overflows()},
		{&d.Partitions, partitions},
		{&d.Lanes, *q.lanes.Load()},
		{&d.Retry, retries},
		{&d.Dead, []string{t.Dead()}},
	} {
		if err := count(part.sum, part.names...); err != nil {
			return nil, err
		}
	}
	return &d, nil
}
