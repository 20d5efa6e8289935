package submit

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

const (
	// knownFor is the time for which a partition's length is believed.
	knownFor = time.Second
	// inspectTimeout bounds the questions how long a partition and its lanes are, and
	// listTimeout those about all partitions of a list, which come one after another.
	inspectTimeout = 2 * time.Second
	listTimeout    = 10 * time.Second
)

// backlog knows how many messages wait for the dispatcher of a partition: on it and on its
// lanes. Safe for concurrent use.
type backlog struct {
	broker queue.Broker
	now    func() time.Time

	mu    sync.Mutex
	known map[int]depth // by partition
}

type depth struct {
	ready int
	at    time.Time
}

// check refuses messages to a partition on which as many wait as most.
func (b *backlog) check(ctx context.Context, list []message.Outbound, most int) *refusal {
	if most == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	checked := make(map[int]bool)
	for _, o := range list {
		i := b.broker.Topology().PartitionOf(o.Page)
		if checked[i] {
			continue
		}
		checked[i] = true
		ready, err := b.ready(ctx, i)
		if err != nil {
			return &refusal{http.StatusServiceUnavailable, "", "the broker does not say how much waits"}
		}
		if ready >= most {
			return &refusal{http.StatusTooManyRequests, "page", fmt.Sprintf("%d messages wait on the partition of %s, at most %d may", ready, o.Page, most)}
		}
	}
	return nil
}

// ready returns how many messages wait on a partition and its lanes.
func (b *backlog) ready(ctx context.Context, partition int) (int, error) {
	b.mu.Lock()
	last := b.known[partition]
	b.mu.Unlock()
	if b.now().Sub(last.at) < knownFor {
		return last.ready, nil
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	top := b.broker.Topology()
	sum := 0
	for _, name := range append(top.LanesOf(partition), top.Outbound(partition)) {
		info, err := b.broker.Inspect(ctx, name)
		if err != nil {
			return 0, fmt.Errorf("inspect %s: %w", name, err)
		}
		sum += info.Ready
	}
	b.mu.Lock()
	b.known[partition] = depth{sum, b.now()}
	b.mu.Unlock()
	return sum, nil
}
