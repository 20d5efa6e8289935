package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// hello publishes a hello to a page's partition, as a replica does.
func (r *rig) hello(page string) {
	r.t.Helper()
	m := queue.Message{Queue: r.top.OutboundOf(page), ID: "hello/1", Headers: map[string]string{message.HeaderHello: "1"}}
	if err := r.broker.Publish(context.Background(), m); err != nil {
		r.t.Fatal(err)
	}
}

// knows is which replica knows that a page's partition is its own, -1: none.
func (r *rig) knows(page string) int {
	return r.find(page, func(p *partition) bool { return !p.src.leaving && !p.last.IsZero() })
}

// A hello tells the owner that the partition is its own, and is no message: it is
// acknowledged, counted nowhere, sent nowhere and never dead.
func TestHelloIsNoMessage(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, nil, func(t *testing.T, r *rig) {
		r.sleep(idleCounts * countEvery) // nothing is given up any more
		for range 3 {
			r.hello("page0")
		}
		r.sleep(time.Second)
		owner := r.knows("page0")
		if owner < 0 {
			t.Fatal("nobody knows that the partition is its own")
		}
		for i, p := range r.replicas {
			if taken, held := testutil.ToFloat64(p.metrics.taken), testutil.ToFloat64(p.metrics.held); taken != 0 || held != 0 {
				t.Errorf("replica %d has taken %v messages and holds %v, want 0 and 0", i, taken, held)
			}
			p.inspect(func(e *engine) {
				for _, s := range e.sources.open {
					if s.held > 0 {
						t.Errorf("replica %d holds %d of %s, want 0", i, s.held, s.queue)
					}
				}
			})
		}
		r.end() // what was not acknowledged is back on its queue then
		for i := range r.top.Partitions {
			if info, err := r.broker.Inspect(t.Context(), r.top.Outbound(i)); err != nil || info.Ready != 0 {
				t.Errorf("partition %d has %d messages, %v, want 0", i, info.Ready, err)
			}
		}
		if len(r.calls) > 0 || len(r.dead()) > 0 {
			t.Errorf("%d calls were made, and there are dead letters", len(r.calls))
		}
	})
}

// A hello that comes to a replica that is leaving is for the next owner.
func TestHelloToOneThatLeaves(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, nil, func(t *testing.T, r *rig) {
		r.sleep(idleCounts * countEvery) // nothing is given up any more
		r.with(func() { r.latency = func(message.Outbound) time.Duration { return 3 * time.Second } })
		r.text("page0", "ann")
		r.sleep(100 * time.Millisecond)
		owner := r.owner("page0")
		r.replicas[owner].inspect(func(e *engine) {
			e.leave(e.sources.partitions[r.top.PartitionOf("page0")].src, "balance")
		})
		r.hello("page0")
		r.sleep(4 * time.Second)
		if now := r.knows("page0"); now != 1-owner {
			t.Errorf("replica %d knows that it owns the partition, want %d", now, 1-owner)
		}
		r.checkSentOnce()
	})
}

// What the next owner is given back still goes before what is new, whenever it is said
// hello.
func TestHelloIsNotCollected(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, nil, func(t *testing.T, r *rig) {
		leaver := r.slowOwner()
		leaver.link.with(func(l *link) {
			l.dies = func(op, name string) bool {
				if op == "cancelled" && name == r.top.OutboundOf("page0") {
					r.hello("page0")
					time.Sleep(2 * sortTime)
					r.text("page0", "ann")
				}
				return false
			}
		})
		r.stop(leaver)
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// mute is a broker that takes nothing until the caller gives up.
type mute struct{ queue.Broker }

func (mute) Publish(ctx context.Context, _ ...queue.Message) error {
	<-ctx.Done()
	return queue.ErrUnavailable
}

// A replica whose hello is not taken sends from the start, and is counted soon.
func TestHelloIsNotTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, nil, func(t *testing.T, r *rig) {
		r.text("page0", "ann")
		r.start(1, func(c *Config) { c.Broker = mute{c.Broker} })
		r.sleep(spread + 100*time.Millisecond)
		r.checkSentOnce()
		r.sleep(2 * countEvery)
		r.only().inspect(func(e *engine) {
			if got := e.calls.health.replicas; got != 1 {
				t.Errorf("replicas = %d, want 1", got)
			}
		})
	})
}
