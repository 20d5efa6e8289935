package dispatch

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
)

// Replicas die at random between any two steps of a lane's life: marker published,
// messages moved and acknowledged. Every message is sent at least once, and in the end
// nothing is left in any queue.
func TestReplicasThatDie(t *testing.T) {
	t.Parallel()
	for seed := range 2 * seeds(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				rnd := rand.New(rand.NewPCG(uint64(seed), 3))
				r.latency = longTailed(rand.New(rand.NewPCG(uint64(seed), 4)), 40*time.Millisecond, 200*time.Millisecond)
				r.limits = func(string, message.Class) int { return 300 }
				small := func(c *Config) { c.Prefetch = 64 }
				pages := r.peers(3)
				dying := map[string]float64{ // how likely at each operation
					"marker": 0.01, "publish": 0.0005,
				}
				fate := rand.New(rand.NewPCG(uint64(seed), 5))
				maybe := func(op, _ string) bool {
					r.mu.Lock()
					defer r.mu.Unlock()
					return fate.Float64() < dying[op]
				}
				add := func(mortal bool) {
					r.start(1, small)
					if p := r.replicas[len(r.replicas)-1]; mortal {
						p.link.with(func(l *link) { l.dies = maybe })
					}
				}
				add(true)
				add(true)
				for range 60 {
					for _, page := range pages {
						switch rnd.IntN(4) {
						case 0:
							r.text(page, guests("u", 1+rnd.IntN(200))...)
						case 1:
							r.text(page, guests("u", 1+rnd.IntN(5))...)
						}
					}
					r.sleep(time.Duration(rnd.IntN(2000)) * time.Millisecond)
					live := 0
					for _, p := range r.replicas {
						if p.link.isDead() && !p.ended {
							r.stop(p) // the process ends; the broker saw that before
						}
						if !p.ended {
							live++
						}
					}
					if rnd.IntN(15) == 0 && live > 1 {
						for _, p := range r.replicas {
							if !p.ended {
								p.link.die() // by itself
								r.stop(p)
								live--
								break
							}
						}
					}
					for ; live < 2; live++ {
						add(true)
					}
				}
				add(false) // one that lives on
				last := r.replicas[len(r.replicas)-1]
				for _, p := range r.replicas {
					if p != last && !p.ended {
						p.link.die()
						r.stop(p)
					}
				}
				r.sleep(5 * time.Minute)
				missing := 0
				for _, id := range r.published {
					if r.accepted[id] == 0 {
						missing++
					}
				}
				if missing > 0 {
					t.Errorf("%d of %d messages were never sent, by %d replicas", missing, len(r.published), len(r.replicas))
				}
				r.end()
				r.checkEmpty()
			})
		})
	}
}

// The first replica dies at each step of its first lane's life, before the broker
// has seen it and after. Another goes on, and in the end nothing is left.
func TestDeathAtEachStep(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"marker", "publish"} {
		for nth := range 4 { // before and after the first and second
			t.Run(fmt.Sprint(op, nth), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					small := func(c *Config) { c.Prefetch = 64 }
					r.start(1, small)
					first := r.replicas[0]
					seen := 0
					first.link.with(func(l *link) {
						l.dies = func(what, _ string) bool {
							r.mu.Lock()
							defer r.mu.Unlock()
							if what == op {
								seen++
							}
							return what == op && seen == nth+1
						}
					})
					r.sleep(2 * time.Second)
					r.limits = func(string, message.Class) int { return 300 }
					r.text("page0", guests("u", 400)...)
					r.sleep(30 * time.Second)
					if !first.link.isDead() {
						t.Fatalf("it saw %d of %s, and lives", seen, op)
					}
					r.stop(first)
					r.start(1, nil) // one that needs no lane for the rest
					r.sleep(4 * time.Minute)
					r.inversions = nil
					r.checkSent(1, 2)
					r.end()
					r.checkEmpty()
				})
			})
		}
	}
}

// Replicas come, leave, and give partitions up at random, with calls that take
// equally long, but for one that has just taken them: an owner before that held nothing does
// not know that. Every message is sent once, and none is overtaken.
func TestHandOversAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range 2 * seeds(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(uint64(seed), 6))
			small := func(c *Config) { c.Prefetch = 64 }
			inBubble(t, 2, small, func(t *testing.T, r *rig) {
				latency := []time.Duration{40 * time.Millisecond, 700 * time.Millisecond, 2900 * time.Millisecond}[seed%3]
				r.latency = func(message.Outbound) time.Duration { return latency }
				pages := r.peers(3)
				last, since := -1, time.Now()
				for range 200 {
					for _, page := range pages {
						switch rnd.IntN(4) {
						case 0:
							r.text(page, guests("u", 1+rnd.IntN(200))...)
						case 1:
							r.text(page, guests("u", 1+rnd.IntN(5))...)
						}
					}
					r.sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
					owner := r.owner(pages[0])
					if owner != last {
						last, since = owner, time.Now()
					}
					if owner < 0 || time.Since(since) <= quietTime {
						continue
					}
					switch p := r.replicas[owner]; rnd.IntN(8) {
					case 0:
						r.start(1, small)
						r.stop(p)
					case 1:
						p.inspect(func(e *engine) {
							e.claims.renew(e.claims.partitions[r.top.PartitionOf(pages[0])], "outranked")
						})
					case 2:
						p.stepBack()
					}
				}
				r.sleep(5 * time.Minute)
				r.checkSentOnce()
			})
		})
	}
}
