package dispatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// waitsOfThose returns the longest wait of the messages that match, and how many there are and were not sent.
func (r *rig) waitsOfThose(match func(id string) bool) (most time.Duration, n, missing int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, born := range r.born {
		if !match(id) {
			continue
		}
		n++
		if at, ok := r.times[id]; ok {
			most = max(most, at.Sub(born))
		} else {
			missing++
		}
	}
	return most, n, missing
}

// A page, or the API, is broken for a while and then well: nothing is dead.
func TestNothingDiesOfAnOutage(t *testing.T) {
	t.Parallel()
	for _, pages := range []int{1, 3} {
		for _, length := range []time.Duration{3 * time.Second, 10 * time.Second, 40 * time.Second, 90 * time.Second} {
			for _, people := range []int{5, 10, 30} {
				if testing.Short() && (people == 10 || length == 90*time.Second) {
					continue
				}
				t.Run(fmt.Sprint(pages, " pages ", length, ", room of ", people), func(t *testing.T) {
					inBubble(t, 1, nil, func(t *testing.T, r *rig) {
						rnd := rand.New(rand.NewPCG(1, 2))
						normal := longTailed(rnd, 700*time.Millisecond, 1900*time.Millisecond)
						start := time.Now()
						bad := func() bool { d := time.Since(start); return d > 20*time.Second && d < 20*time.Second+length }
						r.latency = func(o message.Outbound) time.Duration {
							if bad() {
								return 200 * time.Millisecond
							}
							return normal(o)
						}
						r.script(func(o message.Outbound, _ int) sender.Result {
							if bad() {
								return sender.Result{Outcome: sender.Transient, Status: 500, Code: 2, Err: errors.New("scripted")}
							}
							return sender.Result{}
						})
						room := guests("u", people)
						every(2*time.Second, 20*time.Second+length+60*time.Second, func(i int) {
							for p := range pages {
								w := (i*7 + p) % people
								var to []string
								for k, u := range room {
									if k != w {
										to = append(to, u)
									}
								}
								r.event(fmt.Sprint("page", p), fmt.Sprint("m", i), message.ClassText, to...)
							}
						})
						r.sleep(5 * time.Minute)
						reasons := map[message.Reason]int{}
						for _, d := range r.dead() {
							reasons[d.Reason]++
						}
						if len(reasons) > 0 {
							t.Errorf("dead %v of %d", reasons, len(r.published))
						}
						r.inversions = nil
					})
				})
			}
		}
	}
}

// Voice fails, texts do not.
func TestMediaAloneFail(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		rnd := rand.New(rand.NewPCG(1, 2))
		r.latency = longTailed(rnd, 700*time.Millisecond, 1900*time.Millisecond)
		r.script(func(o message.Outbound, _ int) sender.Result {
			if o.Class == message.ClassMedia {
				return fail(sender.Transient)
			}
			return sender.Result{}
		})
		room := guests("v", 8)
		go every(7*time.Second, 10*time.Minute, func(i int) { r.event("page0", fmt.Sprint("v", i), message.ClassMedia, room[:7]...) })
		r.sleep(20 * time.Second)
		every(45*time.Second, 10*time.Minute, func(i int) { r.event("page0", fmt.Sprint("t", i), message.ClassText, room[:7]...) })
		r.sleep(time.Minute)
		most, n, missing := r.waitsOfThose(func(id string) bool { return strings.Contains(id, "/t") })
		if most > 4*time.Second || missing > 0 {
			t.Errorf("texts: %d, longest wait %v, %d missing", n, most, missing)
		}
		r.inversions = nil
	})
}

// Two events are blocked, of two people of a room; the others go on.
func TestTwoBlockedEvents(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		rnd := rand.New(rand.NewPCG(1, 2))
		r.latency = longTailed(rnd, 700*time.Millisecond, 1900*time.Millisecond)
		r.script(func(o message.Outbound, _ int) sender.Result {
			if strings.Contains(o.ID, "/spam") {
				return sender.Result{Outcome: sender.PageStoppedForATime, Status: 400, Code: 368, Err: errors.New("scripted")}
			}
			return sender.Result{}
		})
		room := guests("k", 12)
		but := func(w int) (to []string) {
			for k, u := range room {
				if k != w {
					to = append(to, u)
				}
			}
			return to
		}
		r.event("page0", "w0", message.ClassText, but(0)...)
		r.sleep(10 * time.Second)
		r.event("page0", "spam1", message.ClassText, but(10)...)
		r.sleep(15 * time.Second)
		r.event("page0", "spam2", message.ClassText, but(11)...)
		r.sleep(30 * time.Second)
		every(time.Minute, 7*time.Minute, func(i int) { r.event("page0", fmt.Sprint("x", i), message.ClassText, but(i)...) })
		r.sleep(10 * time.Minute)
		most, n, missing := r.waitsOfThose(func(id string) bool { return strings.Contains(id, "/x") })
		reasons := map[string]int{}
		for id, d := range r.dead() {
			reasons[string(d.Reason)+" "+id[:9]]++
		}
		if most > 8*time.Second || missing > 0 { // the first waits for what its people have before
			t.Errorf("the others: %d, longest wait %v, %d missing; dead %v", n, most, missing, reasons)
		}
		r.inversions = nil
	})
}

// Four copies of a voice event fail, then the class is at its limit for a while.
func TestVoiceHiccup(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		rnd := rand.New(rand.NewPCG(1, 2))
		normal := longTailed(rnd, 700*time.Millisecond, 1900*time.Millisecond)
		n, first := 0, time.Time{}
		r.latency = func(o message.Outbound) time.Duration {
			if o.Class == message.ClassMedia && (n < 4 || time.Since(first) < 12*time.Second) {
				return 50 * time.Millisecond
			}
			return normal(o)
		}
		r.script(func(o message.Outbound, _ int) sender.Result {
			if o.Class != message.ClassMedia {
				return sender.Result{}
			}
			if n++; n == 1 {
				first = time.Now()
			}
			switch {
			case n <= 4:
				return fail(sender.Transient)
			case time.Since(first) < 12*time.Second:
				return fail(sender.PageThrottled)
			}
			return sender.Result{}
		})
		room := guests("j", 20)
		go every(2*time.Second, time.Minute, func(i int) { r.event("page0", fmt.Sprint("t", i), message.ClassText, room...) })
		r.sleep(20 * time.Second)
		r.event("page0", "v", message.ClassMedia, room...)
		r.sleep(5 * time.Minute)
		_, all, missing := r.waitsOfThose(func(id string) bool { return strings.Contains(id, "/v/") })
		reasons := map[message.Reason]int{}
		for _, d := range r.dead() {
			reasons[d.Reason]++
		}
		if missing > 0 {
			t.Errorf("voice: %d of %d missing, dead %v", missing, all, reasons)
		}
		r.inversions = nil
	})
}
