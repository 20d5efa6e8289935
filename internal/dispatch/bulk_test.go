package dispatch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// broadcast is n messages of one broadcast to as many people.
func broadcast(id, page string, rate float64, n int) []message.Outbound {
	outs := make([]message.Outbound, n)
	for i := range outs {
		outs[i] = msg(page, fmt.Sprintf("%s-%d", id, i), i)
		outs[i].Broadcast, outs[i].Rate = id, rate
	}
	return outs
}

// sentOf is how many messages of a broadcast were sent.
func sentOf(a *api, id string) (n int) {
	for _, sent := range a.accepted() {
		if strings.Contains(sent, "/"+id+"-") {
			n++
		}
	}
	return n
}

// However many replicas there are, a broadcast is sent at its rate, and from
// its first second on never above it.
func TestBroadcastKeepsItsRate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		replicas int
		rate     float64
	}{{1, 20}, {4, 20}, {1, 200}, {4, 200}, {4, 0.5}} {
		t.Run(fmt.Sprintf("%d replicas %g per s", row.replicas, row.rate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(t, 1)
				a := &api{latency: 40 * time.Millisecond}
				var rigs []*rig
				for range row.replicas {
					rigs = append(rigs, startOn(t, b, a, nil))
				}
				outs := broadcast("news", "p", row.rate, 500+int(60*row.rate))
				rigs[0].publishTo(t, b.Topology().Bulk(), outs...)

				time.Sleep(10 * time.Second)
				synctest.Wait()
				early := sentOf(a, "news")
				if most := 10*row.rate + float64(row.replicas); float64(early) > most {
					t.Errorf("sent in the first 10 s = %d, want at most %g", early, most)
				}
				const long = 40 * time.Second
				time.Sleep(long)
				synctest.Wait()
				got := float64(sentOf(a, "news")-early) / long.Seconds()
				if got > row.rate || got < 0.9*row.rate {
					t.Errorf("rate of the broadcast = %g/s, want %g/s at most and 90 %% of it at least", got, row.rate)
				}
				for _, r := range rigs {
					r.stop(t)
				}
				if sent, left := sentOf(a, "news"), len(rigs[0].drain(t, b.Topology().Bulk())); sent+left != len(outs) {
					t.Errorf("sent %d and left %d of %d", sent, left, len(outs))
				}
			})
		})
	}
}

// Replicas that come and go change each other's part, not the broadcast's rate.
func TestBroadcastKeepsItsRateWhileReplicasChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, 1)
		a := &api{latency: 40 * time.Millisecond}
		rigs := []*rig{startOn(t, b, a, nil)}
		rigs[0].publishTo(t, b.Topology().Bulk(), broadcast("news", "p", 40, 10000)...)
		for range 3 {
			time.Sleep(10 * time.Second)
			rigs = append(rigs, startOn(t, b, a, nil))
		}
		time.Sleep(10 * time.Second)
		for _, r := range rigs[1:] {
			r.stop(t)
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		// Each change is seen within half a second, and a part that was waited
		// for at the old count is waited for to its end.
		if got, want := float64(sentOf(a, "news")), 40*70.0; got > want+10 || got < 0.9*want {
			t.Errorf("sent in 70 s with 1 to 4 replicas = %g, want %g at most and 90 %% of it at least", got, want)
		}
		rigs[0].stop(t)
	})
}

// A message that waits for its broadcast's turn holds nobody up: not its
// recipient's conversation, nor its page's.
func TestConversationIsNotBehindABroadcast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 40 * time.Millisecond}
		r := start(t, a, nil)
		slow := broadcast("slow", "p", 0.01, 100)
		r.publishTo(t, r.broker.Topology().Bulk(), slow...)
		time.Sleep(5 * time.Second)
		var want []string
		for _, m := range slow {
			reply := msg("p", m.To, 1000+len(want))
			want = append(want, reply.ID)
			r.publish(t, reply)
		}
		time.Sleep(100 * time.Millisecond)
		got := slices.DeleteFunc(a.accepted(), func(id string) bool { return !slices.Contains(want, id) })
		if len(got) != len(want) {
			t.Errorf("replies sent within 100 ms = %d, want %d", len(got), len(want))
		}
		r.stop(t)
	})
}

// A broadcast takes what its page has left and never puts the page in excess:
// on the lane, replies would be behind all of it. With replies at half of the
// share it gets the other half, and a reply waits for no more than a few of it.
func TestBroadcastGetsWhatItsPageLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 40 * time.Millisecond}
		var mu sync.Mutex
		var longest time.Duration
		a.answer = func(out message.Outbound, _ int) sender.Outcome {
			if out.Broadcast == "" {
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, out.Age(time.Now()))
			}
			return sender.Sent
		}
		r := start(t, a, func(c *Config) {
			c.Gate = excess.New(excess.Config{Limit: func(string) float64 { return 20 }, LaneHold: 512}, time.Now())
		})
		r.publishTo(t, r.broker.Topology().Bulk(), broadcast("news", "p", 0, 3000)...)
		time.Sleep(5 * time.Second)
		before := sentOf(a, "news")
		for i := range 300 { // 10 a second
			r.publish(t, msg("p", fmt.Sprintf("u%d", i), i))
			time.Sleep(100 * time.Millisecond)
		}
		got := sentOf(a, "news") - before
		if got < 270 || got > 300 {
			t.Errorf("messages of the broadcast sent beside 300 replies at a share of 19.6/s = %d, want 270 to 300", got)
		}
		// Four of the broadcast before it, itself, and its call.
		if most := 5*time.Second/19 + 50*time.Millisecond; longest > most {
			t.Errorf("longest wait of a reply = %v, want at most %v", longest, most)
		}
		if got := testutil.ToFloat64(r.metrics.spilled); got != 0 {
			t.Errorf("spilled = %v, want 0: the page was never in excess", got)
		}
		r.stop(t)
	})
}

// While its page is in excess a broadcast goes round in its queue, slowly, and
// lets those to other pages pass; afterwards all of it is sent, once.
func TestBroadcastOfAPageInExcessStaysOffItsLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 40 * time.Millisecond}
		r := start(t, a, func(c *Config) {
			c.Gate = excess.New(excess.Config{Limit: func(string) float64 { return 20 }, LaneHold: 512}, time.Now())
		})
		time.Sleep(2 * time.Second)
		for i := range 400 { // 20 s of the page's limit, at once
			r.publish(t, msg("hot", fmt.Sprintf("u%d", i), i))
		}
		time.Sleep(time.Second)
		r.publishTo(t, r.broker.Topology().Bulk(), broadcast("hot", "hot", 0, 200)...)
		r.publishTo(t, r.broker.Topology().Bulk(), broadcast("cold", "cold", 0, 10)...)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := sentOf(a, "cold"); got != 10 {
			t.Errorf("sent of the other page's broadcast = %d, want 10", got)
		}
		if got := sentOf(a, "hot"); got != 0 {
			t.Errorf("sent of the broadcast of the page in excess = %d, want 0", got)
		}
		if got := testutil.ToFloat64(r.metrics.givenBack); got < 200 || got > 5*bulkPrefetch/bulkRest.Seconds() {
			t.Errorf("given back in 5 s = %v, want all 200 once at least, and at most %v", got, 5*bulkPrefetch/bulkRest.Seconds())
		}
		if got := testutil.ToFloat64(r.metrics.spilled); got > 400 {
			t.Errorf("spilled = %v, want at most the page's 400 messages", got)
		}
		time.Sleep(2 * time.Minute)
		r.stop(t)
		if got := len(a.accepted()); got != 610 {
			t.Errorf("accepted = %d, want 610", got)
		}
		for id, n := range a.calls {
			if n != 1 {
				t.Errorf("calls for %s = %d, want 1", id, n)
			}
		}
	})
}

func TestBroadcasts(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_000_000, 0)
	b := newBroadcasts(func() float64 { return 0.5 })
	j := &job{out: message.Outbound{Broadcast: "b", Rate: 10}}
	if got := b.wait(begin, j, 4); got != 200*time.Millisecond {
		t.Errorf("wait of the first = %v, want half of 4/10 s", got)
	}
	now := begin.Add(250 * time.Millisecond) // 50 ms late: made up for
	b.take(now, j, 4)
	if got := b.wait(now, j, 4); got != 350*time.Millisecond {
		t.Errorf("wait of the second = %v, want 350ms", got)
	}
	now = now.Add(10 * time.Second) // later than 100 ms: not made up for
	b.take(now, j, 1)
	if got := b.wait(now, j, 1); got != 0 {
		t.Errorf("wait of the third = %v, want 0", got)
	}
	b.take(now, j, 1)
	if got := b.wait(now, j, 1); got != 100*time.Millisecond {
		t.Errorf("wait of the fourth = %v, want 100ms", got)
	}
	b.sweep(now.Add(time.Minute))
	if len(b.due) != 1 {
		t.Errorf("broadcasts known a minute later = %d, want 1", len(b.due))
	}
	b.sweep(now.Add(2 * time.Minute))
	if len(b.due) != 0 {
		t.Errorf("broadcasts known two minutes later = %d, want 0", len(b.due))
	}
	if got := interval(math.SmallestNonzeroFloat64, 1000); got != time.Hour {
		t.Errorf("interval of the lowest rate = %v, want an hour", got)
	}
	if got := b.wait(now, &job{out: message.Outbound{Broadcast: "c"}}, 4); got != 0 || len(b.due) != 0 {
		t.Errorf("wait without a rate = %v, %d known, want 0 and none", got, len(b.due))
	}
}
