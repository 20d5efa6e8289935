package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/aimd"
	"chatclub/internal/message"
)

// TestSpikeOfBroadcasts: an API becomes slow with its load, as a store does, and its latency
// is held at a target. 150 messages a second of conversations stay quick, at the target,
// while 8,000 a second of broadcasts land for some seconds: these take what is left, and all
// arrive in the end.
func TestSpikeOfBroadcasts(t *testing.T) {
	t.Parallel()
	const target = 200 * time.Millisecond
	spike := 5 * time.Second
	if testing.Short() {
		spike = time.Second
	}
	inBubble(t, 1, func(c *Config) { c.Latency = aimd.Config{Target: target, Backoff: 0.5} }, func(t *testing.T, r *rig) {
		var lately []time.Time // calls of the last second
		r.latency = func(message.Outbound) time.Duration {
			now := time.Now()
			lately = append(lately, now)
			for now.Sub(lately[0]) > time.Second {
				lately = lately[1:]
			}
			return time.Duration(40+0.533*float64(len(lately))) * time.Millisecond // 200 ms at 300 calls a second
		}
		begin := time.Now()
		n := 0
		pages := r.peers(10)
		converse := func(d time.Duration) (ids []string) {
			every(20*time.Millisecond, d, func(int) {
				for range 3 {
					n++
					ids = append(ids, r.text(pages[n%10], fmt.Sprint("u", n%500))...)
				}
				if since := time.Since(begin); since > 20*time.Second && since <= 20*time.Second+spike {
					for range 160 {
						n++
						o := r.copyOf(fmt.Sprint("mailing", n%30), message.ClassText, fmt.Sprint("b", n))
						o.Broadcast = "b"
						r.publish(o)
					}
				}
			})
			return ids
		}
		// measure is the 95th percentile from when a message was written to the answer.
		measure := func(ids []string) time.Duration {
			took := make(map[string]time.Duration)
			r.with(func() {
				for _, c := range r.calls {
					took[c.out.ID] = c.at.Add(c.result.Latency).Sub(r.born[c.out.ID])
				}
			})
			var list []time.Duration
			for _, id := range ids {
				list = append(list, took[id])
			}
			slices.Sort(list)
			return quantile(list, 0.95)
		}
		before := converse(20 * time.Second)
		during := converse(60 * time.Second)
		r.sleep(10 * time.Minute)
		if was, is := measure(before), measure(during); was > target || is > target*11/10 {
			t.Errorf("95 %% of conversations' messages took %v before and %v during the spike, want at most %v", was, is, target*11/10)
		}
		r.checkSentOnce()
		var last time.Time
		r.with(func() {
			for id, at := range r.times {
				if strings.HasPrefix(id, "mailing") && at.After(last) {
					last = at
				}
			}
		})
		// Some 300 calls a second are quick enough, of which conversations have 150 for a minute.
		if took := last.Sub(begin); took > 9*time.Minute {
			t.Errorf("the last broadcast arrived after %v, want within 9 minutes", took)
		}
	})
}
