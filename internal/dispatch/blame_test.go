package dispatch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// isTo reports whether a message is to a person of page0.
func isTo(id, who string) bool { return strings.HasPrefix(id, "page0/"+who+"#") }

// event publishes one event's copies, with the ids that core gives them.
func (r *rig) event(page, mid string, c message.Class, to ...string) (ids []string) {
	r.t.Helper()
	var list []message.Outbound
	for _, p := range to {
		o := r.copyOf(page, c, p)
		delete(r.born, o.ID)
		o.ID = message.CopyID(page, mid, p, 0)
		r.published[len(r.published)-1], r.born[o.ID] = o.ID, time.Now()
		list = append(list, o)
	}
	return r.publish(list...)
}

// A voice message that fails for everybody, with a passing error or in time, is dead
// by itself. The room's texts are sent as if nothing was, nobody is failing, and the
// next voice message arrives.
func TestMessageAtFault(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		texts  bool // are written meanwhile
		result sender.Result
		takes  time.Duration
	}{
		{"code 2", true, fail(sender.Transient), 2 * time.Second},
		{"no answer in time", true, timeout(), 10 * time.Second},
		{"code 2, voice messages alone", false, fail(sender.Transient), 2 * time.Second},
		{"no answer in time, voice messages alone", false, timeout(), 10 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, nil, func(t *testing.T, r *rig) {
				normal := longTailed(rand.New(rand.NewPCG(1, 2)), 700*time.Millisecond, 1900*time.Millisecond)
				bad := func(o message.Outbound) bool { return strings.HasPrefix(o.ID, "page0/bad/") }
				r.latency = func(o message.Outbound) time.Duration {
					if bad(o) {
						return row.takes
					}
					return normal(o)
				}
				r.script(func(o message.Outbound, _ int) sender.Result {
					if bad(o) {
						return row.result
					}
					return sender.Result{}
				})
				if row.texts {
					go every(time.Second, 10*time.Minute, func(i int) {
						r.event("page0", fmt.Sprint("text", i), message.ClassText, guests("g", 30)...)
					})
				}
				r.sleep(time.Minute)
				r.event("page0", "bad", message.ClassMedia, guests("g", 30)...)
				for i := range 5 {
					r.sleep(time.Minute)
					r.event("page0", fmt.Sprint("good", i), message.ClassMedia, guests("g", 30)...)
				}
				r.sleep(10 * time.Minute)
				for _, id := range r.published {
					if want := !strings.HasPrefix(id, "page0/bad/"); (r.accepted[id] == 1) != want {
						t.Fatalf("%s was accepted %d times", id, r.accepted[id])
					}
				}
				for id, d := range r.dead() {
					if d.Reason != message.ReasonBadMessage && d.Reason != message.ReasonExhausted || !strings.HasPrefix(id, "page0/bad/") {
						t.Errorf("%s is dead as %s", id, d.Reason)
					}
				}
				if told := r.told(); len(told) != 0 {
					t.Errorf("core was told %+v, want nothing", told)
				}
				most := 10 * time.Second // a voice message waits for the one before it, of which 10 may go in a second
				if row.texts {
					most = 8 * time.Second
				}
				if w := r.waits("page0"); quantile(w, 0.99) > most {
					t.Errorf("p99 of the waits = %v, most %v, want at most %v", quantile(w, 0.99), quantile(w, 1), most)
				}
				r.inversions = nil
			})
		})
	}
}

// Two voice messages that fail for everybody, one soon after the other, are at fault
// both; and in a room of three core is not told of the two others, who get texts.
func TestMessagesAtFault(t *testing.T) {
	t.Parallel()
	for _, people := range []int{2, 10} {
		inBubble(t, 1, nil, func(t *testing.T, r *rig) {
			r.script(func(o message.Outbound, _ int) sender.Result {
				if strings.HasPrefix(o.ID, "page0/bad") {
					return fail(sender.Transient)
				}
				return sender.Result{}
			})
			for i := range 2 {
				r.event("page0", fmt.Sprint("bad", i), message.ClassMedia, guests("g", people)...)
				r.sleep(time.Second)
			}
			for i := range 10 {
				r.sleep(30 * time.Second)
				r.event("page0", fmt.Sprint("text", i), message.ClassText, guests("g", people)...)
				if people > 3 {
					r.event("page0", fmt.Sprint("good", i), message.ClassMedia, guests("g", people)...)
				}
			}
			r.sleep(10 * time.Minute)
			if told := r.told(); len(told) != 0 {
				t.Errorf("%d people: core was told %+v, want nothing", people, told)
			}
			for _, id := range r.published {
				if want := !strings.HasPrefix(id, "page0/bad"); (r.accepted[id] == 1) != want {
					t.Fatalf("%d people: %s was accepted %d times", people, id, r.accepted[id])
				}
			}
			r.inversions = nil
		})
	}
}

// Some people for whom every message fails are the cause, though an event fails for
// all of them; the others are served.
func TestPeopleAtFault(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		sickOnes := guests("s", 4)
		r.script(func(o message.Outbound, _ int) sender.Result {
			if strings.HasPrefix(o.To, "s-") {
				return fail(sender.Transient)
			}
			return sender.Result{}
		})
		everybody := append(guests("g", 20), sickOnes...)
		every(20*time.Second, 20*time.Minute, func(i int) { r.event("page0", fmt.Sprint("text", i), message.ClassText, everybody...) })
		failing := map[string]bool{}
		for _, e := range r.told() {
			failing[e.User] = e.Reason == message.FeedbackFailing
		}
		for _, s := range sickOnes {
			if !failing[s] {
				t.Errorf("core was not told that %s is failing", s)
			}
		}
		if len(failing) != len(sickOnes) {
			t.Errorf("core was told of %v, want of the sick alone", failing)
		}
	})
}

// A person who is throttled keeps the messages, however long that lasts, and is not
// failing. The others do not wait.
func TestThrottledPerson(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.latency = longTailed(rand.New(rand.NewPCG(1, 2)), 700*time.Millisecond, 1900*time.Millisecond)
		start := time.Now()
		r.script(func(o message.Outbound, _ int) sender.Result {
			if d := time.Since(start); o.To == "g-0" && d > 5*time.Minute && d < 10*time.Minute {
				return fail(sender.RecipientThrottled)
			}
			return sender.Result{}
		})
		every(time.Second, 30*time.Minute, func(int) { r.text("page0", guests("g", 20)...) })
		r.sleep(5 * time.Minute)
		for _, id := range r.published {
			if r.accepted[id] != 1 {
				t.Fatalf("%s was accepted %d times", id, r.accepted[id])
			}
		}
		for _, id := range r.inversions {
			if !isTo(id, "g-0") {
				t.Errorf("%s was overtaken", id)
			}
		}
		r.inversions = nil
		if told := r.told(); len(told) != 0 {
			t.Errorf("core was told %+v, want nothing", told)
		}
		for id, at := range r.times {
			if w := at.Sub(r.born[id]); w > 8*time.Second && !isTo(id, "g-0") {
				t.Errorf("%s waited for %v beside the one who was throttled", id, w)
			}
		}
	})
}

// A person for whom the platform refuses each message as bad, and not for others, is
// failing after three. A message that is refused for everybody is nobody's fault.
func TestPersonIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.latency = func(o message.Outbound) time.Duration { // a refusal before the others' answers does not count yet
			if o.To == "g-0" {
				return 40 * time.Millisecond
			}
			return 20 * time.Millisecond
		}
		bad := func(o message.Outbound) bool { return o.To == "g-0" || strings.HasPrefix(o.ID, "page0/bad") }
		r.script(func(o message.Outbound, _ int) sender.Result {
			if bad(o) {
				return sender.Result{Outcome: sender.BadMessage, Status: 400, Code: 100}
			}
			return sender.Result{}
		})
		for i := range 5 {
			r.event("page0", fmt.Sprint("bad", i), message.ClassText, guests("g", 20)...)
			r.sleep(time.Minute)
		}
		if told := r.told(); len(told) != 0 {
			t.Fatalf("core was told %+v of events that fail for all, want nothing", told)
		}
		for i := range 9 {
			r.event("page0", fmt.Sprint("text", i), message.ClassText, guests("g", 20)...)
			r.sleep(20 * time.Second)
		}
		if told := r.told(); len(told) == 0 || told[0].Reason != message.FeedbackFailing || told[0].User != "g-0" {
			t.Errorf("core was told %+v, want that g-0 is failing", told)
		}
		if n := len(r.callsOf("page0")); n != 5*20+3*20+6*19 {
			t.Errorf("calls = %d, want none to g-0 after the third", n)
		}
		for id, d := range r.dead() {
			if !strings.HasPrefix(id, "page0/bad") && !strings.HasSuffix(id, "/g-0") {
				t.Errorf("%s is dead as %s", id, d.Reason)
			}
		}
	})
}

// A phase in which answers take longer than MESSAGE_TTL ends: a call now and then
// finds out how long they take.
func TestSlowPhaseEnds(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{2 * time.Second, 8 * time.Second} {
		inBubble(t, 1, func(c *Config) { c.MessageTTL = ttl }, func(t *testing.T, r *rig) {
			start := time.Now()
			r.latency = func(message.Outbound) time.Duration {
				if d := time.Since(start); d > time.Minute && d < 90*time.Second {
					return 9 * time.Second
				}
				return 700 * time.Millisecond
			}
			every(time.Second, 5*time.Minute, func(int) { r.text("page0", guests("g", 20)...) })
			r.sleep(10 * time.Second)
			sent, all := 0, 0
			for _, id := range r.published {
				if r.born[id].Sub(start) > 2*time.Minute {
					all++
					sent += r.accepted[id]
				}
			}
			if sent != all {
				t.Errorf("TTL %v: half a minute after the slow phase %d of %d were sent, want all", ttl, sent, all)
			}
			r.inversions = nil
		})
	}
}

// One page that is told that the app is throttled, whatever is sent, holds up no
// other one, busy or quiet.
func TestAppThrottledByOnePage(t *testing.T) {
	t.Parallel()
	for _, others := range []time.Duration{2 * time.Second, time.Minute} {
		inBubble(t, 1, nil, func(t *testing.T, r *rig) {
			r.script(func(o message.Outbound, _ int) sender.Result {
				if o.Page == "page0" {
					return fail(sender.AppThrottled)
				}
				return sender.Result{}
			})
			const length = 10 * time.Minute
			go every(time.Second, length, func(int) { r.text("page0", "a") })
			for p := 1; p <= 3; p++ {
				time.Sleep(time.Second / 7)
				go every(others, length, func(int) { r.text(fmt.Sprint("page", p), guests("g", 5)...) })
			}
			r.sleep(length + time.Minute)
			for p := 1; p <= 3; p++ {
				w := r.waits(fmt.Sprint("page", p))
				if len(w) != 5*int(length/others) || quantile(w, 1) > time.Second {
					t.Errorf("page%d, every %v: %d sent, most %v, want all within a second", p, others, len(w), quantile(w, 1))
				}
			}
			if n := len(r.callsOf("page0")); n > 100 {
				t.Errorf("%d calls of the page, want at most 100", n)
			}
		})
	}
}

// A page that hangs at night is no silence of the API: with two or three replicas a
// page that is written to every few minutes is served as on any other night.
func TestPageHangsAtNight(t *testing.T) {
	t.Parallel()
	length := 8 * time.Hour
	if testing.Short() {
		length = 2 * time.Hour
	}
	for _, replicas := range []int{2, 3} {
		for _, people := range []int{2, 3, 12} {
			t.Run(fmt.Sprint(replicas, " replicas, ", people, " people"), func(t *testing.T) {
				t.Parallel()
				inBubble(t, replicas, nil, func(t *testing.T, r *rig) {
					rnd := rand.New(rand.NewPCG(3, 4))
					normal := longTailed(rand.New(rand.NewPCG(1, 2)), 700*time.Millisecond, 1900*time.Millisecond)
					r.latency = func(o message.Outbound) time.Duration {
						if o.Page == "page0" {
							return 10 * time.Second
						}
						return normal(o)
					}
					r.script(func(o message.Outbound, _ int) sender.Result {
						if o.Page == "page0" {
							return timeout()
						}
						return sender.Result{}
					})
					end := time.Now().Add(length)
					go every(20*time.Second, length, func(i int) {
						r.event("page0", fmt.Sprint("m", i), message.ClassText, guests("h", people)...)
					})
					for time.Now().Before(end) {
						r.sleep(4*time.Minute + time.Duration(rnd.IntN(60))*time.Second)
						r.text("page1", guests("g", 3)...)
					}
					r.sleep(time.Minute)
					w := r.waits("page1")
					if most := quantile(w, 1); most > 4*time.Second {
						t.Errorf("a message of the other page waited %v, p90 %v, want at most 4 s", most, quantile(w, 0.9))
					}
					r.inversions = nil
				})
			})
		}
	}
}
