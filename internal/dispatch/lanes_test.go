package dispatch

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/partitions"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// laneOf is the only lane of a page.
func (r *rig) laneOf(page string) string {
	r.t.Helper()
	names := r.lanesOf(page)
	if len(names) != 1 {
		r.t.Fatalf("lanes of %s = %v, want one", page, names)
	}
	return names[0]
}

// isLane reports whether a queue is a lane of a page's partition.
func (r *rig) isLane(name, page string) bool {
	return slices.Contains(r.top.LanesOf(r.top.PartitionOf(page)), name)
}

// checkWell: nothing was done to lanes or lines that lasts.
func (r *rig) checkWell() {
	r.t.Helper()
	for i, p := range r.replicas {
		if p.ended {
			continue
		}
		p.inspect(func(e *engine) {
			_, excess := e.gate.Len()
			if n := e.claims.lanesUsed(); excess != 0 || n != 0 || len(e.pages.lines) != 0 || e.pages.inHand != 0 {
				r.t.Errorf("replica %d: %d pages in excess, %d lanes in use, %d lines and %d messages held, want none", i, excess, n, len(e.pages.lines), e.pages.inHand)
			}
		})
	}
}

// silence is the longest time between two messages of a page that were accepted in a
// part of a test.
func (r *rig) silence(page string, from, to time.Time) (most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	times := []time.Time{from}
	for id, at := range r.times {
		if strings.HasPrefix(id, page+"/") && at.After(from) && at.Before(to) {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	for i := range times[1:] {
		most = max(most, times[i+1].Sub(times[i]))
	}
	return most
}

// A page with more than the partition has room for goes to a lane of its own, in
// order, and its neighbours on the partition go on. Once the lane is empty the page is
// sent directly again.
func TestOverflowToALaneAndBack(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			t.Parallel()
			inBubble(t, replicas, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
				r.sleep(10 * time.Second) // nobody is on trial any more
				pages := r.peers(2)
				hot, cold := pages[0], pages[1]
				r.limits = func(string, message.Class) int { return 300 }
				go func() {
					time.Sleep(50 * time.Millisecond) // not in the midst of the burst
					every(100*time.Millisecond, 30*time.Second, func(i int) { r.text(cold, fmt.Sprint("c", i%20)) })
				}()
				for range 20 {
					r.text(hot, guests("h", 100)...)
				}
				r.sleep(time.Second)
				r.laneOf(hot)
				if names := r.lanesOf(cold); len(names) > 0 {
					t.Errorf("the neighbour has lanes %v", names)
				}
				r.sleep(time.Minute)
				r.checkSentOnce()
				if w := quantile(r.waits(cold), 1); w > 50*time.Millisecond {
					t.Errorf("a neighbour's message waited %v, want 20 ms", w)
				}
				if w := quantile(r.waits(hot), 1); w > 8*time.Second {
					t.Errorf("the last of 2,000 messages was accepted after %v, want within 8 s at 300/s", w)
				}
				r.text(hot, "h-1") // it uses the partition again
				r.sleep(100 * time.Millisecond)
				overflowed := testutil.ToFloat64(r.replicas[r.owner(hot)].metrics.overflowed)
				if overflowed > 2000 || overflowed < 1000 {
					t.Errorf("overflowed = %v, want most of the 2,000, and no message after them", overflowed)
				}
				r.checkWell()
				r.checkSentOnce()
				r.end()
				r.checkEmpty()
			})
		})
	}
}

// What is logged of a page in excess: that it is, who takes its lane over, and for
// how long it was and how much went to its lane. A page that enters excess again and
// again is logged once.
func TestExcessIsLogged(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var lines []string
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(string(p), "excess") {
			lines = append(lines, strings.TrimSpace(string(p)))
		}
	}), &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
	inBubble(t, 2, func(c *Config) { c.Prefetch, c.Log = 64, log }, func(t *testing.T, r *rig) {
		r.sleep(10 * time.Second)
		r.limits = func(string, message.Class) int { return 300 }
		check := func(scene string, want ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			matches := len(lines) == len(want)
			for i := 0; matches && i < len(want); i++ {
				matches = regexp.MustCompile("^" + want[i] + "$").MatchString(lines[i])
			}
			if !matches {
				t.Errorf("%s: the log has\n%s\nwant\n%s", scene, strings.Join(lines, "\n"), strings.Join(want, "\n"))
			}
			lines = nil
		}
		burst := func() {
			for range 10 {
				r.text("page0", guests("h", 100)...)
			}
		}
		burst()
		r.sleep(20 * time.Second)
		check("a burst", `msg="page is in excess" page=page0 class=text`)
		for range 5 {
			burst()
			r.sleep(20 * time.Second)
		}
		check("five more")
		r.sleep(3 * time.Minute)
		check("calm", `msg="page is out of excess" page=page0 class=text lasted=1m4\d\S+ overflowed=\d{4}`)
		burst()
		r.sleep(300 * time.Millisecond)
		r.stop(r.replicas[r.owner("page0")])
		r.sleep(3 * time.Minute)
		check("another owner", `msg="page is in excess" .*`, `msg="lane of a page in excess taken over" page=page0 class=text queue=\S+`,
			`msg="page is out of excess" page=page0 class=text lasted=\S+ overflowed=\d+`)
		r.checkSentOnce()
	})
}

// writer is an io.Writer that is one function.
type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// Text and media of a page do not share a lane.
func TestClassesHaveLanesOfTheirOwn(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		r.limits = func(_ string, c message.Class) int {
			if c == message.ClassMedia {
				return 10
			}
			return 300
		}
		r.media("page0", guests("v", 200)...)
		r.sleep(time.Second)
		every(time.Second, 10*time.Second, func(int) { r.text("page0", guests("u", 20)...) })
		if n := len(r.ids()); n < 290 {
			t.Errorf("accepted %d, want all 200 texts beside the voice messages", n)
		}
		r.laneOf("page0")
		r.text("page0", guests("u", 1000)...)
		r.sleep(time.Second)
		if names := r.lanesOf("page0"); len(names) != 2 || names[0] == names[1] {
			t.Errorf("lanes = %v, want one of each class", names)
		}
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// More pages in excess than lanes share them. Nothing is lost, doubled or overtaken,
// and a quiet page of the partition notices nothing.
func TestMoreExcessThanLanes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(c *Config) { c.Prefetch = 512 }, func(t *testing.T, r *rig) {
				rnd := rand.New(rand.NewPCG(uint64(seed), 1))
				r.latency = longTailed(rand.New(rand.NewPCG(uint64(seed), 2)), 100*time.Millisecond, 400*time.Millisecond)
				r.limits = func(string, message.Class) int { return 300 }
				pages := r.peers(7)
				most := 0
				for range 20 * seeds(3) {
					for _, page := range pages[:6] {
						switch rnd.IntN(4) {
						case 0:
							r.text(page, guests("g", 600)...)
						case 1:
							r.text(page, guests("g", 60)...)
						}
					}
					r.text(pages[6], "quiet")
					r.sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
					r.only().inspect(func(e *engine) {
						for _, c := range e.claims.all {
							for _, k := range c.lanes {
								most = max(most, len(k.lines))
							}
						}
					})
				}
				r.sleep(5 * time.Minute)
				if most < 2 {
					t.Errorf("%d pages had a lane at most, want that two share one: nothing is tested", most)
				}
				if w := quantile(r.waits(pages[6]), 1); w > time.Second {
					t.Errorf("the quiet page waited %v, want no more than its calls", w)
				}
				if n := testutil.ToFloat64(r.only().metrics.delayed); n > 0 {
					t.Errorf("%v messages went to a retry queue, want none", n)
				}
				r.checkSentOnce()
				r.checkWell()
			})
		})
	}
}

// One of those that share a lane is shut for good: the others of that lane go on.
func TestShutPageOfASharedLane(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch, c.LanePrefetch = 512, 1024 }, func(t *testing.T, r *rig) {
		pages, share := r.sharing()
		shut := share[0]
		r.fails(shut, sender.PageThrottled)
		const half = time.Minute
		go every(time.Second, 2*half+time.Minute, func(int) {
			for _, page := range pages {
				r.text(page, guests("g", 50)...)
			}
		})
		r.sleep(2 * half)
		from := time.Now().Add(-half) // minutes after it was shut
		r.sleep(10 * time.Second)
		for _, page := range pages {
			missing, slow := 0, time.Duration(0)
			for id, born := range r.born {
				if page != shut && strings.HasPrefix(id, page+"/") && born.Before(time.Now().Add(-15*time.Second)) {
					if at, sent := r.times[id]; !sent {
						missing++
					} else if born.After(from) {
						slow = max(slow, at.Sub(born))
					}
				}
			}
			if missing > 0 || slow > 15*time.Second {
				t.Errorf("%s: %d messages were not sent, and one waited %v, beside a shut page; it shares the lane: %t", page, missing, slow, slices.Contains(share, page))
			}
		}
		r.script(nil)
		r.sleep(10 * time.Minute)
		r.inversions = slices.DeleteFunc(r.inversions, func(id string) bool { return strings.HasPrefix(id, shut+"/") }) // the price
		r.checkSentOnce()
	})
}

// A page that is shut for a while gives its partition up to others, and a neighbour
// with a burst has sent it as its limit allows.
func TestShutNeighbour(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 256 }, func(t *testing.T, r *rig) {
		pages := r.peers(2)
		shut, page := pages[0], pages[1]
		r.limits = func(string, message.Class) int { return 300 }
		r.script(func(o message.Outbound, _ int) sender.Result {
			if o.Page == shut {
				return fail(sender.PageThrottled)
			}
			return sender.Result{}
		})
		go every(50*time.Millisecond, 2*time.Minute, func(i int) { r.text(shut, fmt.Sprint("s", i%100)) })
		go every(time.Second, 2*time.Minute, func(int) { r.text(page, guests("m", 33)...) })
		r.sleep(time.Minute + 500*time.Millisecond)
		burst := r.text(page, guests("big", 500)...)
		r.sleep(2 * time.Minute)
		for _, id := range burst {
			if w := r.times[id].Sub(r.born[id]); r.accepted[id] != 1 || w > 5*time.Second {
				t.Fatalf("%s of a burst of 500 was accepted %d times, after %v", id, r.accepted[id], w)
			}
		}
		if w := quantile(r.waits(page), 0.9); w > 25*time.Millisecond {
			t.Errorf("p90 of the waits beside a shut page = %v, want 20 ms", w)
		}
		if n := len(r.callsOf(shut)); n > 200 {
			t.Errorf("%d calls of the shut page, want at most 200", n)
		}
	})
}

// What waits for nearly as long as the broker allows a consumer goes back.
func TestNothingIsHeldForTooLong(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(func(o message.Outbound, _ int) sender.Result {
			if o.Page == "page0" {
				return fail(sender.PageThrottled)
			}
			return sender.Result{}
		})
		r.text("page0", guests("u", 20)...)
		for range 55 {
			r.sleep(time.Minute)
			r.only().inspect(func(e *engine) {
				for _, c := range e.claims.all {
					for _, s := range c.sources {
						for m := s.first; m != nil; m = m.next {
							if age := time.Since(m.since); age > 16*time.Minute {
								t.Fatalf("a delivery of %s is held for %v", s.queue, age)
							}
						}
					}
				}
			})
		}
		r.script(nil)
		r.sleep(4 * time.Minute)
		r.checkSentOnce()
	})
}

// A page that is busy all the time, far below its limit, leaves excess once its
// burst is sent, whatever the latency, and its broadcasts go again.
func TestBusyPageLeavesExcess(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		latency time.Duration
		gap     time.Duration
		people  int
	}{
		{"a text every 10 ms", 40 * time.Millisecond, 10 * time.Millisecond, 1},
		{"a room of 99 at Messenger's latency", 700 * time.Millisecond, time.Second, 99},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 2, func(c *Config) { c.Prefetch = 256 }, func(t *testing.T, r *rig) {
				r.sleep(10 * time.Second)
				rnd := rand.New(rand.NewPCG(1, 2))
				r.latency = longTailed(rnd, row.latency, 3*row.latency)
				r.limits = func(string, message.Class) int { return 300 }
				go every(row.gap, time.Minute, func(i int) {
					for k := range row.people {
						r.text("page0", fmt.Sprint("m-", (i+k)%99))
					}
				})
				r.sleep(2 * time.Second)
				r.text("page0", guests("big", 1000)...)
				r.sleep(time.Second)
				p := r.replicas[r.owner("page0")]
				inExcess := func() (in bool) {
					p.inspect(func(e *engine) { _, n := e.gate.Len(); in = n > 0 })
					return in
				}
				if !inExcess() {
					t.Error("not in excess after a burst of 1,000")
				}
				r.sleep(15 * time.Second)
				if inExcess() {
					t.Error("in excess 15 s after the burst")
				}
				r.broadcast("page0", 20*time.Second, guests("b", 5)...)
				r.sleep(2 * time.Minute)
				r.checkSentOnce()
			})
		})
	}
}

// A message that comes out of a lane while its page's next ones wait for the
// marker was before them, and stays there.
func TestLaneIsNotEmptyYet(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		r.text("page0", "ann") // the markers of the beginning
		r.sleep(time.Second)
		r.limits = func(string, message.Class) int { return 300 }
		marked := 0
		r.only().link.with(func(l *link) {
			l.dies = func(op, name string) bool {
				if op != "marker" || !r.isLane(name, "page0") {
					return false
				}
				if marked++; marked == 1 {
					older := r.copyOf("page0", message.ClassText, "ann")
					r.text("page0", "ann")
					time.Sleep(time.Millisecond)
					body, err := older.Encode()
					if err != nil {
						t.Error(err)
					}
					if err := r.broker.Publish(t.Context(), queue.Message{Queue: name, ID: older.ID, Body: body}); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
				return false
			}
		})
		r.text("page0", guests("u", 400)...)
		r.sleep(20 * time.Second)
		if marked == 0 {
			t.Error("no marker was sent")
		}
		r.checkSentOnce()
	})
}

// A lane that is sick holds up its page for a while and not for good: the page goes on
// without it. Its order may be lost, and nothing else. The partition's other page
// notices nothing, unless the owner changes meanwhile: a new one must know each lane
// before it sends, and waits 20 s for that.
func TestSickLane(t *testing.T) {
	t.Parallel()
	const sickTime = 3 * time.Minute
	for name, tc := range map[string]struct {
		owners int // of whom the first ends when the lane becomes sick, if there are two
		err    error
		mute   bool          // nothing comes out of it
		silent time.Duration // is the page at most
		other  time.Duration // waits the other page at most
	}{
		"takes nothing":                 {1, queue.ErrUnavailable, false, 22 * time.Second, 100 * time.Millisecond},
		"takes no more":                 {1, queue.ErrRefused, false, 22 * time.Second, 100 * time.Millisecond},
		"is not there":                  {1, queue.ErrUnroutable, false, 22 * time.Second, 100 * time.Millisecond},
		"takes nothing, another owner":  {2, queue.ErrUnavailable, false, 25 * time.Second, 25 * time.Second},
		"takes and brings none":         {2, nil, true, 25 * time.Second, 25 * time.Second},
		"takes nothing and brings none": {2, queue.ErrUnavailable, true, 25 * time.Second, 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			small := func(c *Config) { c.Prefetch = 512 }
			inBubble(t, tc.owners, small, func(t *testing.T, r *rig) {
				r.sleep(10 * time.Second)
				r.limits = func(string, message.Class) int { return 300 }
				lane, other := "", r.peers(2)[1]
				sick := false
				for _, d := range r.replicas {
					d.link.with(func(l *link) {
						l.refuse = func(op, name string) (err error) {
							r.with(func() {
								if sick && name == lane && op == "publish" {
									err = tc.err
								}
							})
							return err
						}
						l.mute = func(name string) (mute bool) {
							r.with(func() { mute = sick && tc.mute && name == lane })
							return mute
						}
					})
				}
				r.text("page0", guests("h", 1500)...)
				r.sleep(time.Second)
				lane = r.laneOf("page0")
				r.with(func() { sick = true })
				from := time.Now()
				if tc.owners == 2 {
					r.replicas[r.owner("page0")].stepBack()
				}
				every(time.Second, sickTime, func(i int) {
					r.text("page0", guests("h", 50)...)
					r.text(other, guests("c", i+1)[i:]...)
				})
				r.sleep(30 * time.Second)
				written := time.Now().Add(-30 * time.Second)
				if s := r.silence("page0", from, written); s > tc.silent {
					t.Errorf("the page was silent for %v, want %v at most", s, tc.silent)
				}
				if w := quantile(r.waits(other), 1); w > tc.other {
					t.Errorf("the other page waited %v, want %v at most", w, tc.other)
				}
				late := 0 // what was in the lane, or was on its way to it
				for _, id := range r.published {
					if at, sent := r.times[id]; !sent || at.Sub(r.born[id]) > time.Minute {
						late++
					}
				}
				if late > 1500 {
					t.Errorf("%d messages waited more than a minute, want no more than were in the lane", late)
				}
				r.with(func() { sick = false })
				if tc.mute { // it is consumed again
					r.start(1, small)
					for _, p := range r.replicas[:2] {
						r.stop(p)
					}
				}
				r.sleep(10 * time.Minute)
				r.inversions = slices.DeleteFunc(r.inversions, func(id string) bool { return strings.HasPrefix(id, "page0/") }) // the price
				r.checkSentOnce()
				r.checkWell()
				r.text("page0", guests("h", 1500)...) // the lane is used as before
				r.sleep(time.Second)
				r.laneOf("page0")
				r.sleep(time.Minute)
			})
		})
	}
}

// With all lanes sick a page's messages go round by a retry queue, and arrive.
func TestLanesAreAllSick(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) {
		c.Prefetch, c.Limits = 1024, func(string) message.Limits { return message.Limits{Text: 30, Media: 1} }
	}, func(t *testing.T, r *rig) {
		r.text("page0", "ann")
		r.sleep(time.Second)
		r.limits = func(string, message.Class) int { return 30 }
		sick := true
		r.only().link.with(func(l *link) {
			l.refuse = func(op, name string) (err error) {
				r.with(func() {
					if sick && op == "publish" && r.isLane(name, "page0") {
						err = errors.New("no leader")
					}
				})
				return err
			}
		})
		other := r.peers(2)[1]
		every(time.Second, 150*time.Second, func(int) {
			r.text("page0", guests("h", 60)...)
			r.text(other, "ann")
		})
		if w := quantile(r.waits(other), 1); w > 100*time.Millisecond {
			t.Errorf("the other page waited %v, want 100 ms at most", w)
		}
		r.with(func() { sick = false })
		r.sleep(30 * time.Minute)
		r.inversions = slices.DeleteFunc(r.inversions, func(id string) bool { return strings.HasPrefix(id, "page0/") }) // the price
		r.checkSentOnce()
		r.checkWell()
	})
}

// A page and its lane move to another owner again and again, with more in the lane than
// an owner takes at a time.
func TestDeepLaneChangesHands(t *testing.T) {
	t.Parallel()
	small := func(c *Config) { c.Prefetch, c.LanePrefetch = 64, MinLanePrefetch }
	for seed := range 2 * seeds(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 2, small, func(t *testing.T, r *rig) {
				rnd := rand.New(rand.NewPCG(uint64(seed), 7))
				r.latency = longTailed(rand.New(rand.NewPCG(uint64(seed), 8)), 300*time.Millisecond, time.Second)
				r.limits = func(string, message.Class) int { return 300 }
				pages := r.peers([]int{1, 4}[seed%2])
				hands := 4 * seeds(2)
				go every(200*time.Millisecond, time.Duration(hands)*5*time.Second, func(int) {
					for _, page := range pages {
						r.text(page, guests("g", 80)...)
					}
				})
				for range hands {
					r.sleep(time.Duration(1000+rnd.IntN(4000)) * time.Millisecond)
					if i := r.owner("page0"); i >= 0 {
						p := r.replicas[i]
						r.start(1, small)
						r.stop(p)
					}
				}
				r.sleep(5 * time.Minute)
				r.checkSentOnce()
				r.checkWell()
				r.end()
				r.checkEmpty()
			})
		})
	}
}

// A new owner sends what a lane holds of its second page before what the partition holds
// of it.
func TestSharedLaneOfANewOwner(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, nil, func(t *testing.T, r *rig) {
		pages := r.peers(2)
		var list []message.Outbound
		for i, n := range []int{1000, 50} {
			for _, who := range guests("g", n) {
				list = append(list, r.copyOf(pages[i], message.ClassText, who))
			}
		}
		r.put(r.top.LanesOf(r.top.PartitionOf(pages[0]))[0], list...)
		r.text(pages[1], guests("g", 50)...)
		r.start(1, nil)
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// A new owner goes on without the marker of a lane that delivers, as where that is behind more
// than the owner takes, and keeps the order of the pages that it has seen.
func TestMarkerThatDoesNotCome(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, nil, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		pages := r.peers(2)
		lane := r.top.Lane(r.top.PartitionOf(pages[0]), 0)
		var list []message.Outbound
		for _, who := range guests("g", 3000) {
			list = append(list, r.copyOf(pages[0], message.ClassText, who))
		}
		r.put(lane, list...)
		r.text(pages[1], "ann")
		r.start(1, nil)
		r.only().link.with(func(l *link) { l.hangs = func(name string) bool { return name == lane } })
		r.text(pages[0], guests("g", 3000)...)
		r.sleep(partitions.TrialTime + 4*time.Second)
		if waits := r.waits(pages[1]); len(waits) != 1 || waits[0] > partitions.TrialTime+3*time.Second {
			t.Errorf("the other page's message waited %v", waits)
		}
		r.only().link.with(func(l *link) { l.hangs = nil })
		r.sleep(2 * time.Minute)
		r.checkSentOnce()
	})
}

// A page that spills again does not share the lane that it had while another is empty.
func TestLaneOfItsOwn(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 512 }, func(t *testing.T, r *rig) {
		pages := r.peers(2)
		r.limits = func(string, message.Class) int { return 300 }
		r.latency = func(message.Outbound) time.Duration { return time.Second }
		go every(100*time.Millisecond, time.Minute, func(i int) { // so that neither is forgotten
			for _, page := range pages {
				r.text(page, fmt.Sprint("h-", i%40))
			}
		})
		for _, page := range pages {
			r.text(page, guests("g", 1500)...)
			r.sleep(time.Second)
			if r.laneOf(page) == "" {
				t.Fatalf("%s has no lane: nothing is tested", page)
			}
			r.sleep(20 * time.Second)
		}
		for _, page := range pages {
			r.text(page, guests("g", 1500)...)
		}
		r.sleep(time.Second)
		if a, b := r.laneOf(pages[0]), r.laneOf(pages[1]); a == b || a == "" || b == "" {
			t.Errorf("the pages' lanes are %q and %q, want two", a, b)
		}
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// A new owner that is outranked while it has as much as it takes, and waits for lanes
// that the other one has, leaves: it sends nothing without them.
func TestFullNewOwnerIsOutranked(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		var subs []queue.Subscription
		var first string
		for _, name := range append(r.top.LanesOf(r.top.PartitionOf("page0")), r.top.OutboundOf("page0")) {
			if name == r.top.OutboundOf("page0") {
				first = r.text("page0", guests("g", 200)...)[0]
				r.sleep(10 * time.Millisecond)
			}
			s, err := r.broker.Consume(name, queue.ConsumeOptions{Prefetch: 1000, Priority: math.MaxInt32})
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, s)
		}
		r.sleep(10 * time.Second)
		select {
		case d := <-subs[len(subs)-1].Deliveries():
			if d.ID != first {
				t.Errorf("the other one was delivered %s first, want %s", d.ID, first)
			}
		default:
			t.Error("the other one was delivered nothing")
		}
		r.sleep(time.Minute)
		if n := len(r.callsOf("page0")); n > 0 {
			t.Errorf("%d calls were made by the one that is outranked", n)
		}
		for _, s := range subs {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// What goes to a lane while its page waits for the marker is behind the marker: it does
// not bring the page back to its partition.
func TestOverflowEndsTheWaitForTheMarker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	k := &lane{source: &source{queue: b.Broker.Topology().Lane(0, 0), claim: b.s.claim}}
	b.l.spill = &spill{lane: k, marker: "mark", draining: true}
	b.lanes.overflow(b.l, b.now)
	if b.l.spill.moving != 1 || b.l.spill.draining {
		t.Errorf("spill = %+v, want one message moving, and no wait for the marker", b.l.spill)
	}
}

// An owner that has lost its connection may have had another after it: it sends
// nothing ahead of the pace in its first second.
func TestNothingAheadAfterALostConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	burst := func(at time.Time) (n int) {
		for wait := time.Duration(0); wait == 0; n++ {
			wait, _ = b.gate.Offer(at, b.m.key(), b.s.claim.since)
		}
		return n - 1
	}
	b.s.claim.since = b.now.Add(-time.Hour)
	if n := burst(b.now); n < 290 {
		t.Fatalf("%d calls at once, want a second's", n)
	}
	b.claims.dropStale(b.s.claim)
	later := b.now.Add(2 * time.Second)
	b.s.claim.since = later
	if n := burst(later); n > 10 {
		t.Errorf("%d calls at once after a lost connection, want those of the pace alone", n)
	}
}

// channel is a connection to the broker that can be lost.
type channel struct{ lost bool }

func (*channel) Ack(uint64) error { return nil }

func (c *channel) Live() bool { return !c.lost }

// So may one that held nothing when it lost its connection: it finds out again what is in
// the lanes.
func TestConnectionLostWithNothingHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	defer b.others.Wait()
	defer close(b.finished)
	arrive := func(c *channel) {
		b.arrive(decode(queue.NewDelivery(b.Broker, c, 1, queue.Message{Queue: b.s.queue, ID: "2", Body: b.m.delivery.Body}, false), b.s, b.Now()))
	}
	before := new(channel)
	arrive(before)
	for _, m := range b.claims.pages.takeWaiting(b.s, func(*held) bool { return true }) {
		b.pages.letGo(m)
	}
	long := b.Now().Add(-time.Hour)
	b.s.claim.since, b.s.claim.begun = long, long
	before.lost = true
	arrive(new(channel))
	if c := b.s.claim; c.since.Equal(long) || c.begun.Equal(long) {
		t.Error("the claim goes on as if no other replica could have had it")
	}
	b.s.claim.since = long
	arrive(new(channel))
	if !b.s.claim.since.Equal(long) {
		t.Error("the claim begins again though its connection stands")
	}
}

// So may one that held nothing, and then is delivered something that another one has given
// back, however short that was.
func TestAnotherOwnerInAQuietTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	defer b.others.Wait()
	defer close(b.finished)
	c, long := b.s.claim, b.Now().Add(-time.Hour)
	for _, row := range []struct {
		busy        time.Time
		redelivered bool
	}{{time.Time{}, false}, {time.Time{}, true}, {b.Now(), false}, {b.Now(), true}} {
		for _, m := range b.claims.pages.takeWaiting(b.s, func(*held) bool { return true }) {
			b.pages.letGo(m)
		}
		c.since, c.busy = long, row.busy
		b.arrive(decode(queue.NewDelivery(b.Broker, new(channel), 1, queue.Message{Queue: b.s.queue, ID: "2", Body: b.m.delivery.Body}, row.redelivered), b.s, b.Now()))
		if isNew := !c.since.Equal(long); isNew != row.redelivered {
			t.Errorf("busy at %v, redelivered = %v: another one may have sent in the second before = %v", row.busy, row.redelivered, isNew)
		}
	}
}

// Where one lane refuses its marker and another does not answer, nothing is sent before the
// other one's: it may hold what is older.
func TestLaneThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		away := true
		r.only().link.with(func(l *link) {
			l.refuse = func(op, name string) error {
				switch p := r.top.PartitionOf("page0"); {
				case op == "publish" && name == r.top.Lane(p, 1):
					return queue.ErrRefused
				case op == "publish" && away && name == r.top.Lane(p, 2):
					return queue.ErrUnavailable
				}
				return nil
			}
		})
		ids := r.text("page0", "ann")
		r.sleep(5 * time.Second)
		if r.accepted[ids[0]] > 0 {
			t.Error("it was sent though a lane does not answer")
		}
		r.only().link.with(func(*link) { away = false })
		r.sleep(3 * time.Second)
		if r.accepted[ids[0]] == 0 {
			t.Error("it was not sent though all lanes answer")
		}
	})
}

// A lane that takes nothing holds its partition up at a take-over, for a moment if it says so
// and for 20 s if it does not answer, and not at all after a quiet spell; another page's
// messages leave in order, and once it takes something again it is used.
func TestLaneThatTakesNothing(t *testing.T) {
	t.Parallel()
	for why, first := range map[error]time.Duration{queue.ErrRefused: 3 * time.Second, queue.ErrUnavailable: 29 * time.Second} {
		inBubble(t, 1, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
			fails := true
			r.only().link.with(func(l *link) {
				l.refuse = func(op, name string) error {
					if op == "publish" && fails && name == r.top.Lane(r.top.PartitionOf("page0"), 1) {
						return why
					}
					return nil
				}
			})
			for i := range 20 {
				r.text("page0", "ann")
				r.sleep(30 * time.Second) // longer than quietTime
				if waits := r.waits("page0"); len(waits) != i+1 || waits[i] > first {
					t.Fatalf("%v: %d of %d messages arrived, one after %v, want all within %v", why, len(waits), i+1, waits[len(waits)-1], first)
				}
			}
			if slow := r.waits("page0"); slow[len(slow)-2] > time.Second {
				t.Errorf("%v: more than the first message waited: %v", why, slow[len(slow)-2:])
			}
			r.only().link.with(func(*link) { fails = false })
			r.sleep(2 * markerPause)
			r.text("page0", guests("u", 2000)...)
			r.sleep(time.Minute)
			r.checkSentOnce()
		})
	}
}

// A page whose marker another dispatcher took, which has gone since, leaves excess.
func TestPagesMarkerIsLost(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 512 }, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		go every(500*time.Millisecond, 2*time.Minute, func(int) { r.text(r.peers(2)[1], "ann") })
		r.text("page0", guests("g", 1500)...)
		r.sleep(4500 * time.Millisecond) // little is left
		other, err := r.broker.Consume(r.laneOf("page0"), queue.ConsumeOptions{Prefetch: 1000, Priority: math.MaxInt32})
		if err != nil {
			t.Fatal(err)
		}
		r.sleep(10 * time.Second)
		select {
		case d := <-other.Deliveries():
			if err := d.Ack(); err != nil || !message.IsMarker(d.Headers) {
				t.Errorf("the other one was delivered %q, %v, want a marker", d.ID, err)
			}
		default:
			t.Fatal("the other one was delivered nothing: nothing is tested")
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		r.sleep(markerPause + 10*time.Second)
		if names := r.lanesOf("page0"); len(names) > 0 {
			t.Errorf("the page still has its lane: %v", names)
		}
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// A lane that hangs while a page has more than its partition holds does not stop the others.
func TestLaneThatHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 512 }, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		pages := r.peers(2)
		r.know(pages[0])
		r.only().link.with(func(l *link) {
			l.hangs = func(name string) bool { return name == r.top.Lane(r.top.PartitionOf(pages[0]), 0) }
		})
		r.text(pages[0], guests("g", 3000)...)
		every(time.Second, time.Minute, func(i int) { r.text(pages[1], fmt.Sprint("c-", i)) })
		r.sleep(time.Minute)
		if waits := r.waits(pages[1]); len(waits) < 60 || quantile(waits, 1) > 8*time.Second {
			t.Errorf("%d of 60 messages of the other page arrived, one after %v, want all within 8 s", len(waits), quantile(waits, 1))
		}
		r.only().link.with(func(l *link) { l.hangs = nil })
		r.sleep(2 * time.Minute)
		r.inversions = nil // the price
		r.checkSentOnce()
	})
}

// At an alarm the broker takes nothing, and no lane is sick: a page keeps its lane, and its
// order.
func TestAlarmIsNoSickLane(t *testing.T) {
	t.Parallel()
	for _, long := range []time.Duration{90 * time.Second, partitions.HeldTime + 2*time.Minute} {
		t.Run(long.String(), func(t *testing.T) {
			t.Parallel()
			testAlarm(t, long)
		})
	}
}

func testAlarm(t *testing.T, long time.Duration) {
	inBubble(t, 1, func(c *Config) { c.Prefetch, c.LanePrefetch = 512, MinLanePrefetch }, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		r.text("page0", guests("g", 3000)...)
		r.sleep(2 * time.Second)
		lane := r.laneOf("page0")
		if lane == "" {
			t.Fatal("the page has no lane: nothing is tested")
		}
		r.only().link.with(func(l *link) {
			l.refuse = func(op, name string) error { // RabbitMQ tells of an alarm whoever publishes
				l.alarm = l.alarm || op == "publish" && name == lane
				return nil
			}
		})
		r.text("page0", guests("g", 200)...)
		r.sleep(long)
		r.only().link.with(func(l *link) {
			if !l.alarm {
				t.Fatal("nothing was to go to the lane: nothing is tested")
			}
			l.refuse, l.alarm = nil, false
		})
		for range 2 {
			r.text("page0", guests("g", 1500)...) // more than the partition holds
			r.sleep(time.Second)
		}
		r.sleep(time.Minute)
		r.checkSentOnce()
		r.checkWell()
	})
}

// An alarm says nothing of lanes: after one in which a partition has begun without them, what
// comes to it again waits for what an owner between has put into one.
func TestLanesAfterAnAlarm(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		alarm := func(on bool) { r.only().link.with(func(l *link) { l.alarm = on }) }
		alarm(true)
		r.text("page0", "ann")
		r.sleep(sickLane + 5*time.Second)
		if len(r.waits("page0")) != 1 {
			t.Fatal("the partition has not begun: nothing is tested")
		}
		r.text("page0", "ann")
		r.sleep(time.Second)
		if len(r.waits("page0")) != 2 {
			t.Error("after a quiet time it waits again for lanes that can have got nothing")
		}
		alarm(false)
		r.sleep(quietTime + time.Second)
		lane := r.top.Lane(r.top.PartitionOf("page0"), 0)
		between, err := r.broker.Consume(lane, queue.ConsumeOptions{Prefetch: 1000, Priority: math.MaxInt32})
		if err != nil {
			t.Fatal(err)
		}
		r.put(lane, r.copyOf("page0", message.ClassText, "ann"))
		r.text("page0", "ann")
		r.sleep(time.Second)
		if err := between.Close(); err != nil {
			t.Error(err)
		}
		r.sleep(10 * time.Second)
		r.checkSentOnce()
	})
}

// The marker of a new owner that comes to the owner before, which still has the lane, is
// sent again.
func TestMarkerComesToTheOwnerBefore(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		before, err := r.broker.Consume(r.top.Lane(r.top.PartitionOf("page0"), 0), queue.ConsumeOptions{Prefetch: 1000, Priority: math.MaxInt32})
		if err != nil {
			t.Fatal(err)
		}
		r.text("page0", "ann")
		r.sleep(time.Second)
		select {
		case d := <-before.Deliveries():
			if err := d.Ack(); err != nil || !message.IsMarker(d.Headers) {
				t.Errorf("the owner before was delivered %q, %v, want a marker", d.ID, err)
			}
		default:
			t.Fatal("the owner before was delivered nothing: nothing is tested")
		}
		if err := before.Close(); err != nil {
			t.Error(err)
		}
		r.sleep(10 * time.Second)
		if waits := r.waits("page0"); len(waits) != 1 || waits[0] > markerLost+1500*time.Millisecond {
			t.Errorf("the message waited %v, want %v and a tick at most", waits, markerLost)
		}
	})
}

// A new owner waits for the marker in a lane from when that delivers, however late that is.
func TestLaneThatComesLate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	defer b.others.Wait()
	defer close(b.finished)
	c, now := b.s.claim, b.Now()
	c.since = now.Add(-3 * time.Second)
	c.begun, c.unknownSince, c.busy = c.since, c.since, now
	k := new(lane)
	k.source = &source{queue: b.Broker.Topology().Lane(0, 0), claim: c, lane: k, prefetch: 8, marker: "mark", asked: now}
	c.lanes, c.sources = append(c.lanes, k), append(c.sources, k.source)
	b.arrive(decode(queue.NewDelivery(b.Broker, new(channel), 1, queue.Message{Queue: k.source.queue, ID: "2", Body: b.m.delivery.Body}, false), k.source, now))
	if b.markers.check(c, now); k.source.known {
		t.Error("the lane is known by its first message")
	}
	if b.markers.check(c, now.Add(2*deepTime)); !k.source.known {
		t.Error("the lane is not known after a second of deliveries")
	}
}

// A lane that failed for a while, and whose pages went on without it, is found to serve
// again, though its partition never rests.
func TestLaneServesAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		go every(time.Second, markerPause+15*time.Second, func(int) { r.text("page0", "ann") })
		r.sleep(10 * time.Second)
		failing := func() (n int) {
			r.only().inspect(func(e *engine) {
				for _, p := range e.claims.partitions {
					if p.claim == nil || p.claim.since.IsZero() {
						continue
					}
					for _, k := range p.claim.lanes {
						if !k.failing.IsZero() {
							n++
						}
					}
				}
			})
			return n
		}
		r.only().inspect(func(e *engine) {
			for _, p := range e.claims.partitions {
				if p.claim != nil && !p.claim.since.IsZero() {
					p.claim.lanes[0].failing = e.Now()
				}
			}
		})
		if failing() == 0 {
			t.Fatal("no lane fails: nothing is tested")
		}
		r.sleep(markerPause + 10*time.Second)
		if n := failing(); n > 0 {
			t.Errorf("%d lanes are left out more than a minute after they serve", n)
		}
	})
}
