package dispatch

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

func TestStopFinishesCallsAndHandsBackTheRest(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.MaxInFlight = 10 }, func(t *testing.T, r *rig) {
		r.latency = func(message.Outbound) time.Duration { return 2 * time.Second }
		r.text("page0", guests("u", 30)...)
		r.sleep(time.Second)
		began := time.Now()
		r.stop(r.only())
		if got := time.Since(began); got > 1500*time.Millisecond {
			t.Errorf("stopping took %v, want a little more than the rest of the calls, 1 s", got)
		}
		if got := len(r.ids()); got != 8 {
			t.Errorf("accepted = %d, want the 8 in flight: not all calls, so that others can have some", got)
		}
		r.with(func() { r.latency = nil })
		r.start(1, nil)
		r.sleep(3 * time.Second)
		r.checkSentOnce()
	})
}

func TestStopIsBoundedByItsTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.ShutdownTimeout = 10 * time.Second }, func(t *testing.T, r *rig) {
		r.latency = func(message.Outbound) time.Duration { return time.Hour }
		r.text("page0", "ann", "bob")
		r.sleep(time.Second)
		began := time.Now()
		r.stop(r.only())
		if got := time.Since(began); got < 10*time.Second || got > 11*time.Second {
			t.Errorf("stopping took %v, want the timeout of 10s", got)
		}
		if info, err := r.broker.Inspect(t.Context(), r.top.OutboundOf("page0")); err != nil || info.Ready != 2 {
			t.Errorf("handed back = %d, %v, want 2", info.Ready, err)
		}
	})
}

// One slow call of another page keeps nobody waiting when a replica leaves: not
// at all on another partition, for handOver on its own.
func TestLeavingWithASlowCall(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, nil, func(t *testing.T, r *rig) {
		pages := r.peers(2)
		slow, neighbour := pages[0], pages[1]
		other := ""
		for i := 0; other == ""; i++ { // another partition of the same replica
			page := fmt.Sprint("other", i)
			r.text(page, "x")
			r.text(slow, "x")
			r.sleep(100 * time.Millisecond)
			if r.top.PartitionOf(page) != r.top.PartitionOf(slow) && r.owner(page) == r.owner(slow) {
				other = page
			}
		}
		r.with(func() {
			r.latency = func(o message.Outbound) time.Duration {
				if o.Page == slow {
					return 9 * time.Second
				}
				return 40 * time.Millisecond
			}
		})
		r.text(slow, "ann")
		r.sleep(100 * time.Millisecond)
		leaver := r.replicas[r.owner(slow)]
		go every(50*time.Millisecond, 15*time.Second, func(i int) {
			r.text(neighbour, fmt.Sprint("n", i))
			r.text(other, fmt.Sprint("o", i))
		})
		r.sleep(time.Second)
		r.stop(leaver)
		r.sleep(20 * time.Second)
		r.checkSentOnce()
		if w := quantile(r.waits(other), 1); w > 200*time.Millisecond {
			t.Errorf("a page of another partition was silent for %v, want at most 200 ms", w)
		}
		if w := quantile(r.waits(neighbour), 1); w > handOver+200*time.Millisecond {
			t.Errorf("a page of the same partition was silent for %v, want at most %v", w, handOver+200*time.Millisecond)
		}
	})
}

// To give a lane back takes the broker a while. That begins soon, although calls of
// the lane are open. The next owner hears of it when all of it is back, and not
// when the calls have had their time.
func TestLaneIsBackBeforeItsToken(t *testing.T) {
	t.Parallel()
	const needs = leaveTime + 700*time.Millisecond
	inBubble(t, 2, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		r.with(func() {
			r.latency = func(o message.Outbound) time.Duration {
				if o.To == "u-0" { // or the page would be taken for one that hangs
					return 40 * time.Millisecond
				}
				return 4 * time.Second
			}
		})
		people := guests("u", 20)
		for range 300 {
			r.text("page0", people...)
		}
		r.sleep(10 * time.Second)
		leaver := r.replicas[r.owner("page0")]
		holds := false // a partition may have been given up for balance a moment ago
		for i := 0; i < 10 && !holds; i++ {
			r.sleep(100 * time.Millisecond)
			leaver.inspect(func(e *engine) {
				holds = len(e.lanes.list) == 1 && e.lanes.list[0].src != nil && e.lanes.list[0].src.held > 0
			})
		}
		if !holds {
			t.Fatal("the leaver holds nothing of a lane: nothing is tested")
		}
		lane := r.laneOf("page0", message.ClassText)
		var began, ended time.Time
		leaver.link.with(func(l *link) {
			l.dies = func(op, name string) bool {
				switch {
				case name != lane:
				case op == "return":
					r.with(func() { began = cmp.Or(began, time.Now()) })
				case op == "returned":
					time.Sleep(time.Until(began.Add(needs))) // the first of them
					r.with(func() { ended = time.Now() })
				}
				return false
			}
		})
		left := time.Now()
		go r.stop(leaver)
		lanesOf := func(p *replica) (n int) {
			p.inspect(func(e *engine) { n = len(e.lanes.list) })
			return n
		}
		r.sleep(needs - 100*time.Millisecond)
		next := r.replicas[1-slices.Index(r.replicas, leaver)]
		n := lanesOf(next)
		r.with(func() {
			if n > 0 || began.IsZero() || began.Sub(left) > 2*quickHandOver || !ended.IsZero() {
				t.Errorf("after %v the next owner has %d lanes, want none; the return began after %v, want at most 200 ms", time.Since(left), n, began.Sub(left))
			}
		})
		r.sleep(time.Second)
		n = lanesOf(next)
		r.with(func() {
			if n != 1 || ended.IsZero() {
				t.Errorf("after %v the next owner has %d lanes, want 1", time.Since(left), n)
			}
		})
		r.sleep(10 * time.Minute)
		r.checkSentOnce()
	})
}

// What is published between the end of a sender's deliveries and the return of
// what it held reaches the next sender first, and is sent after that.
func TestReturnedGoesBeforeNew(t *testing.T) {
	t.Parallel()
	t.Run("one message", func(t *testing.T) { t.Parallel(); returned(t, 1) })
	t.Run("room for one of two that are returned", func(t *testing.T) { t.Parallel(); returned(t, 63) })
	t.Run("more than the next sender's prefetch", func(t *testing.T) { t.Parallel(); returned(t, 100) })
}

// slowOwner is the replica that has a call for ann on page0, which takes 3 s, and
// two messages behind it.
func (r *rig) slowOwner() *replica {
	r.t.Helper()
	r.text("page0", "bob")
	r.sleep(100 * time.Millisecond)
	r.with(func() { r.latency = func(message.Outbound) time.Duration { return 3 * time.Second } })
	r.text("page0", "ann", "ann", "ann")
	r.sleep(100 * time.Millisecond)
	return r.replicas[r.owner("page0")]
}

func returned(t *testing.T, n int) {
	t.Helper()
	inBubble(t, 2, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		leaver := r.slowOwner()
		between := 0
		leaver.link.with(func(l *link) {
			l.dies = func(op, name string) bool {
				if op == "cancelled" && name == r.top.OutboundOf("page0") {
					between++
					for range n {
						r.text("page0", "ann")
					}
					time.Sleep(5 * time.Millisecond)
				}
				return false
			}
		})
		r.stop(leaver)
		r.sleep(time.Minute)
		if between != 1 {
			t.Errorf("the partition was cancelled %d times, want once", between)
		}
		r.checkSentOnce()
	})
}

// A call that is refused once its page is another's goes back at once, and
// waits for no other call.
func TestRefusedAfterTheHandOver(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, nil, func(t *testing.T, r *rig) {
		r.text("page0", "x")
		r.sleep(100 * time.Millisecond)
		owner := r.owner("page0")
		r.with(func() {
			r.latency = func(o message.Outbound) time.Duration {
				if o.To == "bob" {
					return 9 * time.Second
				}
				return 2 * time.Second
			}
		})
		r.script(func(o message.Outbound, replica int) sender.Result {
			if replica == owner && o.To == "ann" {
				return fail(sender.PageThrottled)
			}
			return sender.Result{}
		})
		r.text("page0", "ann", "bob")
		r.sleep(100 * time.Millisecond)
		began := time.Now()
		r.stop(r.replicas[owner])
		if d := time.Since(began); d < 8*time.Second {
			t.Errorf("stopped after %v, want that it waits for its call of 9 s", d)
		}
		r.checkSentOnce() // ann's was sent meanwhile
	})
}

// One that stops before its first call has ended does not know how long calls take,
// and waits for this one as long as for any: its person gets the next message later.
func TestStopBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, nil, func(t *testing.T, r *rig) {
		r.with(func() {
			r.latency = func(o message.Outbound) time.Duration {
				if number(o.ID) == 1 {
					return 700 * time.Millisecond
				}
				return 40 * time.Millisecond
			}
		})
		r.text("page0", "ann")
		r.text("page0", "ann")
		r.sleep(50 * time.Millisecond)
		r.stop(r.replicas[r.owner("page0")])
		r.sleep(time.Second)
		r.checkSentOnce()
	})
}

// A page's next sender is told of its lane when that was given back and not
// before, however long the calls take.
func TestLaneIsGivenBackBeforeItsToken(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		r.with(func() { r.latency = func(message.Outbound) time.Duration { return 2900 * time.Millisecond } })
		r.limits = func(string, message.Class) int { return 300 }
		go every(10*time.Millisecond, 40*time.Second, func(i int) {
			r.text("page0", fmt.Sprint("u-", i%20), fmt.Sprint("v-", i%500))
		})
		for range 4 {
			for r.sleep(8 * time.Second); r.owner("page0") < 0; {
				r.sleep(100 * time.Millisecond)
			}
			leaver := r.replicas[r.owner("page0")]
			r.start(1, func(c *Config) { c.Prefetch = 64 })
			r.stop(leaver)
		}
		r.sleep(3 * time.Minute)
		r.checkSentOnce()
	})
}

// A saturated page goes on elsewhere when its sender leaves, in order.
func TestLeavingWithALane(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		go every(100*time.Millisecond, 20*time.Second, func(i int) { r.text("page0", guests("u", 40)...) })
		for range 3 {
			r.sleep(5 * time.Second)
			leaver := r.replicas[r.owner("page0")]
			r.start(1, func(c *Config) { c.Prefetch = 64 })
			r.stop(leaver)
			before := len(r.ids())
			r.sleep(2 * time.Second)
			if n := len(r.ids()) - before; n < 300 {
				t.Errorf("accepted in the two seconds after the sender left = %d, want 300 at least", n)
			}
		}
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// Attempts travel with a message when its replica leaves before the next try.
func TestAttemptsTravel(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(sick("page0/ann"))
		ids := r.text("page0", "ann")
		for range 40 {
			r.sleep(300 * time.Millisecond)
			r.stop(r.replicas[len(r.replicas)-1])
			r.start(1, nil)
		}
		r.sleep(10 * time.Minute)
		if n := r.attempts[ids[0]]; n != 8 {
			t.Errorf("calls = %d, want 8 over all replicas", n)
		}
		if d := r.dead()[ids[0]]; d.Reason != message.ReasonExhausted || d.Attempts != 8 || d.FirstCode != "10" {
			t.Errorf("death = %+v, want exhausted after 8 attempts", d)
		}
	})
}

// A replica that was paused makes no call before it has dropped what it held.
func TestPause(t *testing.T) {
	t.Parallel()
	for range 8 { // what the engine sees first is chance
		pause(t)
	}
}

func pause(t *testing.T) {
	t.Helper()
	inBubble(t, 2, func(c *Config) { c.MaxInFlight = 4 }, func(t *testing.T, r *rig) {
		r.latency = func(message.Outbound) time.Duration { return time.Second }
		r.text("page0", guests("u", 40)...)
		r.sleep(100 * time.Millisecond)
		paused := r.owner("page0")
		p := r.replicas[paused]
		p.inspect(func(*engine) {
			r.text("page0", "late")
			time.Sleep(30 * time.Second) // the process does not run
		})
		resumed := time.Now()
		r.sleep(900 * time.Millisecond)
		for _, c := range r.callsOf("page0") {
			if c.replica == paused && !c.at.Before(resumed) {
				t.Fatalf("the paused replica called %v after it went on", c.at.Sub(resumed))
			}
		}
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// A replica whose calls are not answered gives its pages up to others that fare
// better, within seconds.
func TestHungReplica(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, nil, func(t *testing.T, r *rig) {
		go every(100*time.Millisecond, 30*time.Second, func(i int) { r.text("page0", guests("u", 20)...) })
		r.sleep(5 * time.Second)
		hung := r.owner("page0")
		p := r.replicas[hung]
		p.inspect(func(e *engine) { e.Sender = stuck{} })
		began := time.Now()
		r.sleep(time.Minute)
		silent := time.Duration(0)
		last := began
		for _, c := range r.callsOf("page0") {
			if c.at.After(began) && c.replica != hung {
				silent = max(silent, c.at.Sub(last))
				last = c.at
			}
		}
		if silent > 6*time.Second {
			t.Errorf("silent for %v, want at most 6 s", silent)
		}
		lost := 0
		for _, id := range r.published {
			if r.accepted[id] == 0 {
				lost++
			}
		}
		if lost > 0 {
			t.Errorf("%d messages did not arrive", lost)
		}
	})
}

// A call that does not end with its context keeps no message from being counted.
func TestStopWithADeafCall(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.ShutdownTimeout = time.Second }, func(t *testing.T, r *rig) {
		r.only().inspect(func(e *engine) { e.Sender = deaf{} })
		r.text("page0", "ann", "bob", "bob")
		r.sleep(time.Second)
		r.stop(r.only())
		if info, err := r.broker.Inspect(t.Context(), r.top.OutboundOf("page0")); err != nil || info.Ready != 3 {
			t.Errorf("handed back = %d, %v, want 3", info.Ready, err)
		}
	})
}

// In a roll, in which all replicas are replaced, a page is handed over once: to
// one that came later, and not to the next one that leaves. No message waits
// while the others make way.
func TestRollMovesAPageOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, nil, func(t *testing.T, r *rig) {
		go every(20*time.Millisecond, 30*time.Second, func(i int) { r.text("page0", fmt.Sprint("u", i)) })
		r.sleep(time.Second)
		old := r.owner("page0")
		r.start(4, nil)
		r.sleep(5 * time.Second)
		if now := r.owner("page0"); now != old {
			t.Errorf("the page moved from replica %d to %d when others came", old, now)
		}
		r.stop(r.replicas[old])
		r.sleep(time.Second)
		if now := r.owner("page0"); now < 4 {
			t.Errorf("the page went to replica %d, want one of those that came later, 4 to 7", now)
		}
		for _, p := range r.replicas[:4] {
			r.stop(p)
		}
		r.sleep(30 * time.Second)
		r.checkSentOnce()
		if w := quantile(r.waits("page0"), 1); w > 250*time.Millisecond {
			t.Errorf("a message waited %v, want at most 250 ms", w)
		}
	})
}

// A replica that ends is not counted any more while its calls go on, so that
// nothing is left to it for balance.
func TestOneThatEndsIsNotCounted(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, nil, func(t *testing.T, r *rig) {
		r.latency = func(message.Outbound) time.Duration { return 9 * time.Second }
		r.text("page0", "ann")
		r.sleep(100 * time.Millisecond)
		owner := r.owner("page0")
		for _, want := range []int{2, 1} {
			r.replicas[1-owner].inspect(func(e *engine) {
				if got := e.calls.health.replicas; got != want {
					t.Errorf("replicas = %d, want %d", got, want)
				}
			})
			r.replicas[owner].cancel()
			r.sleep(countEvery)
		}
		if info, err := r.broker.Inspect(t.Context(), r.top.OutboundOf("page0")); err != nil || info.Consumers != 1 {
			t.Errorf("consumers of the partition = %d, %v, want 1", info.Consumers, err)
		}
	})
}
