package dispatch

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
)

// newIdle is a rig with as many partitions as a deployment has, and what its replicas
// are configured with: numbers that the seed decides.
func newIdle(t *testing.T, seed int) (r *rig, seeded func(*Config)) {
	t.Helper()
	r = newRig(t)
	r.broker = memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 64})
	r.top = r.broker.Topology()
	return r, func(c *Config) {
		rnd := rand.New(rand.NewPCG(uint64(seed), uint64(len(r.replicas))))
		c.Random = func() (n float64) {
			r.with(func() { n = rnd.Float64() })
			return n
		}
	}
}

// inIdle runs a test with each of n seeds, and ends its replicas.
func inIdle(t *testing.T, name string, n int, test func(r *rig, seeded func(*Config), seed int)) {
	t.Helper()
	for seed := range seeds(n) {
		t.Run(fmt.Sprintf("%sseed %d", name, seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, seeded := newIdle(t, seed)
				test(r, seeded, seed)
				r.end()
			})
		})
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

// checkShares begins to send, and checks that each replica that runs has about its part
// of the partitions: hardly any is given up in the next ten seconds.
func (r *rig) checkShares() {
	r.t.Helper()
	before, running := r.balanced(), 0
	for _, p := range r.replicas {
		if !p.ended {
			running++
		}
	}
	most := 2 * r.top.Partitions / running
	shares := r.shares()
	for i, got := range shares {
		if !r.replicas[i].ended && (got < 1 || got > most) {
			r.t.Errorf("replica %d has %d of %d partitions, want 1 to %d: %v", i, got, r.top.Partitions, most, shares)
		}
	}
	every(time.Second, 10*time.Second, func(int) { r.shares() })
	if n := r.balanced() - before; n > running {
		r.t.Errorf("%d partitions were given up for balance, want at most %d; before %v", n, running, shares)
	}
	r.checkSentOnce()
}

// Replicas come one after another while there is nothing to send. Each has about its
// part soon.
func TestIdleReplicasShare(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4, 8} {
		for _, apart := range []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second} {
			inIdle(t, fmt.Sprintf("%d replicas, %v apart, ", n, apart), 4, func(r *rig, seeded func(*Config), seed int) {
				rnd := rand.New(rand.NewPCG(uint64(seed), 7))
				for range n {
					r.start(1, seeded)
					r.sleep(apart + time.Duration(rnd.Float64()*float64(apart)/4))
				}
				r.sleep(15*time.Second - apart)
				r.checkShares()
			})
		}
	}
}

// A replica is replaced by two, of which one came later than the other. They have about
// half of its partitions each, and not the later one all: it has made way, too.
func TestNewcomersComeInRandomOrder(t *testing.T) {
	t.Parallel()
	inIdle(t, "", 20, func(r *rig, seeded func(*Config), _ int) {
		r.start(1, seeded)
		r.sleep(15 * time.Second)
		for range 2 {
			r.start(1, seeded)
			r.sleep(1900 * time.Millisecond) // the first counts the second soon after it has come
		}
		r.sleep(2100 * time.Millisecond) // all have made way, and nothing is given up for balance yet
		if n := r.balanced(); n > 0 {
			r.t.Fatalf("%d partitions were given up for balance: nothing is tested", n)
		}
		r.stop(r.replicas[0])
		r.sleep(time.Second)
		if shares := r.shares(); min(shares[1], shares[2]) < r.top.Partitions/4 {
			r.t.Errorf("shares = %v, want about half of %d for each of the newcomers", shares, r.top.Partitions)
		}
		r.checkSentOnce()
	})
}

// Replicas are replaced one after another while there is nothing to send, by way of one
// more. Half of those that leave are killed.
func TestIdleRoll(t *testing.T) {
	t.Parallel()
	for _, gap := range []time.Duration{2 * time.Second, 8 * time.Second} {
		inIdle(t, fmt.Sprintf("%v, ", gap), 4, func(r *rig, seeded func(*Config), seed int) {
			r.start(4, seeded)
			r.sleep(15 * time.Second)
			for i, old := range r.replicas[:4] {
				r.start(1, seeded)
				r.sleep(gap)
				if i%2 == seed%2 {
					old.link.die()
				}
				r.stop(old)
				r.sleep(time.Second)
			}
			r.sleep(15 * time.Second)
			r.checkShares()
		})
	}
}

// No hello arrives, so the newest has all partitions. Once all have reconnected each
// says it again.
func TestIdleReplicasReconnect(t *testing.T) {
	t.Parallel()
	inIdle(t, "", 4, func(r *rig, seeded func(*Config), _ int) {
		away := new(atomic.Bool)
		for range 4 {
			r.start(1, func(c *Config) {
				l := c.Broker.(*link)
				l.refuse = func(op, _ string) error {
					if op == "publish" {
						return queue.ErrUnavailable
					}
					return nil
				}
				c.Broker = &counter{l, away}
				seeded(c)
			})
			r.sleep(3 * time.Second)
		}
		r.sleep(10 * time.Second)
		away.Store(true)
		r.sleep(3 * time.Second)
		for _, p := range r.replicas {
			p.link.with(func(l *link) { l.refuse = nil })
		}
		away.Store(false)
		r.sleep(15 * time.Second)
		r.checkShares()
	})
}
