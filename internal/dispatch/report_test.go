package dispatch

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/orders"
)

// TestReports checks what core is told of a page: nothing of one that sends little, so that
// there is no event for each message; what waits for long, of a page that sends nothing, too;
// that nothing waits for long on a busy page, once a second; and limits of its own.
func TestReports(t *testing.T) {
	t.Parallel()
	usual := message.Limits{Text: 300, Media: 10}
	calm := func(e message.Event) bool { return e.Waiting == 0 && e.Wait < 0.5 && e.Pace > 0 }
	for _, row := range []struct {
		name        string
		play        func(r *rig, own func(message.Limits)) // within 20 s
		least, most int
		right       func(message.Event) bool
	}{
		{"two texts a second", func(r *rig, _ func(message.Limits)) {
			every(500*time.Millisecond, 20*time.Second, func(i int) { r.text("p", fmt.Sprint(i)) })
		}, 0, 0, nil},
		{"half of the limit for ten seconds", func(r *rig, _ func(message.Limits)) {
			every(5*time.Millisecond, 10*time.Second, func(i int) { r.text("p", fmt.Sprint(i)) })
		}, 8, 11, func(e message.Event) bool { return calm(e) && e.Pace == 300 }},
		{"joined texts above the limit", func(r *rig, _ func(message.Limits)) {
			every(100*time.Millisecond, 10*time.Second, func(int) { r.text("p", guests("u", 50)...) })
		}, 8, 25, func(e message.Event) bool { return e.Pace > 400 }},
		{"a burst of two seconds", func(r *rig, _ func(message.Limits)) {
			r.text("p", guests("u", 600)...)
		}, 3, 4, func(e message.Event) bool { return e.Pace > 290 && e.Limits == usual }},
		{"a pause by order", func(r *rig, _ func(message.Limits)) {
			r.give(orders.Pause, "p", nil)
			r.text("p", guests("u", 160)...)
			r.sleep(10 * time.Second)
		}, 14, 16, func(e message.Event) bool { return e.Waiting == 0 && e.Rate == 0 && math.Round(e.Wait*e.Pace) == 160 }},
		{"one person who is slow", func(r *rig, _ func(message.Limits)) {
			r.with(func() {
				r.latency = func(o message.Outbound) time.Duration {
					if o.To == "slow" {
						return 9 * time.Second
					}
					return 40 * time.Millisecond
				}
			})
			every(time.Second, 20*time.Second, func(int) {
				r.text("p", guests("u", 50)...)
				r.text("p", "slow", "slow", "slow", "slow", "slow", "slow", "slow", "slow", "slow", "slow")
			})
		}, 0, 40, func(e message.Event) bool { return e.Wait == 0 && e.Pace >= 300 }},
		{"limits of its own", func(r *rig, own func(message.Limits)) {
			own(message.Limits{Text: 30})
			r.text("p", "a")
			r.sleep(time.Second)
			r.text("p", "b")
			r.sleep(time.Second)
		}, 1, 1, func(e message.Event) bool { return calm(e) && e.Limits == message.Limits{Text: 30} }},
		{"limits of its own that change and end", func(r *rig, own func(message.Limits)) {
			for _, n := range []float64{30, 40, 300} {
				own(message.Limits{Text: n, Media: 10})
				r.text("p", "a")
				r.sleep(time.Second)
			}
		}, 3, 3, calm},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var own atomic.Pointer[message.Limits]
			own.Store(&usual)
			inBubble(t, 2, func(c *Config) {
				c.Limits = func(page string) message.Limits {
					if page == "p" {
						return *own.Load()
					}
					return usual
				}
			}, func(t *testing.T, r *rig) {
				r.text("other", "a")
				row.play(r, func(l message.Limits) { own.Store(&l) })
				r.sleep(5 * time.Second)
				told := r.toldAll()
				if n := len(told); n < row.least || n > row.most {
					t.Errorf("core is told %d times, want %d to %d: %+v", n, row.least, row.most, told)
				}
				for _, e := range told {
					if e.Page != "p" || e.Reason != message.FeedbackWaiting || !row.right(e) {
						t.Errorf("core is told %+v", e)
					}
				}
			})
		})
	}
}

// TestReportsOfOwnLimits: a page with limits of its own tells them again now and then while it
// has traffic, for a core that has started since.
func TestReportsOfOwnLimits(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) {
		c.Limits = func(page string) message.Limits {
			if page == "p" {
				return message.Limits{Text: 30, Media: 10}
			}
			return message.Limits{Text: 300, Media: 10}
		}
	}, func(t *testing.T, r *rig) {
		every(10*time.Second, 21*time.Minute, func(int) { r.text("p", "a"); r.text("q", "a") })
		told := r.toldAll()
		if len(told) != 5 {
			t.Errorf("core is told %d times in 21 minutes, want at first and each five minutes", len(told))
		}
		for _, e := range told {
			if e.Page != "p" || e.Limits.Text != 30 {
				t.Errorf("core is told %+v, want the limits of p", e)
			}
		}
	})
}
