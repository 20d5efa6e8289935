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

	mu       sync.Mutex
	list     map[string]partition
	reserved map[string]int       // messages that rounds in progress may put there
	avoid    map[string]time.Time // until when
}

// partition is the last answer about a queue.
type partition struct {
	free int // how many more it may be given
	full bool
}

func newPartitions(cfg Config, gauge prometheus.Gauge) *partitions {
	return &partitions{broker: cfg.Broker, log: cfg.Log, gauge: gauge, now: cfg.Now, reserved: make(map[string]int), avoid: make(map[string]time.Time)}
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
		a.free -= p.reserved[name] // some may be counted twice, until the next answer
		if a.full {
			full++
			if !p.list[name].full {
				p.log.WarnContext(ctx, "a partition is long; its broadcasts wait", "queue", name, "ready", maxReady-answers[i].free)
			}
		}
		list[name] = a
	}
	p.list = list
	p.gauge.Set(float64(full))
}

// reserve reports whether a queue may be given messages, and notes that it may get
// so many now. The caller gives the places back.
func (p *partitions) reserve(name string, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list[name].free <= 0 || p.avoid[name].After(p.now()) {
		return false
	}
	p.change(name, n)
	return true
}

// release gives back what was reserved, of which so many places were used.
func (p *partitions) release(name string, n, used int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(name, -n)
	if a, ok := p.list[name]; ok {
		a.free -= used
		p.list[name] = a
	}
}

// change changes what is reserved. The lock is held.
func (p *partitions) change(name string, n int) {
	if p.reserved[name] += n; p.reserved[name] == 0 {
		delete(p.reserved, name)
	}
	if a, ok := p.list[name]; ok {
		a.free -= n
		p.list[name] = a
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
