package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"chatclub/internal/queue"
)

// Broker is a queue.Broker on RabbitMQ. Make one with Open. Safe for
// concurrent use.
type Broker struct {
	cfg        Config
	metrics    *metrics
	publishing *link
	consuming  *link
	window     *semaphore.Weighted   // places for unconfirmed messages
	specs      map[string]queue.Spec // the queues of the topology, by name

	// One declares at a time: RabbitMQ answers 541 when a quorum queue is
	// declared twice at once.
	declaring chan struct{}
	declared  time.Time // when the topology's last declaration began; of whoever has the place

	closing chan struct{}      // closed when Close begins
	cancel  context.CancelFunc // ends the links
	links   sync.WaitGroup
	calls   sync.WaitGroup // calls in progress and what they left behind

	mu     sync.Mutex
	closed bool
	subs   map[*subscription]struct{}
}

var _ queue.Broker = (*Broker)(nil)

// Open returns a broker that connects in the background: Ready tells when it
// is there. Its only errors are faults of cfg. The caller closes it.
func Open(cfg Config) (*Broker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open broker: %w", err)
	}
	m := newMetrics(cfg.Registerer)
	ctx, cancel := context.WithCancel(context.Background())
	b := &Broker{
		cfg: cfg, metrics: m, cancel: cancel,
		window:    semaphore.NewWeighted(int64(cfg.Window)),
		closing:   make(chan struct{}),
		declaring: make(chan struct{}, 1),
		specs:     make(map[string]queue.Spec),
		subs:      make(map[*subscription]struct{}),
	}
	for _, spec := range cfg.Topology.Specs() {
		b.specs[spec.Name] = spec
	}
	b.publishing = newLink(publishing, cfg, newPatience(cfg.ConfirmTimeout, 1), m, func(s *session, last error) error {
		err := b.declareMissing(s, last)
		if err == nil {
			s.writer, err = newWriter(s, cfg.Window, cfg.Topology)
		}
		return err
	})
	// Each address is tried before a silent one is waited for longer. While it is
	// silent no call begins, so that little is done twice.
	b.consuming = newLink(consuming, cfg, newPatience(answerTimeout, len(cfg.URLs)), m, func(s *session, last error) error {
		err := b.declareMissing(s, last)
		if err == nil {
			s.prober = newProber(s, cfg.Topology.Probes())
		}
		return err
	})
	// Both use the same node, and the next message would find out 5 s later.
	b.consuming.silent = func() { b.publishing.leave(answerTimeout) }
	b.links.Go(func() { b.publishing.run(ctx) })
	b.links.Go(func() { b.consuming.run(ctx) })
	return b, nil
}

// Topology is the set of queues given to Open.
func (b *Broker) Topology() queue.Topology { return b.cfg.Topology }

// Version returns the version of RabbitMQ that publishing is connected to, or "" while it is
// connected to none.
func (b *Broker) Version() string { return b.publishing.version() }

// Ready returns nil while both connections are up, the topology is declared, the
// broker takes what is published; otherwise everything that is wrong.
func (b *Broker) Ready() error {
	p, c := b.publishing.ready(), b.consuming.ready()
	if p != nil && c != nil {
		return fmt.Errorf("%w; %w", p, c)
	}
	return errors.Join(p, c)
}

// IsSilent reports that what is settled now may have no effect: see queue.Broker.
// It asks about the connection that brings deliveries.
func (b *Broker) IsSilent() bool { return b.consuming.isSilent() }

// enter counts a call in; the caller calls b.calls.Done. It is false once
// Close has begun.
func (b *Broker) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.calls.Add(1)
	return true
}

// Close ends all subscriptions, then the connections, and returns when
// everything has ended: after a few seconds at most, even if the broker does
// not answer. Calls in progress return queue.ErrClosed. Idempotent.
func (b *Broker) Close() error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	subs := make([]*subscription, 0, len(b.subs))
	for s := range b.subs {
		subs = append(subs, s)
	}
	b.mu.Unlock()
	if first {
		close(b.closing)
	}
	var closers sync.WaitGroup
	for _, s := range subs {
		closers.Go(func() { _ = s.Close() }) // never fails; in parallel, hundreds take one round trip
	}
	closers.Wait()
	b.cancel()
	b.links.Wait()
	b.calls.Wait()
	return nil
}
