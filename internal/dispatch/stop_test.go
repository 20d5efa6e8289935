package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/queue"
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
// at all on another partition, for callsTime on its own.
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
					return 4 * time.Second
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
		if w := quantile(r.waits(neighbour), 1); w > callsTime {
			t.Errorf("a page of the same partition was silent for %v, want at most %v", w, callsTime)
		}
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

// A process that was paused before it found its place among the others begins as if it
// had not been.
func TestPauseBeforeTheFirstPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start(1, func(c *Config) {
			c.Broker.(*link).refuse = func(op, name string) error {
				if op == "inspect" && slices.Contains(r.top.Slots(), name) {
					return queue.ErrRefused
				}
				return nil
			}
		})
		r.sleep(5 * time.Second)
		r.only().inspect(func(e *engine) {
			e.ticked = e.Now().Add(-time.Minute)
			e.checkPause()
		})
		r.only().link.with(func(l *link) { l.refuse = nil })
		r.text("page0", "ann")
		r.sleep(30 * time.Second)
		r.checkSentOnce()
		r.end()
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
		r.sleep(900 * time.Millisecond)
		if n := testutil.ToFloat64(p.metrics.returned); n < 30 {
			t.Errorf("%v messages went back, want all that it held", n)
		}
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}

// After a pause of the process the answers to its calls are there: the API is not silent.
func TestPauseIsNoSilence(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{4 * time.Second, 30 * time.Second} {
		for range 8 { // what the engine sees first is chance
			inBubble(t, 2, nil, func(t *testing.T, r *rig) {
				r.latency = func(message.Outbound) time.Duration { return time.Second }
				r.text("page0", guests("u", 40)...)
				r.sleep(100 * time.Millisecond)
				p := r.replicas[r.owner("page0")]
				p.inspect(func(*engine) { time.Sleep(length) })
				r.sleep(2 * time.Second)
				p.inspect(func(e *engine) {
					if e.standing.trial || !e.standing.silentAt.IsZero() {
						t.Errorf("after a pause of %v it goes behind the other one", length)
					}
				})
				r.sleep(time.Minute)
			})
		}
	}
}

// A replica whose calls hang or fail at once gives its pages up within seconds. It comes
// back, in any slot, only when it is answered. Meanwhile its gauge says so.
func TestHungReplica(t *testing.T) {
	t.Parallel()
	const long = 30 * time.Minute // rests are over many times
	for _, c := range []struct {
		name   string
		sick   Caller
		pages  int           // with the same owner
		people int           // of each who get a text, those of the first one every 100 ms at the begin
		most   time.Duration // without a call of the page
	}{
		{"many calls hang", stuck{}, 1, 20, 6 * time.Second},
		{"some calls hang", stuck{}, 1, 1, 16 * time.Second},
		{"calls fail at once", cutOff{}, 1, 20, 12 * time.Second},
		{"some calls fail at once", cutOff{}, 1, 1, 12 * time.Second},
		{"questions are answered, and no call is", mute{}, 2, 20, 7 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 3, nil, func(t *testing.T, r *rig) {
				go every(100*time.Millisecond, 30*time.Second, func(i int) { r.text("page0", guests("u", c.people)...) })
				for _, page := range r.peers(c.pages) {
					go every(time.Second, long, func(i int) { r.text(page, guests("u", c.people)...) })
				}
				r.sleep(5 * time.Second)
				hung := r.owner("page0")
				p := r.replicas[hung]
				p.link.with(func(l *link) { // one slot's queue has no leader
					l.refuse = func(op, name string) error {
						if op == "inspect" && name == r.top.Slots()[20] {
							return queue.ErrUnavailable
						}
						return nil
					}
				})
				p.inspect(func(e *engine) { e.Sender = c.sick })
				began := time.Now()
				r.sleep(long / 2)
				p.inspect(func(e *engine) { e.standing.find() }) // as where another has taken its slot
				r.sleep(long/2 + time.Minute)
				silent, last := time.Duration(0), began
				for _, call := range r.callsOf("page0") {
					if call.at.After(began) && call.replica != hung {
						silent = max(silent, call.at.Sub(last))
						last = call.at
					}
				}
				if silent > c.most {
					t.Errorf("silent for %v, want at most %v", silent, c.most)
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
				if !p.silent.Load() {
					t.Error("the replica without answers does not say so")
				}
				p.inspect(func(e *engine) { e.Sender = client{r.platform, hung} })
				r.sleep(maxRest + time.Minute)
				p.inspect(func(e *engine) {
					if e.silent.Load() || e.standing.trial {
						t.Errorf("minutes after the end silent = %v, behind all others = %v, want neither", e.silent.Load(), e.standing.trial)
					}
				})
			})
		})
	}
}

// A newcomer that reaches nobody takes nothing from others.
func TestCutOffNewcomer(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.start(3, func(c *Config) { c.Sender = cutOff{} })
		for range 60 {
			for page := range 10 {
				r.text(fmt.Sprint("page", page), "ann")
			}
			r.sleep(time.Second)
		}
		r.checkSentOnce()
		for page := range 10 {
			if w := r.waits(fmt.Sprint("page", page)); quantile(w, 1) > time.Second {
				t.Errorf("a message of page%d waited %v, want no notice of newcomers", page, quantile(w, 1))
			}
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
