package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// TestForecast: nine of ten messages arrive when it was said just before they were written,
// at Messenger's latency: while a page's backlog grows and shrinks, while its limit is cut
// by half and restored, and after its owner was killed.
func TestForecast(t *testing.T) {
	t.Parallel()
	const length, runs = 5 * time.Minute, 8 // runs, because one of five minutes is decided by chance
	for _, row := range []struct {
		name   string
		rate   func(at time.Duration) float64 // events a second, of 20 copies each; 3 are the limit
		change func(r *rig, second int)
	}{
		{"saturated", func(at time.Duration) float64 {
			if at < length/2 {
				return 3.6
			}
			return 2
		}, nil},
		{"limit", func(time.Duration) float64 { return 2 }, func(r *rig, second int) {
			n := 60
			if second >= 60 && second < 120 {
				n = 30
			}
			r.with(func() { r.limits = func(string, message.Class) int { return n } })
		}},
		{"killed", func(time.Duration) float64 { return 3.1 }, func(r *rig, second int) {
			if second == 120 {
				p := r.replicas[r.owner("page0")]
				p.link.die()
				p.ended = true
				p.cancel()
				<-p.done
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && row.name != "limit" {
				t.Skip("long: make test-long; the other two rows play an hour and a half")
			}
			var within, early, late, none int
			for seed := range uint64(runs) {
				inBubble(t, 2, func(c *Config) {
					c.JoinTexts, c.MaxInFlight = 1, 4096
					c.Limits = func(string) message.Limits { return message.Limits{Text: 60, Media: 10} }
				}, func(_ *testing.T, r *rig) {
					random := rand.New(rand.NewPCG(seed, 4))
					r.latency = longTailed(random, 650*time.Millisecond, 1500*time.Millisecond)
					said := make(map[string]Arrival) // by id
					due := 0.0
					for at := time.Duration(0); at < length; at += 100 * time.Millisecond {
						if row.change != nil && at%time.Second == 0 {
							row.change(r, int(at/time.Second))
						}
						for due += row.rate(at) / 10 * 2 * random.Float64(); due >= 1; due-- {
							var a *Arrival
							if who := r.owner("page0"); who >= 0 {
								s, _ := r.replicas[who].status(context.Background())
								for _, p := range s.Pages {
									a = p.Arrival
								}
							}
							ids := r.text("page0", guests(fmt.Sprint("room", random.IntN(20)), 20)...)
							if a == nil {
								none++
								continue
							}
							for _, id := range ids {
								said[id] = *a
							}
						}
						r.sleep(100 * time.Millisecond)
					}
					r.sleep(2 * time.Minute)
					for _, c := range r.calls {
						a, ok := said[c.out.ID]
						if !ok || c.result.Outcome != sender.Sent {
							continue
						}
						switch took := c.at.Add(c.result.Latency).Sub(r.born[c.out.ID]).Seconds(); {
						case took < a.From:
							early++
						case took > a.To:
							late++
						default:
							within++
						}
					}
				})
			}
			all := within + early + late
			part := float64(within) / float64(all)
			t.Logf("%d copies: %.3f arrived when it was said, %.3f before and %.3f after; of %d events nothing was said",
				all, part, float64(early)/float64(all), float64(late)/float64(all), none)
			if all < runs*10000 || none > runs*10 || part < 0.85 || part > 0.95 {
				t.Errorf("copies that arrived when it was said = %.3f of %d, want 0.85 to 0.95", part, all)
			}
		})
	}
}
