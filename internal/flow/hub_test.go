package flow

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// hop is one way between a program and its broker, in a data centre.
const hop = 300 * time.Microsecond

// hub is the broker that all programs of a run share: package memory, reached
// by a network of one hop each way. Everything of one connection travels in
// order. With a capacity, each queue is one process of the broker that does so
// many operations a second, first come, first served, as in RabbitMQ; a publish,
// a delivery and an acknowledgement are one operation each.
type hub struct {
	inner *memory.Broker
	wire  *wire
	perOp time.Duration       // 0: without limit
	seen  func(queue.Message) // is told of every publish
	pumps sync.WaitGroup

	published, delivered, acked atomic.Int64

	mu     sync.Mutex
	free   map[string]time.Time       // when the queue's process has done all it was given
	owners map[string][]*subscription // of each queue, in the order in which the broker knows them
}

func newHub(t *testing.T, top queue.Topology, capacity int, seen func(queue.Message)) *hub {
	t.Helper()
	inner, err := memory.New(top)
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{inner: inner, seen: seen, wire: newWire(), free: make(map[string]time.Time), owners: make(map[string][]*subscription)}
	if capacity > 0 {
		h.perOp = time.Second / time.Duration(capacity)
	}
	return h
}

// close ends the broker. Every client must have ended before.
func (h *hub) close(t *testing.T) {
	t.Helper()
	if err := h.inner.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	h.pumps.Wait()
	h.wire.stop()
}

// ops is how many operations the broker has done.
func (h *hub) ops() int64 { return h.published.Load() + h.delivered.Load() + h.acked.Load() }

// work reserves the queue's process for operations that are to begin now and
// returns when they are done.
func (h *hub) work(name string, ops int) time.Time {
	now := time.Now()
	if h.perOp == 0 {
		return now
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	done := h.free[name]
	if done.Before(now) {
		done = now
	}
	done = done.Add(time.Duration(ops) * h.perOp)
	h.free[name] = done
	return done
}

// perform does what takes a number of operations on a queue, after what was
// given before it.
func (h *hub) perform(name string, ops int, do func()) {
	if h.perOp == 0 {
		do()
		return
	}
	h.wire.at(h.work(name, ops), do)
}

// owner is the client that the broker delivers a single-active queue to, nil
// when nobody consumes it.
func (h *hub) owner(name string) *client {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.owners[name]) == 0 {
		return nil
	}
	return h.owners[name][0].client
}

func (h *hub) enlist(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owners[s.name] = append(h.owners[s.name], s)
}

func (h *hub) strike(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owners[s.name] = slices.DeleteFunc(h.owners[s.name], func(o *subscription) bool { return o == s })
}

// drain takes everything off a queue that nobody else consumes.
func (h *hub) drain(t *testing.T, name string) (got []queue.Message) {
	t.Helper()
	info, err := h.inner.Inspect(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	if info.Consumers > 0 {
		t.Fatalf("%s has %d consumers at the end, want 0", name, info.Consumers)
	}
	if info.Ready == 0 {
		return nil
	}
	sub, err := h.inner.Consume(name, queue.ConsumeOptions{Prefetch: info.Ready})
	if err != nil {
		t.Fatal(err)
	}
	for range info.Ready {
		d := <-sub.Deliveries()
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
		got = append(got, d.Message)
	}
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
	return got
}
