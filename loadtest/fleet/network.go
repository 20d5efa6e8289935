package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// Network is what lies between the programs of a Local and its broker. The zero
// value is nothing: every call reaches the broker at once.
type Network struct {
	// Hop is how long each way takes. Everything of one connection travels in
	// order.
	Hop time.Duration
	// Capacity makes each queue one process of the broker, as in RabbitMQ. It
	// does so many operations a second, first come, first served. A publish, a
	// delivery and an acknowledgement are one operation each. 0: no bound.
	Capacity int
	// Process names the process that a queue belongs to, where several share one:
	// all queues of a broker do so much together. nil: each is its own.
	Process func(queue string) string
	// Published is called with every message when the broker takes it. It must not
	// block. nil: none. It needs a Hop.
	Published func(queue.Message)
	// Refuse reports whether a queue does not take a message now, as under an
	// operator's policy. It must not block. nil: all do. It needs a Hop.
	Refuse func(queue.Message) bool
}

// network is a broker in memory behind a Network. Make one with newNetwork. Safe
// for concurrent use.
type network struct {
	Network
	inner *memory.Broker
	wire  *wire
	perOp time.Duration // 0: no bound
	pumps sync.WaitGroup

	mu     sync.Mutex
	free   map[string]time.Time          // when each process has done all that it was given
	owners map[string][]*netSubscription // of each queue, in the order in which the broker learned of them
}

func newNetwork(n Network, inner *memory.Broker) *network {
	if n.Published == nil {
		n.Published = func(queue.Message) {}
	}
	if n.Process == nil {
		n.Process = func(queue string) string { return queue }
	}
	if n.Refuse == nil {
		n.Refuse = func(queue.Message) bool { return false }
	}
	w := &network{Network: n, inner: inner, wire: newWire(), free: make(map[string]time.Time), owners: make(map[string][]*netSubscription)}
	if n.Capacity > 0 {
		w.perOp = time.Second / time.Duration(n.Capacity)
	}
	return w
}

// close ends the network. The broker must be closed before.
func (n *network) close() {
	n.pumps.Wait()
	n.wire.stop()
}

// work reserves the queue's process for operations that begin now, and returns
// when they are done.
func (n *network) work(name string, operations int) time.Time {
	now := time.Now()
	if n.perOp == 0 {
		return now
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	name = n.Process(name)
	done := n.free[name]
	if done.Before(now) {
		done = now
	}
	done = done.Add(time.Duration(operations) * n.perOp)
	n.free[name] = done
	return done
}

// perform calls do when the queue's process has done so many operations, after
// all that it was given before.
func (n *network) perform(name string, operations int, do func()) {
	if n.perOp == 0 {
		do()
		return
	}
	n.wire.at(n.work(name, operations), do)
}

// take puts a message on its queue.
func (n *network) take(m queue.Message) error {
	if n.Refuse(m) {
		return fmt.Errorf("publish to %q: %w", m.Queue, queue.ErrRefused)
	}
	n.Published(m)
	return n.inner.Publish(context.Background(), m)
}

// owner returns the connection to which the broker delivers a single-active
// queue, nil without any.
func (n *network) owner(name string) *connection {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.owners[name]) == 0 {
		return nil
	}
	return n.owners[name][0].connection
}

func (n *network) enlist(s *netSubscription) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners[s.name] = append(n.owners[s.name], s)
}

func (n *network) strike(s *netSubscription) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners[s.name] = slices.DeleteFunc(n.owners[s.name], func(o *netSubscription) bool { return o == s })
}
