package dispatch

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/queue"
)

// pages are one page of each partition.
func (r *rig) pages() []string {
	list := make([]string, r.top.Partitions)
	for i, left := 0, len(list); left > 0; i++ {
		page := fmt.Sprint("page", i)
		if n := r.top.PartitionOf(page); list[n] == "" {
			list[n] = page
			left--
		}
	}
	return list
}

// Replicas that start in the same instant, or one after another, and find nothing to
// do do not know who has which partition. Once there is something, each soon has its
// part: one alone makes no more calls than MAX_IN_FLIGHT.
func TestBalanceAfterAnIdleStart(t *testing.T) {
	t.Parallel()
	const replicas = 8
	for name, apart := range map[string]time.Duration{"at once": 0, "one after another": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, nil, func(t *testing.T, r *rig) {
				for range replicas - 1 {
					r.sleep(apart)
					r.start(1, nil)
				}
				r.sleep(10 * time.Second)
				pages := r.pages()
				go every(time.Second, 40*time.Second, func(int) {
					for _, page := range pages {
						r.text(page, "ann")
					}
				})
				r.sleep(20 * time.Second)
				part := (r.top.Partitions + replicas - 1) / replicas
				for i, p := range r.replicas {
					p.inspect(func(e *engine) {
						if n := len(e.sources.owned(e.Now())); n > 2*part {
							t.Errorf("replica %d owns %d of %d partitions, want at most %d", i, n, r.top.Partitions, 2*part)
						}
					})
				}
				r.sleep(time.Minute)
				r.checkSentOnce()
			})
		})
	}
}

// A replica has all that is busy, which is less than its part of all partitions. One
// that comes, or comes back, gets its share of it. Replicas that have all reconnected
// have what they have.
func TestNewcomerGetsItsShare(t *testing.T) {
	t.Parallel()
	counter := &counter{away: new(atomic.Bool)}
	inBubble(t, 1, func(c *Config) { counter.Broker, c.Broker = c.Broker, counter }, func(t *testing.T, r *rig) {
		const busy = 6
		go every(100*time.Millisecond, 110*time.Second, func(int) {
			for i := range busy {
				r.text(r.pages()[i], "ann")
			}
		})
		want := func(when string, first, second int) {
			t.Helper()
			for i, want := range []int{first, second} {
				p := r.replicas[0]
				if i == 1 {
					p = r.replicas[len(r.replicas)-1]
				}
				p.inspect(func(e *engine) {
					if busy, _ := e.active(e.Now()); len(busy) != want {
						t.Errorf("%s: replica %d has %d of the busy partitions, want %d", when, i, len(busy), want)
					}
				})
			}
		}
		r.sleep(10 * time.Second)
		r.start(1, nil)
		r.sleep(20 * time.Second)
		want("when another has come", busy/2, busy/2)
		r.stop(r.replicas[1])
		r.sleep(2 * time.Second)
		r.start(1, nil)
		r.sleep(20 * time.Second)
		want("when it was started anew", busy/2, busy/2)
		counter.away.Store(true)
		r.sleep(3 * time.Second)
		r.stop(r.replicas[2])
		counter.away.Store(false)
		r.sleep(2 * time.Second)
		r.start(1, nil)
		r.sleep(20 * time.Second)
		want("when both have reconnected, one later", busy, 0)
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// counter is a broker that may not be there to say anything of a queue.
type counter struct {
	queue.Broker

	away *atomic.Bool
}

func (c *counter) Inspect(ctx context.Context, name string) (queue.Info, error) {
	if c.away.Load() {
		return queue.Info{}, queue.ErrUnavailable
	}
	return c.Broker.Inspect(ctx, name)
}
