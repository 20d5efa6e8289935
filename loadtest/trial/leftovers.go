package trial

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"chatclub/internal/article"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/leftover"
	"chatclub/loadtest/fleet"
)

// deadLetters takes what dispatchers put on the dead-letter queue. Make one with
// openDeadLetters. Safe for concurrent use.
type deadLetters struct {
	sub  queue.Subscription // nil: of a system whose queues are its own, which tells them in the end
	done chan struct{}

	mu      sync.Mutex
	ids     []string
	reasons map[message.Reason]int
	faults  []error
}

func openDeadLetters(b queue.Broker) (*deadLetters, error) {
	if b == nil {
		return &deadLetters{reasons: make(map[message.Reason]int)}, nil
	}
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

// givenUp is the reason of dead letters of which a system says only that it has
// given them up.
const givenUp message.Reason = "given up"

// add notes what a system has given up.
func (m *deadLetters) add(ids []string) {
	if len(ids) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids = append(m.ids, ids...)
	m.reasons[givenUp] += len(ids)
}

func (m *deadLetters) close() {
	if m.sub == nil {
		return
	}
	_ = m.sub.Close() // never fails
	<-m.done
}

// delayedPoll is how often it is looked whether the broker still keeps messages
// back, and delayedFor how long it may do so.
const delayedPoll = 300 * time.Millisecond

var delayedFor = slices.Max(queue.Delays()) + time.Second

// leftovers takes everything off the queues, which nobody else consumes any
// more, and returns the ids of the messages, one for each place in which it
// was found. A system whose queues are its own is asked for them.
func (t *trial) leftovers(ctx context.Context) (ids []string, err error) {
	if o, ok := t.fleet.(fleet.Outside); ok {
		waiting, dead, err := o.Left(ctx)
		t.dead.add(dead)
		return waiting, err
	}
	for end := time.Now().Add(delayedFor); t.fleet.Delayed() > 0 && time.Now().Before(end); {
		time.Sleep(delayedPoll)
	}
	b := t.fleet.Broker()
	left, err := leftover.Take(ctx, b, article.Queue(b.Topology()).Name)
	for _, d := range left {
		ids = append(ids, t.idsOf(d)...)
	}
	return ids, err
}

// idsOf are the messages that a delivery stands for: its own, or the copies
// that its event would make. What dispatchers tell core makes none.
func (t *trial) idsOf(d *queue.Delivery) []string {
	top := t.fleet.Broker().Topology()
	if !slices.Contains(top.Events(), d.Queue) {
		return []string{d.ID}
	}
	if e, err := message.DecodeEvent(d.Body); err == nil && t.hook != nil {
		return t.hook.ids(e.ID)
	}
	return nil
}
