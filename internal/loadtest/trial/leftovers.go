package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"chatclub/internal/loadtest/strategy"
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
// counts as empty, and how long the broker may take to have back what the
// dispatchers held.
const quiet = 300 * time.Millisecond

// delayedFor is how long the broker may keep messages back.
var delayedFor = slices.Max(queue.Delays()) + time.Second

// leftovers takes everything off the queues, which nobody else consumes any
// more, and returns the ids of the messages, one for each place in which it
// was found. A lane is looked at when its token is found: without one nobody
// would ever send what is on it.
func (t *trial) leftovers(ctx context.Context) (ids []string, err error) {
	b := t.fleet.Broker()
	names := []string{strategy.Queue(b.Topology()).Name}
	for _, s := range b.Topology().Specs() {
		if s.Name != b.Topology().Dead() {
			names = append(names, s.Name)
		}
	}
	for i := range 2 { // the second time for what came back late
		time.Sleep(quiet)
		for end := time.Now().Add(delayedFor); i > 0 && t.fleet.Delayed() > 0 && time.Now().Before(end); {
			time.Sleep(quiet)
		}
		for k := 0; k < len(names); k++ {
			found, err := t.empty(ctx, b, names[k])
			if err != nil {
				return nil, err
			}
			for _, d := range found {
				page := d.Headers[message.HeaderLane]
				if page == "" {
					ids = append(ids, t.idsOf(d)...)
				} else if lane := b.Topology().Lane(page, string(d.Body)); !slices.Contains(names, lane) {
					names = append(names, lane)
				}
			}
		}
	}
	return ids, nil
}

// empty takes everything off a queue. There may be none of that name.
func (t *trial) empty(ctx context.Context, b queue.Broker, name string) (found []*queue.Delivery, err error) {
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

// idsOf are the messages that a delivery stands for: its own, or the copies
// that its event would make. What dispatchers tell core makes none.
func (t *trial) idsOf(d *queue.Delivery) []string {
	top := t.fleet.Broker().Topology()
	if d.Queue != top.Inbound() && !slices.Contains(top.Overflows(), d.Queue) {
		return []string{d.ID}
	}
	if e, err := message.DecodeEvent(d.Body); err == nil && t.hook != nil {
		return t.hook.ids(e.ID)
	}
	return nil
}
