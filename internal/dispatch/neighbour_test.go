package dispatch

import (
	"fmt"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// neighbour has a page written to whose neighbour is sick, and wants all of that to arrive
// within 3 s.
func (r *rig) neighbour(t *testing.T, page string, n int) {
	t.Helper()
	before := len(r.waits(page))
	every(time.Second, time.Duration(n)*time.Second, func(int) { r.text(page, "bob") })
	r.sleep(time.Second)
	if w := r.waits(page); len(w)-before != n || quantile(w, 1) > 3*time.Second {
		t.Errorf("%d of %d messages of the other page arrived, after %v at most, want all within 3 s", len(w)-before, n, quantile(w, 1))
	}
}

// Broadcasts to people who wait for a call of their own leave the partition to others.
func TestBroadcastsToBusyPeople(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{700 * time.Millisecond, 1900 * time.Millisecond} {
		for _, who := range []int{1, 300} {
			t.Run(fmt.Sprint(latency, who), func(t *testing.T) {
				t.Parallel()
				inBubble(t, 1, nil, func(t *testing.T, r *rig) {
					pages := r.peers(2)
					r.know(pages[0])
					r.latency = func(o message.Outbound) time.Duration {
						if o.Page == pages[0] {
							return latency
						}
						return 40 * time.Millisecond
					}
					for range 6000 / who {
						r.broadcast(pages[0], time.Hour, guests("b", who)...)
					}
					r.neighbour(t, pages[1], 10)
				})
			})
		}
	}
}

// What was tried of a page that is paused meanwhile comes back, and is not in the way of
// others. All of it arrives once the page goes on; of what does not fit into the partition
// then, the order is lost.
func TestTriedOfAPausedPage(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 512 }, func(t *testing.T, r *rig) {
		pages := r.peers(2)
		r.know(pages[0])
		r.fails(pages[0], sender.RecipientThrottled)
		r.text(pages[0], guests("g", 1500)...)
		r.sleep(25 * time.Second)
		r.give(orders.Pause, pages[0], nil)
		r.sleep(70 * time.Second)
		r.text(pages[0], guests("g", 1500)...)
		r.neighbour(t, pages[1], 20)
		r.script(nil)
		r.give(orders.Resume, pages[0], nil)
		r.sleep(5 * time.Minute)
		r.inversions = nil // the price
		r.checkSentOnce()
	})
}

// All that a page has in calls is refused: what was tried is not in the way of others, and
// is in order once the page takes calls.
func TestInCallsWhenShut(t *testing.T) {
	t.Parallel()
	for _, o := range []sender.Outcome{sender.PageThrottled, sender.PageStopped} {
		for _, prefetch := range []int{64, 512} {
			t.Run(fmt.Sprint(o, prefetch), func(t *testing.T) {
				t.Parallel()
				inBubble(t, 1, func(c *Config) { c.Prefetch = prefetch }, func(t *testing.T, r *rig) {
					pages := r.peers(2)
					r.know(pages[0])
					r.latency = func(m message.Outbound) time.Duration {
						if m.Page == pages[0] {
							return 2 * time.Second
						}
						return 40 * time.Millisecond
					}
					r.fails(pages[0], o)
					every(10*time.Millisecond, 3*time.Second, func(i int) { r.text(pages[0], fmt.Sprintf("x%da", i), fmt.Sprintf("x%db", i)) })
					r.sleep(5 * time.Second)
					r.neighbour(t, pages[1], 20)
					r.script(nil)
					r.sleep(5 * time.Minute)
					r.checkSentOnce()
				})
			})
		}
	}
}

// Dead letters of which core is told do not wait for its queue while that takes none.
func TestDeadLettersWhileCoreTakesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch = 512 }, func(t *testing.T, r *rig) {
		pages := r.peers(2)
		r.know(pages[0])
		r.fails(pages[0], sender.WindowClosed)
		r.only().link.with(func(l *link) {
			l.refuse = func(op, q string) error {
				if r.top.IsInbound(q) {
					return queue.ErrRefused
				}
				return nil
			}
		})
		every(10*time.Millisecond, 10*time.Second, func(i int) { r.text(pages[0], fmt.Sprintf("y%d", i)) })
		r.sleep(10 * time.Second)
		r.neighbour(t, pages[1], 20)
	})
}

// A broadcast that went round, and of which core could only be told later, is counted as
// that: the engine goes on.
func TestBroadcastGoesRoundWhileCoreTakesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.know("page0")
		r.limits = nil
		sick := true
		r.only().link.with(func(l *link) {
			l.refuse = func(_, q string) (err error) {
				r.with(func() {
					if sick && r.top.IsInbound(q) {
						err = queue.ErrRefused
					}
				})
				return err
			}
		})
		r.text("page0", guests("g", 1500)...)
		r.broadcast("page0", time.Hour, guests("b", 10)...)
		r.sleep(2 * time.Second)
		r.with(func() { sick = false })
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}
