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
	// maxReady is how many messages may be ready on a partition when more are put
	// there: some seconds of what its dispatcher sends. More would be sent in one
	// go when a dispatcher comes back, and would stand before the conversations of
	// all pages of the partition.
	maxReady = 1000
	// inspectTimeout bounds the question how many there are.
	inspectTimeout = 2 * time.Second
	// avoidFor is how long a partition is left alone that did not take messages
	// while others did. A round waits up to PublishTimeout for it, and meanwhile
	// all other broadcasts wait for the round.
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
	list  map[string]partition
	avoid map[string]time.Time // until when
}

// partition is the last answer about a queue.
type partition struct {
	free int // how many more it may be given
	full bool
}

func newPartitions(cfg Config, gauge prometheus.Gauge) *partitions {
	return &partitions{broker: cfg.Broker, log: cfg.Log, gauge: gauge, now: cfg.Now, avoid: make(map[string]time.Time)}
}

// inspect asks the broker how long these queues are, and forgets the others. A
// queue without an answer is given nothing.
func (p *partitions) inspect(ctx context.Context, names []string) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	answers := make([]partition, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			if info, err := p.broker.Inspect(ctx, name); err == nil {
				answers[i] = partition{free: maxReady - info.Ready, full: info.Ready >= maxReady}
			}
		})
	}
	group.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	list, full := make(map[string]partition, len(names)), 0
	for i, name := range names {
		a := answers[i]
		if a.full {
			full++
			if !p.list[name].full {
				p.log.WarnContext(ctx, "a partition is long; its broadcasts wait", "queue", name, "ready", maxReady-a.free)
			}
		}
		list[name] = a
	}
	p.list = list
	p.gauge.Set(float64(full))
}

// isOpen reports whether a queue may be given messages.
func (p *partitions) isOpen(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list[name].free > 0 && !p.avoid[name].After(p.now())
}

// take notes the messages that a queue was given.
func (p *partitions) take(msgs []queue.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range msgs {
		if a, ok := p.list[m.Queue]; ok {
			a.free--
			p.list[m.Queue] = a
		}
	}
}

// leave has queues left alone for a while that did not take these messages.
func (p *partitions) leave(msgs []queue.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for name, until := range p.avoid {
		if !until.After(now) {
			delete(p.avoid, name)
		}
	}
	for _, m := range msgs {
		if _, ok := p.avoid[m.Queue]; !ok {
			p.log.Warn("a partition took no messages; its broadcasts wait", "queue", m.Queue, "for", avoidFor)
		}
		p.avoid[m.Queue] = now.Add(avoidFor)
	}
}
