package dispatch

import (
	"cmp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/sender"
)

// broadcast publishes a broadcast's messages.
func (r *rig) broadcast(page string, deadline time.Duration, to ...string) []string {
	r.t.Helper()
	var list []message.Outbound
	for _, p := range to {
		o := r.copyOf(page, message.ClassText, p)
		o.Broadcast, o.Joins, o.Deadline = "b", false, time.Now().Add(deadline).UnixMilli()
		list = append(list, o)
	}
	return r.publish(list...)
}

// Broadcasts go when nothing else of their page does; conversations do not wait
// for them, and core is told while the page is busy.
func TestBroadcastWaitsForConversations(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		go every(time.Second/400, 10*time.Second, func(i int) { r.text("page0", "u"+string(rune('a'+i%26))+string(rune('a'+i/26%26))) })
		r.sleep(3 * time.Second) // more than its limit: it is behind
		ids := r.broadcast("page0", time.Hour, guests("b", 100)...)
		r.sleep(2 * time.Second)
		r.with(func() {
			for _, id := range ids {
				if r.accepted[id] > 0 {
					t.Fatalf("%s was sent while conversations wait", id)
				}
			}
		})
		told := r.told()
		if len(told) == 0 || len(told) > 3 {
			t.Fatalf("core was told %d times in 2 s, want once a second at most", len(told))
		}
		for _, e := range told {
			if e.Reason != message.FeedbackBusy || e.Page != "page0" || e.Until != e.Time+3000 {
				t.Errorf("told %+v, want busy for 3 s", e)
			}
		}
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// A broadcast alone is sent at its page's limit.
func TestBroadcastAlone(t *testing.T) {
	t.Parallel()
	for _, calls := range []int{2, 64} {
		inBubble(t, 1, func(c *Config) { c.MaxInFlight, c.Prefetch = calls, 64 }, func(t *testing.T, r *rig) {
			r.broadcast("page0", time.Hour, guests("b", 100)...)
			r.sleep(3 * time.Minute)
			r.checkSentOnce()
		})
	}
}

// Broadcasts that are queued all at once are sent at two thirds of their page's limit at
// least. A neighbour's message behind them leaves within a second.
func TestBroadcastsQueuedAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		messages, limit int
		most            time.Duration
	}{{1000, 300, 5 * time.Second}, {1000, 50, 25 * time.Second}, {10_000, 300, 50 * time.Second}} {
		inBubble(t, 1, func(d *Config) {
			d.Limits = func(string) message.Limits { return message.Limits{Text: float64(c.limit), Media: 10} }
		}, func(t *testing.T, r *rig) {
			r.latency = func(message.Outbound) time.Duration { return 700 * time.Millisecond }
			r.limits = func(string, message.Class) int { return c.limit }
			r.sleep(10 * time.Second)
			pages := r.peers(2)
			ids := r.broadcast(pages[0], time.Hour, guests("b", c.messages)...)
			begin := time.Now()
			behind := r.text(pages[1], "ann")
			r.sleep(5 * time.Minute)
			r.checkSentOnce()
			var last time.Time
			r.with(func() {
				for _, id := range ids {
					if r.times[id].After(last) {
						last = r.times[id]
					}
				}
				if took := r.times[behind[0]].Sub(begin); took > time.Second {
					t.Errorf("the neighbour's message behind %d broadcasts was sent after %v, want 1 s at most", c.messages, took)
				}
			})
			if took := last.Sub(begin); took > c.most {
				t.Errorf("the last of %d broadcasts at %d a second was sent after %v, want %v at most", c.messages, c.limit, took, c.most)
			}
		})
	}
}

// Where others hold half of a partition, few broadcasts go round by the shortest retry queue:
// each time costs the broker as much as a call.
func TestBroadcastsOfACrowdedPartition(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 64 }, func(t *testing.T, r *rig) {
		r.latency = func(message.Outbound) time.Duration { return 9 * time.Second }
		pages := r.peers(42)
		for _, page := range pages[:40] {
			r.text(page, "ann")
		}
		r.sleep(time.Second)
		r.broadcast(pages[40], time.Hour, guests("b", 500)...)
		r.broadcast(pages[41], time.Hour, guests("c", 500)...)
		r.sleep(5 * time.Second)
		sent := float64(len(r.calls) - 40)
		if moved := testutil.ToFloat64(r.only().metrics.delayed); moved+sent < 1000 || moved > 1000+6*32 || sent > 18 {
			t.Errorf("1,000 broadcasts went round %v times in 5 s, want once, and 32 a second again; %v were sent, want three quarters of the 24 that have room at most", moved, sent)
		}
	})
}

// The broadcasts of a page that has nothing else to send do not wait for a neighbour's, of
// which more were queued than it can send for minutes.
func TestBroadcastsBesideOthers(t *testing.T) {
	t.Parallel()
	limits := map[string]float64{"page0": 50}
	inBubble(t, 1, func(c *Config) {
		c.Limits = func(page string) message.Limits { return message.Limits{Text: cmp.Or(limits[page], 300), Media: 10} }
	}, func(t *testing.T, r *rig) {
		r.latency = func(message.Outbound) time.Duration { return 700 * time.Millisecond }
		r.limits = func(page string, _ message.Class) int { return int(cmp.Or(limits[page], 300)) }
		other := r.peers(2)[1]
		r.broadcast("page0", time.Hour, guests("b", 10_000)...)
		r.sleep(10 * time.Second)
		ids := r.broadcast(other, time.Hour, guests("c", 300)...)
		r.sleep(5 * time.Second)
		late := 0
		for _, id := range ids {
			if r.accepted[id] == 0 {
				late++
			}
		}
		if late > 0 {
			t.Errorf("%d of %d are not sent after 5 s", late, len(ids))
		}
	})
}

// Broadcasts of a page that takes nothing are not held for long, so that others have room.
func TestBroadcastsOfAPausedPage(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.give(orders.Pause, "page0", nil)
		r.broadcast("page0", time.Hour, guests("b", 500)...)
		r.sleep(time.Second)
		if held := r.only().held(); held > 1 {
			t.Errorf("%d are held after a second, want the one that would be next", held)
		}
	})
}

// What cannot be sent before its deadline is dead.
func TestBroadcastDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(sick("page0/x"))
		r.only().inspect(func(e *engine) {
			e.gate.Enter(time.Now(), (&held{out: r.copyOf("page0", message.ClassText, "")}).key())
		})
		ids := r.broadcast("page0", 15*time.Second, guests("b", 10)...)
		r.sleep(30 * time.Second)
		dead := r.dead()
		for _, id := range ids {
			if r.accepted[id] != 0 || dead[id].Reason != message.ReasonExpired {
				t.Errorf("%s was accepted %d times, dead for %q, want expired", id, r.accepted[id], dead[id].Reason)
			}
		}
	})
}

// A line whose last broadcast went round by a retry queue is forgotten.
func TestLineOfExpiredBroadcasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.l.aside = b.l.remove(func(*held) bool { return true })
		b.m.out.Broadcast, b.m.since = "b", b.now.Add(-retryLong)
		b.pages.expireAside(b.l)
		if b.advance(); b.s.moving != 1 || len(b.pages.lines) != 0 {
			t.Errorf("%d messages moving and %d lines, want 1 and none", b.s.moving, len(b.pages.lines))
		}
	})
}

// While one of a page's quotas, or the app's, is nearly used up, a page's broadcasts leave the
// rest to its conversations, and core is told; they go on once the quota has room.
func TestBroadcastsLeaveAQuota(t *testing.T) {
	t.Parallel()
	t.Run("the page's", func(t *testing.T) {
		t.Parallel()
		broadcastsLeave(t, func(usage int) sender.Result { return sender.Result{Outcome: sender.Sent, Usage: usage, AppUsage: 20} })
	})
	t.Run("the app's", func(t *testing.T) {
		t.Parallel()
		broadcastsLeave(t, func(usage int) sender.Result { return sender.Result{Outcome: sender.Sent, AppUsage: usage} })
	})
}

// broadcastsLeave has answers tell of a quota.
func broadcastsLeave(t *testing.T, answer func(usage int) sender.Result) {
	t.Helper()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		usage := 95
		r.script(func(message.Outbound, int) sender.Result { return answer(usage) })
		r.text("page0", "ann")
		r.sleep(time.Second)
		ids := r.broadcast("page0", time.Hour, guests("b", 100)...)
		for range 50 {
			r.text("page0", "ann")
			r.sleep(time.Second)
		}
		for _, id := range ids {
			if r.accepted[id] > 0 {
				t.Fatalf("%s was sent at 95 %% of the quota", id)
			}
		}
		if told := r.told(); len(told) == 0 || told[0].Reason != message.FeedbackBusy {
			t.Errorf("core was told %+v, want that the page is busy", told)
		}
		r.with(func() { usage = 40 })
		r.text("page0", "ann")
		r.sleep(30 * time.Second)
		for _, p := range r.published {
			if r.accepted[p] != 1 {
				t.Fatalf("%s was accepted %d times, want once", p, r.accepted[p])
			}
		}
	})
}
