package dispatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/aimd"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// slow has a platform answer as Messenger does, the same in each run.
func (r *rig) slow() {
	r.latency = longTailed(rand.New(rand.NewPCG(1, 2)), 700*time.Millisecond, 1900*time.Millisecond)
}

// A list is posted twice, or its deadlines pass, and another one waits behind it: what needs no
// call uses up nobody's turn, and the other one is sent with all calls that there may be.
func TestTurnsGoOn(t *testing.T) {
	t.Parallel()
	for _, calls := range []int{8, 16, 64, 256, 512} {
		for _, kind := range []string{"repeated", "deadline"} {
			t.Run(fmt.Sprint(calls, " calls, ", kind), func(t *testing.T) {
				t.Parallel()
				inBubble(t, 1, func(c *Config) { c.MaxInFlight = calls }, func(t *testing.T, r *rig) {
					r.know("page0")
					r.slow()
					const n = 400
					list := func(prefix string) (list []message.Outbound) {
						for i := range n {
							o := r.copyOf("page0", message.ClassText, fmt.Sprint(prefix, i))
							if kind == "deadline" && prefix == "a" {
								o.Deadline = time.Now().Add(1500 * time.Millisecond).UnixMilli()
							}
							list = append(list, o)
						}
						return list
					}
					a := list("a")
					r.publish(a...)
					if kind == "repeated" {
						r.publish(a...)
					}
					r.publish(list("b")...)
					r.sleep(20*time.Second + 2*n*1200*time.Millisecond/time.Duration(min(calls-1, 200)))
					missing := 0
					for _, id := range r.published {
						if strings.HasPrefix(id, "page0/b") && r.accepted[id] != 1 {
							missing++
						}
					}
					if missing > 0 {
						t.Errorf("%d of the second list's %d are not sent", missing, n)
					}
				})
			})
		}
	}
}

// LATENCY_TARGET has cut the calls to the least, and then answers are quick again: the limit
// that rises is used, though nothing new comes.
func TestRaisedLimitIsUsed(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) {
		c.Latency = aimd.Config{Target: time.Second, Percentile: 0.95, Backoff: 0.9}
	}, func(t *testing.T, r *rig) {
		slow, rnd := true, rand.New(rand.NewPCG(1, 2))
		r.latency = func(message.Outbound) time.Duration {
			if slow {
				return 2*time.Second + time.Duration(rnd.IntN(2000))*time.Millisecond
			}
			return 300 * time.Millisecond
		}
		every(20*time.Millisecond, 90*time.Second, func(i int) { r.text(fmt.Sprint("page", i%5), fmt.Sprint("w", i%500)) })
		r.sleep(time.Minute)
		for i := range 400 {
			o := r.copyOf("page0", message.ClassText, fmt.Sprint("a", i))
			o.Deadline = time.Now().Add(5 * time.Second).UnixMilli()
			r.publish(o)
		}
		ids := r.text("page0", guests("b", 400)...)
		r.sleep(30 * time.Second)
		r.with(func() { slow = false })
		r.sleep(90 * time.Second)
		missing := 0
		for _, id := range ids {
			if r.accepted[id] == 0 {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("%d of 400 are not sent two minutes later", missing)
		}
		r.inversions = nil
	})
}

// Many busy pages share a partition, whose prefetch their calls alone would fill. A quiet
// neighbour waits hardly longer than without them, and no longer as time goes on.
func TestPartitionFullOfCalls(t *testing.T) {
	t.Parallel()
	length := 20 * time.Second
	if testing.Short() {
		length = 10 * time.Second
	}
	var without time.Duration
	for _, row := range []struct {
		pages, percent int
	}{{0, 0}, {12, 80}, {12, 110}, {20, 110}} {
		var waits [2][]time.Duration // of three plays: one's p99 is that of two or three copies
		for seed := range uint64(3) {
			inBubble(t, 2, func(c *Config) { c.MaxInFlight = 4096 }, func(t *testing.T, r *rig) {
				r.limits = func(string, message.Class) int { return 300 }
				r.slow()
				pages := r.peers(row.pages + 1)
				neighbour := pages[row.pages]
				rnd, people := rand.New(rand.NewPCG(4, 4+seed)), guests("g", 2000)
				var half time.Time
				start := time.Now()
				every(100*time.Millisecond, length, func(int) {
					for _, p := range pages[:row.pages] {
						for range 30 * row.percent / 100 {
							r.text(p, people[rnd.IntN(len(people))])
						}
					}
					for range 5 { // for a p99 that is not one copy's
						r.text(neighbour, people[rnd.IntN(300)])
					}
					if half.IsZero() && time.Since(start) > length/2 {
						half = time.Now()
					}
				})
				r.sleep(2 * time.Minute)
				for id, at := range r.times {
					if strings.HasPrefix(id, neighbour+"/") {
						i := 0
						if r.born[id].After(half) {
							i = 1
						}
						waits[i] = append(waits[i], at.Sub(r.born[id]))
					}
				}
				if n := len(r.inversions); n > 0 {
					t.Errorf("%d were overtaken", n)
				}
			})
		}
		for i := range waits {
			slices.Sort(waits[i])
			p99 := quantile(waits[i], 0.99)
			if row.pages == 0 {
				without = max(without, p99)
			}
			if most := without*12/10 + 300*time.Millisecond; p99 > most {
				t.Errorf("%d pages at %d %%: half %d: p99 of the neighbour %v, want at most %v", row.pages, row.percent, i+1, p99, most)
			}
		}
	}
}

// More pages than a partition has lanes are in excess, with the least prefetch, and their
// partition changes hands again and again: nothing is lost or doubled, and hardly a copy
// overtaken: at most one of a thousand, because a new owner does not know who was in which lane.
func TestSharedLanes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds(8)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 2, func(c *Config) { c.Prefetch, c.LanePrefetch = MinPrefetch, MinLanePrefetch }, func(t *testing.T, r *rig) {
				rnd := rand.New(rand.NewPCG(seed, 2))
				r.latency = longTailed(rand.New(rand.NewPCG(seed, 3)), 300*time.Millisecond, time.Second)
				r.limits = func(string, message.Class) int { return 50 }
				pages := r.peers(6)
				end := time.Now().Add(40 * time.Second)
				for time.Now().Before(end) {
					for _, p := range pages {
						for range rnd.IntN(16) {
							r.text(p, fmt.Sprint("u", rnd.IntN(100)))
						}
					}
					r.sleep(time.Duration(50+rnd.IntN(300)) * time.Millisecond)
					if rnd.IntN(60) == 0 && r.owner(pages[0]) >= 0 && len(r.replicas) < 5 {
						r.start(1, func(c *Config) { c.Prefetch, c.LanePrefetch = MinPrefetch, MinLanePrefetch })
						r.stop(r.replicas[r.owner(pages[0])])
					}
				}
				r.sleep(8 * time.Minute)
				if n := len(r.inversions); n > len(r.published)/1000 {
					t.Errorf("%d of %d were overtaken", n, len(r.published))
				}
				r.inversions = nil
				r.checkSentOnce()
			})
		})
	}
}

// What stands because the engine lost sight of it is found by the watch, and sent.
func TestWatchFindsWhatStands(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		lose func(e *engine)
		sent bool // afterwards; a call that never ends is abandoned at the end
	}{
		{"a wake-up", func(e *engine) {
			for _, l := range e.pages.lines {
				l.wakeAt = time.Time{}
			}
		}, true},
		{"a call", func(*engine) {}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(c *Config) { c.MaxInFlight, c.JoinTexts = 2, 1 }, func(t *testing.T, r *rig) {
				r.stands = true
				first := true
				r.script(func(message.Outbound, int) sender.Result {
					if first && row.name == "a wake-up" {
						first = false
						return sender.Result{Outcome: sender.PageThrottled, Status: 400, RetryAfter: 20 * time.Second, Err: errors.New("scripted")}
					}
					return sender.Result{}
				})
				r.with(func() {
					r.latency = func(message.Outbound) time.Duration {
						if row.name == "a call" {
							return 24 * time.Hour
						}
						return time.Second
					}
				})
				ids := r.text("page0", guests("g", 6)...)
				r.sleep(1500 * time.Millisecond)
				if _, err := ask(t.Context(), r.only().Dispatcher, func(e *engine) bool { row.lose(e); return true }); err != nil {
					t.Fatal(err)
				}
				r.sleep(2 * time.Minute)
				for _, id := range ids {
					if is := r.accepted[id] == 1; is != row.sent {
						t.Errorf("%s was sent: %v, want %v", id, is, row.sent)
					}
				}
				r.inversions = nil
			})
		})
	}
}
