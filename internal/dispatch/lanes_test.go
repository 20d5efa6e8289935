package dispatch

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// laneQueues are the lanes that exist on the broker.
func (r *rig) laneQueues() (names []string) {
	for _, name := range r.broker.Queues() {
		if strings.Contains(name, ".lane.") {
			names = append(names, name)
		}
	}
	return names
}

// laneOf is the only lane of a page and class that exists.
func (r *rig) laneOf(page string, class message.Class) string {
	r.t.Helper()
	names := r.laneQueues()
	if len(names) != 1 || !r.isLane(names[0], page, class) {
		r.t.Fatalf("lanes = %v, want one of %s, %s", names, page, class)
	}
	return names[0]
}

// isLane reports whether a queue is a lane of a page and class.
func (r *rig) isLane(name, page string, class message.Class) bool {
	return strings.HasPrefix(name, r.top.Lane(page+".", string(class)))
}

// A page with more than the partition has room for goes to a lane of its own, in
// order, and its neighbours on the partition go on. Once it is empty for a while
// the lane is gone, and its token.
func TestOverflowToALaneAndBack(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			t.Parallel()
			inBubble(t, replicas, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
				pages := r.peers(2)
				hot, cold := pages[0], pages[1]
				r.limits = func(string, message.Class) int { return 300 }
				began := time.Now()
				go func() {
					time.Sleep(50 * time.Millisecond) // not in the midst of the burst
					every(100*time.Millisecond, 30*time.Second, func(i int) { r.text(cold, fmt.Sprint("c", i%20)) })
				}()
				for range 20 {
					r.text(hot, guests("h", 100)...)
				}
				r.sleep(time.Second)
				r.laneOf(hot, message.ClassText)
				r.sleep(time.Minute)
				r.checkSentOnce()
				if w := quantile(r.waits(cold), 1); w > 50*time.Millisecond {
					t.Errorf("a neighbour's message waited %v, want 20 ms", w)
				}
				if w := quantile(r.waits(hot), 1); w > 8*time.Second {
					t.Errorf("the last of 2,000 messages was accepted %v after %v, want within 8 s at 300/s", w, began)
				}
				if n := len(r.laneQueues()); n != 1 {
					t.Errorf("%d lanes a moment after the burst, want that it is kept for the next", n)
				}
				r.text(hot, "h-1") // it uses the partition again
				r.sleep(100 * time.Millisecond)
				owner := r.replicas[r.owner(hot)]
				if got := testutil.ToFloat64(owner.metrics.overflowed); got >= 2000 || got < 1000 {
					t.Errorf("overflowed = %v, want most of the 2,000, and no message after them", got)
				}
				owner.inspect(func(e *engine) {
					if _, excess := e.gate.Len(); excess != 0 {
						t.Errorf("%d pages in excess, want none any more", excess)
					}
				})
				r.sleep(3 * time.Minute)
				if got := r.laneQueues(); len(got) != 0 {
					t.Errorf("lanes = %v, want none any more", got)
				}
				owner.inspect(func(e *engine) {
					if n, open := len(e.lanes.list), len(e.sources.open); n != 0 || open != len(e.sources.partitions) || len(e.pages.lines) != 0 {
						t.Errorf("%d lanes, %d subscriptions and %d lines are left, want 0, %d, 0", n, open, len(e.pages.lines), len(e.sources.partitions))
					}
				})
				r.checkSentOnce()
				r.end()
				if info, err := r.broker.Inspect(t.Context(), r.top.OutboundOf(hot)); err != nil || info.Ready != 0 {
					t.Errorf("%d messages are left on the partition, want not even a token", info.Ready)
				}
			})
		})
	}
}

// What is logged of a page in excess: that it is, who takes its lane over, and for
// how long it was and how much waited. A page that enters excess again and again is
// logged once.
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
		r.limits = func(string, message.Class) int { return 300 }
		check := func(what string, want ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			matches := len(lines) == len(want)
			for i := 0; matches && i < len(want); i++ {
				matches = regexp.MustCompile("^" + want[i] + "$").MatchString(lines[i])
			}
			if !matches {
				t.Errorf("%s: the log has\n%s\nwant\n%s", what, strings.Join(lines, "\n"), strings.Join(want, "\n"))
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
		r.sleep(time.Second)
		r.stop(r.replicas[r.owner("page0")])
		r.sleep(3 * time.Minute)
		check("another owner", `msg="page is in excess" .*`, `msg="lane of a page in excess taken over" page=page0 class=text`,
			`msg="page is out of excess" page=page0 class=text lasted=\S+ overflowed=\d+`)
		token := queue.Message{
			Queue: r.top.OutboundOf("page0"), ID: "lane", Body: []byte("text"), Headers: map[string]string{message.HeaderLane: "page0.1"},
		}
		if err := r.broker.Publish(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		r.sleep(3 * time.Minute)
		check("a lane that is not there", `msg="lane of a page in excess taken over" page=page0 class=text`,
			`msg="page is out of excess" page=page0 class=text lasted=0s overflowed=0`)
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
		if n := len(r.ids()); n < 200 {
			t.Errorf("accepted %d, want all 200 texts beside the voice messages", n)
		}
		r.laneOf("page0", message.ClassMedia)
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// With all lanes taken a page's messages go round by a retry queue: none is lost,
// and the partition stays free for others.
func TestMoreExcessThanLanes(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch, c.Lanes = 64, 1 }, func(t *testing.T, r *rig) {
		pages := r.peers(3)
		for _, page := range pages[:2] {
			for range 10 {
				r.text(page, guests("u", 100)...)
			}
		}
		go every(100*time.Millisecond, 10*time.Second, func(i int) { r.text(pages[2], fmt.Sprint("c", i)) })
		r.sleep(15 * time.Second)
		if w := quantile(r.waits(pages[2]), 0.99); w > 100*time.Millisecond {
			t.Errorf("a neighbour's messages waited %v", w)
		}
		if n := len(r.laneQueues()); n != 1 {
			t.Errorf("%d lanes, want 1", n)
		}
		r.sleep(5 * time.Minute)
		r.inversions = nil // the price
		r.checkSentOnce()
	})
}

// A broker that makes no lane: the messages go round, and arrive.
func TestNoLaneCanBeMade(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		r.only().link.with(func(l *link) {
			l.refuse = func(op, _ string) error {
				if op == "declare" {
					return errors.New("too many queues")
				}
				return nil
			}
		})
		r.text("page0", guests("u", 1000)...)
		r.sleep(5 * time.Minute)
		r.inversions = nil
		r.checkSentOnce()
		r.only().inspect(func(e *engine) {
			if n := len(e.lanes.list); n != 0 {
				t.Errorf("%d lanes, want none", n)
			}
			if n := e.sources.partitions[r.top.PartitionOf("page0")].src.held; n != 0 {
				t.Errorf("%d deliveries are held, want not even a token", n)
			}
		})
	})
}

// A token without a queue ends: of a lane that was deleted, or never made. Further ones
// do no harm. A lane of an earlier version, which has the page's name alone, is sent.
func TestTokenWithoutALane(t *testing.T) {
	t.Parallel()
	for id, exists := range map[string]bool{message.LaneID("page0", time.Unix(1, 0)): false, "page0": true} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, nil, func(t *testing.T, r *rig) {
				if exists {
					name := r.top.Lane(id, "text")
					if err := r.broker.Declare(t.Context(), r.top.LaneSpec(name)); err != nil {
						t.Fatal(err)
					}
					m := r.copyOf("page0", message.ClassText, "ann")
					body, err := m.Encode()
					if err == nil {
						err = r.broker.Publish(t.Context(), queue.Message{Queue: name, ID: m.ID, Body: body})
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				token := queue.Message{
					Queue: r.top.OutboundOf("page0"), ID: "lane/page0/1", Body: []byte("text"), Headers: map[string]string{message.HeaderLane: id},
				}
				for range 3 {
					if err := r.broker.Publish(t.Context(), token); err != nil {
						t.Fatal(err)
					}
				}
				r.text("page0", guests("u", 20)...)
				r.sleep(2 * time.Second)
				r.checkSentOnce()
				r.sleep(3 * time.Minute)
				if got := r.laneQueues(); len(got) != 0 {
					t.Errorf("lanes = %v, want none", got)
				}
				r.only().inspect(func(e *engine) {
					if n := e.sources.partitions[r.top.PartitionOf("page0")].src.held; n != 0 {
						t.Errorf("%d deliveries are held, want no token", n)
					}
				})
			})
		})
	}
}

// A token goes back and comes again before the broker takes its holder for hung.
func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	slow := func(c *Config) { c.Prefetch, c.Limit = 64, message.Limits{Text: 2, Media: 1}.Of }
	inBubble(t, 1, slow, func(t *testing.T, r *rig) {
		r.text("page0", guests("u", 200)...)
		for range 6 * 25 { // a little more than the limit, for 25 minutes
			r.text("page0", guests("u", 21)...)
			r.sleep(10 * time.Second)
			r.only().inspect(func(e *engine) {
				for m := e.sources.partitions[r.top.PartitionOf("page0")].src.first; m != nil; m = m.next {
					if age := time.Since(m.since); age > 11*time.Minute {
						t.Fatalf("a delivery of the partition is held for %v, token: %v", age, m.token)
					}
				}
			})
		}
		r.sleep(5 * time.Minute)
		r.checkSentOnce()
		if got := r.laneQueues(); len(got) != 0 {
			t.Errorf("lanes = %v, want none", got)
		}
	})
}

// A page that is shut for a day gives its partition up to others, and a neighbour
// with a burst has sent it as its limit allows.
func TestShutNeighbour(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 256 }, func(t *testing.T, r *rig) {
		pages := r.peers(2)
		shut, page := pages[0], pages[1]
		r.limits = func(p string, _ message.Class) int { return 300 }
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
				for _, s := range e.sources.open {
					for m := s.first; m != nil; m = m.next {
						if age := time.Since(m.since); age > 16*time.Minute {
							t.Fatalf("a delivery of %s is held for %v", s.queue, age)
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
		r.limits = func(string, message.Class) int { return 300 }
		marked := 0
		r.only().link.with(func(l *link) {
			l.dies = func(op, name string) bool {
				if op != "token" || !r.isLane(name, "page0", message.ClassText) {
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
