package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
)

// newIdle is a rig with as many partitions as a deployment has. Each replica that start
// returns draws its numbers from the seed.
func newIdle(t *testing.T, seed int) (r *rig, start func() *replica) {
	t.Helper()
	r = newRig(t)
	r.broker = memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 64})
	r.top = r.broker.Topology()
	return r, func() *replica {
		rnd := rand.New(rand.NewPCG(uint64(seed), uint64(len(r.replicas))))
		r.start(1, func(c *Config) {
			c.Random = func() (n float64) {
				r.with(func() { n = rnd.Float64() })
				return n
			}
		})
		return r.replicas[len(r.replicas)-1]
	}
}

// shares publishes a text to each partition, and returns how many of them each replica
// sent.
func (r *rig) shares() []int {
	r.t.Helper()
	from := len(r.calls)
	for _, page := range r.pages() {
		r.text(page, "ann")
	}
	r.sleep(500 * time.Millisecond)
	shares := make([]int, len(r.replicas))
	for _, c := range r.calls[from:] {
		shares[c.replica]++
	}
	return shares
}

// balanced is how many partitions and lanes all replicas have given up for balance.
func (r *rig) balanced() (n int) {
	for _, p := range r.replicas {
		n += int(testutil.ToFloat64(p.metrics.givenUp["balance"]))
	}
	return n
}

// Replicas come one after another while there is nothing to send. Each has about its
// part soon, so that hardly any partition is given up when there is something.
func TestIdleReplicasShare(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4, 8} {
		for _, apart := range []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second} {
			for seed := range seeds(20) {
				t.Run(fmt.Sprintf("%d replicas, %v apart, seed %d", n, apart, seed), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						r, start := newIdle(t, seed)
						rnd := rand.New(rand.NewPCG(uint64(seed), 7))
						for range n {
							start()
							r.sleep(apart + time.Duration(rnd.Float64()*float64(apart)/4))
						}
						r.sleep(15*time.Second - apart)
						before := r.balanced()
						part := r.top.Partitions / n
						shares := r.shares()
						for i, got := range shares {
							if got < 1 || got > 2*part {
								t.Errorf("replica %d has %d of %d partitions, want 1 to %d: %v", i, got, r.top.Partitions, 2*part, shares)
							}
						}
						every(time.Second, 10*time.Second, func(int) { r.shares() })
						t.Log("SHARES", n, apart, slices.Max(shares), shares, before, r.balanced()-before)
						r.end()
						r.checkSentOnce()
					})
				})
			}
		}
	}
}

var _ = context.Background
var _ = message.HeaderLane
