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
	"chatclub/internal/orders"
	"chatclub/internal/partitions"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// active are the replicas to which the broker delivers each partition; -1: none.
func (r *rig) active() []int {
	owners := make([]int, r.top.Partitions)
	subs := make([]queue.Subscription, r.top.Partitions)
	for i := range owners {
		owners[i], subs[i] = -1, r.broker.Active(r.top.Outbound(i))
	}
	for k, p := range r.replicas {
		if p.ended || p.link.isDead() {
			continue
		}
		p.inspect(func(e *engine) {
			for _, c := range e.claims.all {
				if i := c.partition.index; i != allPages && c.sources[0].sub == subs[i] {
					owners[i] = k
				}
			}
		})
	}
	return owners
}

// slotsOf are the slots of those that run.
func (r *rig) slotsOf() (list []int) {
	for _, p := range r.replicas {
		if !p.ended && !p.link.isDead() {
			p.inspect(func(e *engine) {
				if e.standing.Ranks != nil {
					list = append(list, e.standing.Slot)
				}
			})
		}
	}
	return list
}

// checkPlaces: those that run have slots of their own, and each partition belongs to the
// one with the highest priority for it.
func (r *rig) checkPlaces() {
	r.t.Helper()
	taken := r.slotsOf()
	slices.Sort(taken)
	if len(slices.Compact(slices.Clone(taken))) != len(taken) {
		r.t.Errorf("slots = %v, want one each", taken)
	}
	best := make([]int, r.top.Partitions)
	want := slices.Repeat([]int{-1}, r.top.Partitions)
	for k, p := range r.replicas {
		if p.ended || p.link.isDead() {
			continue
		}
		p.inspect(func(e *engine) {
			for i := range best {
				if rank := e.standing.priority(i); want[i] < 0 || rank > best[i] {
					best[i], want[i] = rank, k
				}
			}
		})
	}
	if got := r.active(); !slices.Equal(got, want) {
		r.t.Errorf("owners = %v, want %v", got, want)
	}
}

// distant is a broker whose answers are 20 ms old.
type distant struct{ queue.Broker }

func (d distant) Inspect(ctx context.Context, name string) (queue.Info, error) {
	info, err := d.Broker.Inspect(ctx, name)
	time.Sleep(20 * time.Millisecond)
	return info, err
}

// Those that start at the same time take different slots.
func TestStartAtTheSameTime(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4, 8} {
		inBubble(t, n, func(c *Config) { c.Broker = distant{c.Broker} }, func(t *testing.T, r *rig) {
			r.sleep(3 * time.Second)
			taken := r.slotsOf() // before it is looked whether others have the same
			slices.Sort(taken)
			if n := len(slices.Compact(slices.Clone(taken))); n < len(taken) {
				t.Errorf("slots = %v, want one each", taken)
			}
			r.sleep(15 * time.Second)
			r.checkPlaces()
		})
	}
}

// A newcomer takes nothing for five seconds. Then it has its part, and nothing is lost,
// doubled or overtaken.
func TestNewcomerIsOnTrial(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.latency = longTailed(rand.New(rand.NewPCG(1, 2)), 40*time.Millisecond, 120*time.Millisecond)
		go every(50*time.Millisecond, 20*time.Second, func(i int) {
			for p := range 30 {
				r.text(fmt.Sprint("page", p), fmt.Sprint("u", i%10))
			}
		})
		r.sleep(3 * time.Second)
		began := time.Now()
		r.start(1, nil)
		r.sleep(4500 * time.Millisecond)
		if slices.Contains(r.active(), 1) {
			t.Error("it has a partition after 4.5 s")
		}
		for r.sleep(100 * time.Millisecond); !slices.Contains(r.active(), 1) && time.Since(began) < 20*time.Second; {
			r.sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("it has a partition after %v, want about 5 s", took)
		}
		r.sleep(5 * time.Second)
		r.checkPlaces()
		for p := range 30 {
			page := fmt.Sprint("page", p)
			if w := quantile(r.waits(page), 1); w > 1200*time.Millisecond {
				t.Errorf("%s: a message waited %v", page, w)
			}
		}
		r.sleep(10 * time.Second)
		r.checkSentOnce()
	})
}

// An outranked owner goes: one in full flow, with a backlog, is silent for 3 s at most
// at Messenger's latency, and a calm one for 1.2 s.
func TestOutrankedOwnerLeaves(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		people  int // a text each gap to so many
		gap     time.Duration
		backlog int
		shut    bool // another page of the partition is, and has messages that are held
		p99     time.Duration
		silent  time.Duration // beyond the time between two texts
	}{
		{"full flow", 60, 200 * time.Millisecond, 0, false, 1900 * time.Millisecond, 3 * time.Second},
		{"beside a page that is shut", 60, 200 * time.Millisecond, 0, true, 1900 * time.Millisecond, 3 * time.Second},
		{"backlog in the lane", 60, 200 * time.Millisecond, 5000, false, 1900 * time.Millisecond, 3 * time.Second},
		{"calm", 1, 500 * time.Millisecond, 0, false, 700 * time.Millisecond, 1200 * time.Millisecond},
		{"calm, with a long tail", 1, 500 * time.Millisecond, 0, false, 1900 * time.Millisecond, 1900 * time.Millisecond},
		{"a room with an event a second", 20, time.Second, 0, false, 700 * time.Millisecond, 1200 * time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, nil, func(t *testing.T, r *rig) {
				r.latency = longTailed(rand.New(rand.NewPCG(1, 2)), 700*time.Millisecond, row.p99)
				r.limits = func(string, message.Class) int { return 300 }
				page, others := r.changing(1)
				other := others[0]
				r.script(func(o message.Outbound, _ int) sender.Result {
					if row.shut && o.Page == other && time.Since(r.born[o.ID]) < 2*time.Minute {
						return fail(sender.PageThrottled)
					}
					return sender.Result{}
				})
				r.text(other, guests("o", 20)...)
				go every(row.gap, 30*time.Second, func(i int) {
					if row.people == 1 {
						r.text(page, fmt.Sprint("u", i%60))
					} else {
						r.text(page, guests("u", row.people)...)
					}
				})
				r.sleep(2 * time.Second)
				for n := 0; n < row.backlog; n += 500 {
					r.text(page, guests("b", 500)...)
				}
				r.sleep(time.Second)
				from := time.Now()
				r.start(1, nil)
				r.sleep(25 * time.Second)
				if r.owner(page) != 1 {
					t.Fatalf("the owner is %d, want 1: nothing is tested", r.owner(page))
				}
				if s := r.silence(page, from, time.Now()); s > row.gap+row.silent {
					t.Errorf("silent for %v, want %v at most beyond the %v between two texts", s, row.silent, row.gap)
				}
				r.sleep(2 * time.Minute)
				r.checkSentOnce()
			})
		})
	}
}

// changing returns a page whose partition goes to the second replica, and n neighbours.
func (r *rig) changing(n int) (page string, others []string) {
	for i, ranks := 0, [2][]int{partitions.Priorities(0, 32, 16), partitions.Priorities(1, 32, 16)}; len(others) < n || page == ""; i++ {
		name := fmt.Sprint("page", i)
		switch p := r.top.PartitionOf(name); {
		case page == "" && ranks[1][p] > ranks[0][p]:
			page = name
		case page != "" && p == r.top.PartitionOf(page):
			others = append(others, name)
		}
	}
	return page, others
}

// A lane may come to a new owner before its partition does. It sends nothing of it while the
// owner before has calls of the same page.
func TestLaneComesBeforeItsPartition(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.JoinTexts = 1 }, func(t *testing.T, r *rig) {
		page, _ := r.changing(0)
		r.know(page)
		latency := 8 * time.Second
		r.latency = func(message.Outbound) time.Duration { return latency }
		r.start(1, func(c *Config) { c.JoinTexts = 1 })
		r.sleep(3 * time.Second)
		isOnTrial := func() (yes bool) {
			r.replicas[1].inspect(func(e *engine) { yes = e.standing.trial || e.standing.Ranks == nil })
			return yes
		}
		for isOnTrial() {
			r.text(page, guests("u", 10)...)
			r.sleep(100 * time.Millisecond)
		}
		r.with(func() { latency = 100 * time.Millisecond })
		r.give(orders.Pause, page, nil)
		r.sleep(200 * time.Millisecond)
		if r.replicas[0].held() == 0 || r.replicas[1].held() == 0 {
			t.Fatal("one of them holds nothing: nothing is tested")
		}
		r.give(orders.Resume, page, nil)
		r.sleep(2 * time.Minute)
		r.checkSentOnce()
	})
}

// A dispatcher that is outranked, and holds all that it takes of the lane of a page that is
// paused, leaves the partition all the same.
func TestOutrankedWithAFullLane(t *testing.T) {
	t.Parallel()
	change := func(c *Config) { c.Prefetch, c.LanePrefetch = 512, MinLanePrefetch }
	inBubble(t, 1, change, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		page, others := r.changing(2)
		r.give(orders.Pause, page, nil)
		r.text(page, guests("u", 2*MinLanePrefetch)...)
		go every(700*time.Millisecond, time.Minute, func(i int) { r.text(others[i%2], fmt.Sprint("o", i%5)) })
		r.sleep(5 * time.Second)
		if held := r.only().held(); held < MinLanePrefetch {
			t.Fatalf("it holds %d: nothing is tested", held)
		}
		r.start(1, change)
		r.sleep(30 * time.Second)
		if r.owner(page) != 1 || r.only().held() > 0 {
			t.Errorf("the owner is %d, and the first one holds %d, want the second, and nothing", r.owner(page), r.only().held())
		}
		r.give(orders.Resume, page, nil)
		r.sleep(time.Minute)
		for _, other := range others {
			if w := quantile(r.waits(other), 1); w > 3*time.Second {
				t.Errorf("%s: a message waited %v, want 3 s at most", other, w)
			}
		}
		r.checkSentOnce()
	})
}

// An owner that has as much as it takes is not outranked, although more waits: what
// arrives while the broker is asked shows that.
func TestFullOwnerIsNotOutranked(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		r.latency = func(message.Outbound) time.Duration { return 1500 * time.Millisecond }
		page := "page0"
		r.text(page, "ann")
		r.sleep(10 * time.Second)
		owner, asked := r.replicas[r.owner(page)], 0
		owner.link.with(func(l *link) {
			l.refuse = func(op, name string) error {
				if op == "inspect" && name == r.top.OutboundOf(page) {
					r.with(func() { asked++ })
					r.text(page, guests("g", 100)...)
				}
				return nil
			}
		})
		for range 30 {
			r.text(page, "ann")
			r.sleep(5 * time.Second)
		}
		owner.link.with(func(l *link) { l.refuse = nil })
		r.sleep(time.Minute)
		if n := testutil.ToFloat64(owner.metrics.givenUp["outranked"]); n > 0 || asked < 10 {
			t.Errorf("the owner was asked for %d times, and gave up %v times as outranked, want at least 10 and 0", asked, n)
		}
		r.checkSentOnce()
	})
}

// An owner that had no room for long, and has some now, does not take itself for outranked at
// once: the broker has a second to deliver something.
func TestRoomAfterALongTime(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		pages := r.peers(64)
		r.latency = func(o message.Outbound) time.Duration {
			if o.Page == pages[63] {
				return 30 * time.Second
			}
			return 9500 * time.Millisecond
		}
		var asked time.Time // first
		r.only().link.with(func(l *link) {
			l.refuse = func(op, name string) error {
				if op == "inspect" && name == r.top.OutboundOf(pages[0]) {
					r.with(func() {
						if asked.IsZero() {
							asked = time.Now()
						}
					})
				}
				return nil
			}
		})
		for _, page := range pages {
			r.text(page, "ann")
		}
		r.sleep(8 * time.Second)
		if held := r.only().held(); held != 64 {
			t.Fatalf("it holds %d, want all of 64", held)
		}
		r.sleep(8 * time.Second)
		var after time.Duration
		r.with(func() { after = asked.Sub(r.calls[0].at.Add(9500 * time.Millisecond)) })
		if held := r.only().held(); held != 1 || after < partitions.LookAfter {
			t.Errorf("it holds %d, and asked the broker %v after it had room; want one, and one second", held, after)
		}
	})
}

// Two that have the same slot, as after a lost connection, come to have two within a
// minute, and meanwhile each partition belongs to one of them.
func TestSlotIsTakenTwice(t *testing.T) {
	t.Parallel()
	for range 4 { // who moves is chance
		inBubble(t, 3, nil, func(t *testing.T, r *rig) {
			r.sleep(15 * time.Second)
			r.checkPlaces()
			go every(500*time.Millisecond, 90*time.Second, func(i int) {
				for p := range 10 {
					r.text(fmt.Sprint("page", p), fmt.Sprint("u", i%10))
				}
			})
			var other partitions.Place
			r.replicas[0].inspect(func(e *engine) { other = e.standing.Place })
			r.replicas[1].inspect(func(e *engine) {
				old := e.standing.Place
				sub, err := e.Broker.Consume(r.top.Slots()[other.Slot], queue.ConsumeOptions{Prefetch: 1})
				if err != nil {
					t.Error(err)
					return
				}
				e.standing.Slot, e.standing.Ranks, e.standing.Sub = other.Slot, other.Ranks, sub
				e.standing.closeSlot(old)
				e.claims.renewAll("rank")
			})
			if taken := r.slotsOf(); taken[0] != taken[1] {
				t.Fatalf("slots = %v: nothing is tested", taken)
			}
			r.sleep(80 * time.Second)
			r.checkPlaces()
			r.sleep(30 * time.Second)
			r.checkSentOnce()
		})
	}
}

// Dispatchers come and go, one a second, while every page is lively: nothing is lost,
// doubled or overtaken.
func TestOneToFourToEightToFour(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name        string
		median, p99 time.Duration
		limit       int
	}{
		{"0.7 s, some pages in excess", 700 * time.Millisecond, 1900 * time.Millisecond, 20},
		{"40 ms", 40 * time.Millisecond, 120 * time.Millisecond, 0},
		{"0.7 s", 700 * time.Millisecond, 1900 * time.Millisecond, 0},
	}[:seeds(3)] {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				change := func(c *Config) {
					c.Prefetch = 256
					if row.limit > 0 {
						c.Limits = func(string) message.Limits { return message.Limits{Text: float64(row.limit), Media: 10} }
					}
				}
				r.latency = longTailed(rand.New(rand.NewPCG(1, 2)), row.median, row.p99)
				r.limits = func(string, message.Class) int { return row.limit }
				r.start(1, change)
				r.sleep(3 * time.Second)
				go every(250*time.Millisecond, 45*time.Second, func(int) {
					for p := range 20 {
						r.text(fmt.Sprint("page", p), guests("u", 1+p)...)
					}
				})
				r.sleep(3 * time.Second)
				grow := func(n int) {
					for range n {
						r.start(1, change)
						r.sleep(time.Second)
					}
				}
				grow(3)
				r.sleep(12 * time.Second) // the trial, and the slowest calls of those before
				grow(4)
				r.sleep(12 * time.Second) // the trial, and the slowest calls of those before
				r.checkPlaces()
				for i := range 4 {
					r.stop(r.replicas[2*i])
					r.sleep(time.Second)
				}
				r.sleep(2 * time.Minute)
				r.checkSentOnce()
				r.checkPlaces()
				r.end()
				r.checkEmpty()
			})
		})
	}
}
