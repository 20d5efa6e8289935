package dispatch

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// Without faults every message is accepted once, and none overtakes another to
// the same recipient, class and priority: whatever the latency, and while replicas come
// and go.
func TestOrder(t *testing.T) {
	t.Parallel()
	length := time.Minute
	if testing.Short() {
		length = 15 * time.Second
	}
	for _, row := range []struct {
		name     string
		replicas int
		churn    bool
		change   func(*Config)
	}{
		{"one replica", 1, false, nil},
		{"four replicas", 4, false, nil},
		{"replicas that come and go", 3, true, nil},
		{"small ones that come and go", 3, true, func(c *Config) { c.Prefetch, c.MaxInFlight = 64, 32 }},
		{"nothing is joined", 2, true, func(c *Config) { c.JoinTexts = 1 }},
	} {
		for seed := range seeds(3) {
			t.Run(fmt.Sprintf("%s, seed %d", row.name, seed), func(t *testing.T) {
				t.Parallel()
				inBubble(t, row.replicas, row.change, func(t *testing.T, r *rig) {
					rnd := rand.New(rand.NewPCG(uint64(seed), 1))
					r.latency = longTailed(rand.New(rand.NewPCG(uint64(seed), 2)), 200*time.Millisecond, 800*time.Millisecond)
					r.limits = func(_ string, c message.Class) int { return int(message.Limits{Text: 300, Media: 10}.Of(string(c))) }
					for i := range 4 { // rooms of 5 to 50, the last one above its limit at times
						room := guests("u", []int{5, 20, 40, 50}[i])
						page := fmt.Sprint("page", i)
						pauses := rand.New(rand.NewPCG(uint64(seed), uint64(10+i)))
						go func() {
							for end := time.Now().Add(length); time.Now().Before(end); {
								r.text(page, room...)
								if pauses.IntN(20) == 0 {
									r.media(page, room[:3]...)
								}
								if pauses.IntN(10) == 0 {
									r.answerTo(page, room[:3]...)
								}
								time.Sleep(time.Duration(pauses.ExpFloat64() * 250 * float64(time.Millisecond)))
							}
						}()
					}
					for end := time.Now().Add(length); time.Now().Before(end); {
						r.sleep(time.Duration(1+rnd.IntN(6)) * time.Second)
						if !row.churn {
							continue
						}
						var live []*replica
						for _, p := range r.replicas {
							if !p.ended {
								live = append(live, p)
							}
						}
						if len(live) > 1 && rnd.IntN(2) == 0 {
							r.stop(live[rnd.IntN(len(live))])
						} else if len(live) < 4 {
							r.start(1, row.change)
						}
					}
					r.sleep(3 * time.Minute)
					r.checkSentOnce()
				})
			})
		}
	}
}

// seeds returns the number of runs of a test with chance in it: n, or 1 with -short.
func seeds(n int) int {
	if testing.Short() {
		return 1
	}
	return n
}

// No more calls are in flight than may be, and one per recipient and class.
func TestInFlightIsBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.MaxInFlight = 5 }, func(t *testing.T, r *rig) {
		r.latency = func(message.Outbound) time.Duration { return time.Second }
		began := time.Now()
		for p := range 5 {
			r.text(fmt.Sprint("page", p), guests("u", 10)...)
		}
		r.sleep(11 * time.Second)
		if r.most != 5 {
			t.Errorf("most calls in flight = %d, want 5", r.most)
		}
		// The pages share the calls: neither waits for the other's end.
		for _, page := range []string{"page0", "page1"} {
			if w := r.waits(page); w[0] > 3*time.Second {
				t.Errorf("%s: the first one waited %v from %v", page, w[0], began)
			}
		}
		r.checkSentOnce()
	})
}

// Where there are too few calls for all, pages in excess share what the others
// leave, in equal parts, and no page waits for one in excess: neither a quiet one
// nor one that has more calls under way than each of those.
func TestCallsAreSharedOut(t *testing.T) {
	t.Parallel()
	const calls = 100
	inBubble(t, 1, func(c *Config) { c.MaxInFlight, c.Prefetch = calls, 256 }, func(t *testing.T, r *rig) {
		r.latency = func(message.Outbound) time.Duration { return time.Second } // a page at its limit wants 300 calls
		saturated := []string{"page0", "page1"}
		for _, page := range saturated {
			r.text(page, guests("u", 2000)...)
		}
		r.sleep(5 * time.Second)
		inFlight := func(page string) (n int) {
			r.only().inspect(func(e *engine) {
				n = e.pages.line(excess.Key{Page: page, Class: string(message.ClassText)}).inFlight
			})
			return n
		}
		share := func(least, most int) {
			t.Helper()
			for _, page := range saturated {
				if n := inFlight(page); n < least || n > most {
					t.Errorf("%s has %d of %d calls, want %d to %d", page, n, calls, least, most)
				}
			}
		}
		share(36, 42)
		var later []string // than the time in which the calls are shared out again
		go every(25*time.Millisecond, 10*time.Second, func(i int) {
			ids := r.text("lively", fmt.Sprint("u", i)) // which has 40 calls
			if i%40 == 0 {
				ids = append(ids, r.text("quiet", fmt.Sprint("u", i))...)
			}
			if i > 200 {
				later = append(later, ids...)
			}
		})
		r.sleep(9 * time.Second)
		share(20, 26)
		r.sleep(2 * time.Minute)
		for _, id := range later {
			if w := r.times[id].Sub(r.born[id]); w > 510*time.Millisecond { // half of the latency, until the platform takes it
				t.Errorf("%s was accepted after %v, want no wait for pages in excess", id, w)
			}
		}
		if r.most > calls {
			t.Errorf("most calls in flight = %d, want at most %d", r.most, calls)
		}
		r.checkSentOnce()
	})
}

// A page that is not in excess may have nearly all calls, and leaves a part of
// them when its calls hang.
func TestOnePageLeavesCalls(t *testing.T) {
	t.Parallel()
	for calls, want := range map[int]int{2: 1, 10: 8, 90: 80} {
		inBubble(t, 1, func(c *Config) { c.MaxInFlight = calls }, func(t *testing.T, r *rig) {
			r.latency = func(message.Outbound) time.Duration { return 2 * time.Second }
			r.text("page0", guests("u", 200)...)
			r.sleep(time.Second)
			r.with(func() {
				if r.most != want {
					t.Errorf("calls of one page = %d of %d, want %d", r.most, calls, want)
				}
			})
			r.sleep(10 * time.Minute)
		})
	}
}

// A refused message, and one that is tried again, keep their place.
func TestRetriesKeepOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		seen := map[string]bool{}
		r.script(func(o message.Outbound, _ int) sender.Result {
			n := number(o.ID)
			if seen[o.ID] || n%3 == 0 {
				return sender.Result{}
			}
			seen[o.ID] = true
			return fail(retried[n%len(retried)])
		})
		every(100*time.Millisecond, 10*time.Second, func(int) { r.text("page0", "ann", "bob") })
		r.sleep(5 * time.Minute)
		r.checkSentOnce()
	})
}

// retried are outcomes after which a message is sent again.
var retried = []sender.Outcome{sender.PageThrottled, sender.RecipientThrottled, sender.Transient, sender.AppThrottled}

// A lane holds more than its owner takes, and everybody's call is open: the
// marker does not come in time. What waited for it goes behind what is in the
// lane.
func TestMarkerThatComesLate(t *testing.T) {
	t.Parallel()
	small := func(c *Config) { c.Prefetch, c.LanePrefetch, c.Random = 64, MinLanePrefetch, half }
	inBubble(t, 1, small, func(t *testing.T, r *rig) {
		r.with(func() { r.latency = func(message.Outbound) time.Duration { return 2700 * time.Millisecond } })
		people := guests("u", 20)
		r.sleep(100 * time.Millisecond)
		for range 2 * MinLanePrefetch / len(people) {
			r.text("page0", people...)
		}
		r.sleep(1500 * time.Millisecond) // the marker was sent 500 ms after a tick
		r.text("page0", people...)
		r.sleep(10 * time.Minute)
		r.checkSentOnce()
	})
}
