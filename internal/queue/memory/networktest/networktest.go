// Package networktest puts a broker in memory behind a network, for load tests and for
// tests of what happens while an operation is on its way.
package networktest

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// Options make a broker slow. The zero value makes nothing slow.
type Options struct {
	// Hop is the time of each way between a program and the broker. Everything travels
	// in order.
	Hop time.Duration
	// Capacity makes each queue one process of the broker, as in RabbitMQ. It does
	// so many operations a second, first come, first served. A publish, a delivery
	// and an acknowledgement are one operation each. 0: no bound.
	Capacity int
	// Process names the process that a queue belongs to, where several share one.
	// nil: each is its own.
	Process func(queue string) string
	// Slow returns how much longer a queue takes for an operation than others do, now. nil: no
	// queue is slow.
	Slow func(queue string) time.Duration
	// KeepsDead makes the broker like RabbitMQ 4.3: see memory.Options.
	KeepsDead bool
}

// Broker is a broker in memory that counts its work. Make one with NewBroker.
type Broker struct {
	*memory.Broker
	counted *counted
}

// NewBroker returns a broker that is as slow as the options say. With a Hop or a
// Capacity it has a goroutine, which Close ends.
func NewBroker(t queue.Topology, o Options) (*Broker, error) {
	c := &counted{Network: memory.Direct{}}
	if o.Hop > 0 || o.Capacity > 0 {
		c.Network = newNetwork(o)
	}
	b, err := memory.NewWith(t, memory.Options{Network: c, KeepsDead: o.KeepsDead})
	if err != nil {
		c.Stop()
		return nil, err
	}
	return &Broker{Broker: b, counted: c}, nil
}

// Operations returns the number of publishes, deliveries and acknowledgements so far.
func (b *Broker) Operations() int64 { return b.counted.operations.Load() }

// counted is a network that counts the operations of the broker behind it.
type counted struct {
	memory.Network
	operations atomic.Int64
}

// To implements memory.Network.
func (c *counted) To(queue string, operations int, do func()) {
	c.operations.Add(int64(operations))
	c.Network.To(queue, operations, do)
}

// Deliver implements memory.Network.
func (c *counted) Deliver(queue string, do func()) {
	c.operations.Add(1)
	c.Network.Deliver(queue, do)
}

// network is the way between the programs and the broker, and the broker's
// processors. It runs functions at set times, one after another on one goroutine:
// those of the same time in the order in which they were given. They must not
// block. Make one with newNetwork, and Stop it. Safe for concurrent use.
type network struct {
	hop   time.Duration
	perOp time.Duration // 0: no bound
	of    func(queue string) string
	slow  func(queue string) time.Duration
	wake  chan struct{} // the earliest entry changed
	quit  chan struct{}
	ended chan struct{}

	mu      sync.Mutex
	free    map[string]time.Time // when each process has done all that it was given
	entries entries
	given   uint64
	stopped bool
}

func newNetwork(o Options) *network {
	n := &network{
		hop: o.Hop, of: o.Process, slow: o.Slow, free: make(map[string]time.Time),
		wake: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	if o.Capacity > 0 {
		n.perOp = time.Second / time.Duration(o.Capacity)
	}
	if n.of == nil {
		n.of = func(queue string) string { return queue }
	}
	go n.run()
	return n
}

// Stop implements memory.Network. Call it once.
func (n *network) Stop() {
	close(n.quit)
	<-n.ended
	for {
		n.mu.Lock()
		if len(n.entries) == 0 {
			n.stopped = true
			n.mu.Unlock()
			return
		}
		do := heap.Pop(&n.entries).(*entry).do
		n.mu.Unlock()
		do()
	}
}

// work reserves a queue's process for operations that begin now, and returns when
// they are done.
func (n *network) work(queue string, operations int) time.Time {
	now := time.Now()
	if n.perOp == 0 && n.slow == nil {
		return now
	}
	if n.slow != nil {
		now = now.Add(n.slow(queue))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	process := n.of(queue)
	done := n.free[process]
	if done.Before(now) {
		done = now
	}
	done = done.Add(time.Duration(operations) * n.perOp)
	n.free[process] = done
	return done
}

// To implements memory.Network.
func (n *network) To(queue string, operations int, do func()) {
	n.Back(func() {
		if n.perOp == 0 && n.slow == nil {
			do()
			return
		}
		n.at(n.work(queue, operations), do)
	})
}

// Deliver implements memory.Network.
func (n *network) Deliver(queue string, do func()) { n.at(n.work(queue, 1).Add(n.hop), do) }

// Back implements memory.Network.
func (n *network) Back(do func()) { n.at(time.Now().Add(n.hop), do) }

// at runs do at a time, or at once when it is over.
func (n *network) at(t time.Time, do func()) {
	n.mu.Lock()
	if n.stopped {
		n.mu.Unlock()
		do()
		return
	}
	n.given++
	e := &entry{t, n.given, do}
	heap.Push(&n.entries, e)
	first := n.entries[0] == e
	n.mu.Unlock()
	if !first {
		return
	}
	select {
	case n.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// next removes the earliest entry if it is due. Otherwise it returns how long that
// takes.
func (n *network) next() (do func(), wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.entries) == 0 {
		return nil, time.Hour // it is woken before
	}
	if wait = time.Until(n.entries[0].at); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&n.entries).(*entry).do, 0
}

func (n *network) run() {
	defer close(n.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		do, wait := n.next()
		if do != nil {
			do()
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-n.wake:
		case <-n.quit:
			return
		}
	}
}

// entry is a function and when it runs.
type entry struct {
	at    time.Time
	given uint64
	do    func()
}

// entries are a heap, the earliest first.
type entries []*entry

func (e entries) Len() int      { return len(e) }
func (e entries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *entries) Push(x any)   { *e = append(*e, x.(*entry)) }

func (e entries) Less(i, j int) bool {
	if e[i].at.Equal(e[j].at) {
		return e[i].given < e[j].given
	}
	return e[i].at.Before(e[j].at)
}

func (e *entries) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return x
}
