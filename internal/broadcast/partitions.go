package broadcast

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
)

const (
	// maxReady is the number of ready messages on a partition above which no more are
	// put there: some seconds of its dispatcher's sends. More would be sent in one go
	// when a dispatcher comes back, and would stand before the conversations of all
	// pages of the partition.
	maxReady = 1000
	// inspectTimeout bounds the question how many there are.
	inspectTimeout = 2 * time.Second
	// avoidFor is the pause for a partition that did not take messages. A round waits
	// up to PublishTimeout for it, in one of maxRounds places.
	avoidFor = 30 * time.Second
)

// partitions knows how many messages each partition may be given until its
// length is asked for again. At first that is none. Safe for concurrent use.
type partitions struct {
	broker queue.Broker
	log    *slog.Logger
	gauge  prometheus.Gauge // how many are full
	now    func() time.Time

	mu    sync.Mutex
	free  map[string]int       // how many messages a queue may be given; 0 or less: it is full
	avoid map[string]time.Time // until when
}

func newPartitions(cfg Config, gauge prometheus.Gauge) *partitions {
	return &partitions{broker: cfg.Broker, log: cfg.Log, gauge: gauge, now: cfg.Now, avoid: make(map[string]time.Time)}
}

// inspect asks the broker how long these queues are, and forgets the others. A
// queue without an answer is given nothing. Rounds that are in progress at a time may
// each give a queue maxPublish more.
func (p *partitions) inspect(ctx context.Context, names []string) {
	limited, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	ready := make([]int, len(names)) // -1: no answer
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			info, err := p.broker.Inspect(limited, name)
			if ready[i] = info.Ready; err != nil {
				ready[i] = -1
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return // the end of the program says nothing about the queues
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	free, full := make(map[string]int, len(names)), 0
	for i, name := range names {
		if ready[i] < 0 {
			continue
		}
		if free[name] = maxReady - ready[i]; free[name] > 0 {
			continue
		}
		full++
		if before, known := p.free[name]; !known || before > 0 {
			p.log.WarnContext(ctx, "a partition is long; its broadcasts wait", "queue", name, "ready", ready[i])
		}
	}
	p.free = free
	p.gauge.Set(float64(full))
}

// isOpen reports whether a queue may be given messages.
func (p *partitions) isOpen(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free[name] > 0 && !p.avoid[name].After(p.now())
}

// count counts messages that a queue is given.
func (p *partitions) count(name string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.free[name]; known {
		p.free[name] -= n
	}
}

// skip excludes a queue that did not take messages, for avoidFor.
func (p *partitions) skip(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if !p.avoid[name].After(now) {
		p.log.Warn("a partition took no messages; its broadcasts wait", "queue", name, "for", avoidFor)
	}
	p.avoid[name] = now.Add(avoidFor)
}
