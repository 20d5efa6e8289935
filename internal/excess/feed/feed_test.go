package feed

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"chatclub/internal/excess"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate notes what it is told.
type gate struct {
	mu       sync.Mutex
	replicas []int
	due      []excess.Key
	depths   map[excess.Key]int
}

func (g *gate) SetReplicas(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.replicas) == 0 || g.replicas[len(g.replicas)-1] != n {
		g.replicas = append(g.replicas, n)
	}
}

func (g *gate) TakeDue(time.Time) []excess.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.due)
}

func (g *gate) SetLaneDepth(_ time.Time, k excess.Key, ready int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.depths[k] = ready
}

func start(t *testing.T) (*memory.Broker, *gate, Feed) {
	t.Helper()
	b := memorytest.New(t, queue.Topology{Prefix: "t", Lanes: 4})
	g := &gate{depths: make(map[excess.Key]int)}
	return b, g, Feed{Broker: b, Gate: g, Queue: b.Topology().Outbound(), Now: time.Now, Random: func() float64 { return 0.5 }}
}

func TestReplicasFollowTheConsumers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g, f := start(t)
		defer b.Close()
		consume := func() queue.Subscription {
			s, err := b.Consume(f.Queue, queue.ConsumeOptions{Prefetch: 1})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		other := consume()
		wg.Go(func() { f.Replicas(ctx, func() { consume() }, nil) })
		time.Sleep(2 * time.Second)
		consume()
		time.Sleep(2 * time.Second)
		other.Close()
		time.Sleep(2 * time.Second)
		cancel()
		wg.Wait()
		if want := []int{2, 3, 2}; !slices.Equal(g.replicas, want) {
			t.Errorf("replicas = %v, want %v: one other and this, a third, one less", g.replicas, want)
		}
	})
}

func TestLaneDepths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g, f := start(t)
		defer b.Close()
		full, empty := excess.Key{Page: "full"}, excess.Key{Page: "empty"}
		for i := 0; b.Topology().LaneOf(empty.Page) == b.Topology().LaneOf(full.Page); i++ {
			empty.Page += "x"
		}
		g.due = []excess.Key{full, empty}
		for range 3 {
			if err := b.Publish(t.Context(), queue.Message{Queue: b.Topology().LaneOf(full.Page), ID: "m"}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { f.LaneDepths(ctx) })
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		if g.depths[full] != 3 || len(g.depths) != 2 || g.depths[empty] != 0 {
			t.Errorf("depths = %v, want 3 for %v and 0 for %v", g.depths, full, empty)
		}
	})
}
