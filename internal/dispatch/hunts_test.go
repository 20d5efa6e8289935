package dispatch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// A clean stop of a lively page at Messenger's latency: calls are always open then, and
// the person of each has more waiting. Nothing is lost, doubled or overtaken.
func TestCleanStopOfALivelyPage(t *testing.T) {
	t.Parallel()
	for seed := range seeds(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 2, nil, func(t *testing.T, r *rig) {
				rnd := rand.New(rand.NewPCG(uint64(seed), 1))
				r.latency = longTailed(rand.New(rand.NewPCG(uint64(seed), 2)), 700*time.Millisecond, 1900*time.Millisecond)
				r.limits = func(string, message.Class) int { return 300 }
				r.sleep(8 * time.Second)
				people := guests("u", 60)
				go every(4*time.Millisecond, 60*time.Second, func(int) { r.text("page0", people[rnd.IntN(len(people))]) })
				for range 6 {
					r.sleep(8 * time.Second)
					i, began := r.owner("page0"), time.Now()
					if i < 0 {
						continue
					}
					r.start(1, nil)
					r.stop(r.replicas[i])
					r.sleep(5 * time.Second)
					if s := r.silence("page0", began, time.Now()); s > 3*time.Second {
						t.Errorf("silent for %v, want 3 s at most", s)
					}
				}
				r.sleep(time.Minute)
				r.checkSentOnce()
			})
		})
	}
}

// slowBroker has a replica's publishes take so long each.
func (p *replica) slowBroker(d time.Duration) {
	p.link.with(func(l *link) {
		l.dies = func(op, _ string) bool {
			if op == "publish" {
				time.Sleep(d / 2) // before it and after
			}
			return false
		}
	})
}

// A partition is handed over in the midst of a backlog of 30,000 that lands, and goes to
// a lane: nothing is lost, doubled or overtaken.
func TestHandOverWhileABacklogLands(t *testing.T) {
	t.Parallel()
	const total, slice = 30_000, 300
	delays := []time.Duration{time.Second, 2500 * time.Millisecond, 4 * time.Second} // it lands in 2 s
	for _, latency := range []time.Duration{40 * time.Millisecond, 700 * time.Millisecond} {
		for _, after := range delays[:seeds(len(delays))] {
			for _, leave := range []string{"stop", "outranked"} {
				if testing.Short() && (latency < time.Second/2) != (leave == "stop") {
					continue // each latency and each way once
				}
				t.Run(fmt.Sprintf("%v, %s after %v", latency, leave, after), func(t *testing.T) {
					t.Parallel()
					inBubble(t, 2, nil, func(t *testing.T, r *rig) {
						r.sleep(8 * time.Second)
						r.latency = longTailed(rand.New(rand.NewPCG(1, 2)), latency, 3*latency)
						r.limits = func(string, message.Class) int { return 300 }
						for _, p := range r.replicas {
							p.slowBroker(time.Second / 8000)
						}
						people := guests("g", 2000)
						go func() {
							for n := 0; n < total; n += slice { // 15,000 a second
								for i := range slice {
									r.text("page0", people[(n+i)%len(people)])
								}
								time.Sleep(20 * time.Millisecond)
							}
							every(100*time.Millisecond, 20*time.Second, func(i int) { r.text("page0", people[i:i+20]...) })
						}()
						r.sleep(after)
						if p := r.replicas[max(0, r.owner("page0"))]; leave == "stop" {
							r.stop(p)
						} else {
							p.stepBack()
						}
						r.sleep(5 * time.Minute)
						r.checkSentOnce()
						r.checkWell()
					})
				})
			}
		}
	}
}

// The API takes nothing for a while, with many lively pages: nothing is lost, doubled or
// overtaken, and no page has a lane for what others wait for, too.
func TestOutageWithManyPages(t *testing.T) {
	t.Parallel()
	pages, length := 300, time.Minute
	if testing.Short() {
		pages, length = 100, 20*time.Second
	}
	for replicas := 1; replicas <= seeds(2); replicas++ {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			t.Parallel()
			inBubble(t, replicas, func(c *Config) { c.MaxInFlight = 4096 * pages / 300 }, func(t *testing.T, r *rig) {
				r.limits = func(string, message.Class) int { return 300 }
				r.latency = longTailed(rand.New(rand.NewPCG(1, 2)), 700*time.Millisecond, 1900*time.Millisecond)
				start := time.Now()
				r.script(func(message.Outbound, int) sender.Result {
					if d := time.Since(start); d > 10*time.Second && d < 10*time.Second+length {
						return unreached()
					}
					return sender.Result{}
				})
				every(2*time.Second, length+20*time.Second, func(int) {
					for p := range pages {
						r.text(fmt.Sprint("page", p), guests("g", 20)...)
					}
				})
				r.sleep(3 * time.Minute)
				r.checkSentOnce()
				r.checkWell()
			})
		})
	}
}

// A page is shut for half an hour, longer than anything is held, with one dispatcher:
// the other pages of its partition wait 2 s at most, and mostly not at all.
func TestPageShutForLong(t *testing.T) {
	t.Parallel()
	for _, n := range []int{20, 100}[:seeds(2)] {
		t.Run(fmt.Sprint(n, " messages"), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(c *Config) { c.MessageTTL = 3 * time.Hour }, func(t *testing.T, r *rig) {
				pages := r.peers(2)
				r.script(func(o message.Outbound, _ int) sender.Result {
					if o.Page == pages[0] {
						return fail(sender.PageThrottled)
					}
					return sender.Result{}
				})
				r.text(pages[0], guests("g", n)...)
				every(100*time.Millisecond, 30*time.Minute, func(i int) { r.text(pages[1], guests("g", 10)[i%10]) })
				r.sleep(time.Minute)
				waits := r.waits(pages[1])
				if w := quantile(waits, 1); w > 2*time.Second {
					t.Errorf("the other page waited %v, want 2 s at most", w)
				}
				if w := quantile(waits, 0.995); w > 100*time.Millisecond {
					t.Errorf("99.5 %% of the other page's messages waited up to %v, want 20 ms", w)
				}
				r.script(nil)
				r.sleep(10 * time.Minute)
				r.checkSentOnce()
			})
		})
	}
}

// Many quiet pages at once, with more messages than the prefetch of all partitions: they
// wait in their queues. None of them needs a lane or a retry queue.
func TestManyQuietPagesAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch, c.MaxInFlight = 256, 2048 }, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		const pages = 6_000 // 16 × 256 are held
		for i := range pages {
			r.text(fmt.Sprint("many", i), "a")
		}
		r.sleep(20 * time.Second)
		m := r.only().metrics
		if lanes, retries := testutil.ToFloat64(m.overflowed), testutil.ToFloat64(m.delayed); lanes > 0 || retries > 0 {
			t.Errorf("%v messages went to lanes and %v to retry queues, want none", lanes, retries)
		}
		var slow time.Duration
		for id, at := range r.times {
			if strings.HasPrefix(id, "many") {
				slow = max(slow, at.Sub(r.born[id]))
			}
		}
		if slow > 5*time.Second {
			t.Errorf("one waited %v, want 5 s at most: all calls can be made in half a second", slow)
		}
		r.checkSentOnce()
	})
}
