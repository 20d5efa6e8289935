package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// deadLetters takes what dispatchers put on the dead-letter queue. Make one with
// openDeadLetters. Safe for concurrent use.
type deadLetters struct {
	sub  queue.Subscription
	done chan struct{}

	mu      sync.Mutex
	ids     []string
	reasons map[message.Reason]int
	faults  []error
}

func openDeadLetters(b queue.Broker) (*deadLetters, error) {
	sub, err := b.Consume(b.Topology().Dead(), queue.ConsumeOptions{Prefetch: 256})
	if err != nil {
		return nil, err
	}
	m := &deadLetters{sub: sub, done: make(chan struct{}), reasons: make(map[message.Reason]int)}
	go func() {
		defer close(m.done)
		for d := range sub.Deliveries() {
			m.take(d)
		}
	}()
	return m, nil
}

// take notes one dead letter. One that does not say why it died is a fault,
// and its message stays lost.
func (m *deadLetters) take(d *queue.Delivery) {
	death, err := message.DeathFromHeaders(d.Headers)
	m.mu.Lock()
	if err != nil || death.Reason == "" {
		m.faults = append(m.faults, fmt.Errorf("dead letter %.80q has no reason", d.ID))
	} else {
		m.ids = append(m.ids, d.ID)
		m.reasons[death.Reason]++
	}
	m.mu.Unlock()
	_ = d.Ack() // stale: it comes again
}

// count is how many there are; m may be nil.
func (m *deadLetters) count() int {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ids)
}

func (m *deadLetters) close() {
	_ = m.sub.Close() // never fails
	<-m.done
}

// quiet is how long a queue that has something must give nothing before it
// counts as empty. The broker may take as long to have back what the
// dispatchers held.
const quiet = 300 * time.Millisecond

// leftovers takes everything off the queues, which have no other consumers any
// more, and returns the ids of the messages, one for each place in which it
// was found.
func leftovers(ctx context.Context, b queue.Broker, hook *webhook) ([]string, error) {
	var ids []string
	for range 2 { // the second time for what came back late
		time.Sleep(quiet)
		for _, s := range b.Topology().Specs() {
			if s.Name == b.Topology().Dead() {
				continue
			}
			found, err := empty(ctx, b, s.Name, hook)
			if err != nil {
				return nil, err
			}
			ids = append(ids, found...)
		}
	}
	return ids, nil
}

func empty(ctx context.Context, b queue.Broker, name string, hook *webhook) (ids []string, err error) {
	info, err := b.Inspect(ctx, name)
	if err != nil || info.Ready == 0 {
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
				return ids, fmt.Errorf("look at queue %q: %w", name, queue.ErrClosed)
			}
			if err := d.Ack(); err != nil {
				continue // it comes again
			}
			ids = append(ids, idsOf(d, hook)...)
		case <-time.After(quiet):
			info, err := b.Inspect(ctx, name)
			if err != nil || info.Ready == 0 {
				return ids, err
			}
		}
	}
}

// idsOf are the messages that a delivery stands for: its own, or the copies
// that its event would make.
func idsOf(d *queue.Delivery, hook *webhook) []string {
	if hook != nil {
		if e, err := message.DecodeEvent(d.Body); err == nil {
			return hook.ids(e.ID)
		}
	}
	return []string{d.ID}
}
