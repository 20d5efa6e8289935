package dispatch

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/breaker"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
)

// bench is an engine that does not run, with one message of a partition at hand.
type bench struct {
	*engine
	l   *line
	m   *held
	s   *source
	now time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 1})
	d, err := New(Config{
		Broker: b, Sender: client{newPlatform(), 0}, Limit: message.Limits{Text: 300, Media: 10}.Of,
		Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Random: half,
		MaxInFlight: 64, MaxAttempts: 8, MessageTTL: time.Hour, ShutdownTimeout: time.Second, Prefetch: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(d)
	if err != nil {
		t.Fatal(err)
	}
	name := b.Topology().Outbound(0)
	sub, err := b.Consume(name, queue.ConsumeOptions{Prefetch: 64})
	if err != nil {
		t.Fatal(err)
	}
	o := message.Outbound{ID: "1", Page: "p", To: "u", Class: message.ClassText, Text: "x", Time: time.Now().UnixMilli()}
	body, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), queue.Message{Queue: name, ID: "1", Body: body}); err != nil {
		t.Fatal(err)
	}
	p := e.sources.partitions[0]
	s := &source{queue: name, partition: p, sub: sub, prefetch: 64}
	p.src = s
	m := decode(<-sub.Deliveries(), s)
	s.add(m)
	l := e.pages.line(m.key())
	l.push(m)
	return &bench{engine: e, l: l, m: m, s: s, now: time.Now()}
}

// state is all that a decision could change.
func (b *bench) state() string {
	all, excess := b.gate.Len()
	return fmt.Sprintln(*b.m, b.l.waiting, b.l.direct, b.l.inFlight, b.l.wakeAt, b.l.rotating, b.l.lane, len(b.l.ready), len(b.l.aside),
		len(b.timers), b.s.held, b.s.moving, b.calls.inFlight, len(b.calls.waiting), len(b.people.list), len(b.lanes.list), all, excess,
		b.suspended.list(9), b.breaker.OpenPages(), b.metrics.probes)
}

// One row for each case, in the order of the cases. Each of them stands before
// all that follow it: a row adds its own condition to those of the rows behind
// it, but for those that it names.
func TestDecide(t *testing.T) {
	t.Parallel()
	type condition struct {
		name    string
		apply   func(b *bench)
		want    action
		without string // the condition of a later row that excludes this one
	}
	wait := func(d time.Duration) action { return action{wait: d} }
	conditions := []condition{
		{"not ours", func(b *bench) { b.s.sub.Close() }, action{do: drop}, ""},
		{"broker is silent", func(b *bench) { b.Broker = silentBroker{b.Broker} }, wait(silentPause), ""},
		{"too old", func(b *bench) { b.m.out.Time -= time.Hour.Milliseconds() + 1 }, action{do: bury, reason: message.ReasonExpired}, ""},
		{"page is suspended", func(b *bench) { b.suspended.resume("p", b.now); b.suspended.suspend("p", "190", 0, b.now) }, action{do: bury, reason: message.ReasonPageStopped}, ""},
		{"page has no token", func(b *bench) { b.suspended.suspend("p", "", stopGrace, b.now) }, action{do: postpone, wait: retryMedium}, ""},
		{"recipient fails", func(b *bench) { b.people.fail(&b.m.out, b.now) }, action{do: bury, reason: message.ReasonFailing}, ""},
		{"an earlier one is delayed", func(b *bench) {
			b.people.retry(&message.Outbound{ID: "0", Page: "p", To: "u", Class: message.ClassText}, b.now, retryLong)
		}, action{do: postpone, wait: retryLong}, ""},
		{"page's lane is in use", func(b *bench) { b.l.lane = &lane{line: b.l, inUse: true, open: true} }, action{do: overflow}, "source is given up"},
		{"lane is being made", func(b *bench) { b.l.lane = &lane{line: b.l, inUse: true} }, action{}, "page's lane is in use"},
		{"source is given up", func(b *bench) { b.s.leaving = true }, action{}, ""},
		{"page's pace", func(b *bench) { b.l.wakeAt = b.now.Add(time.Second) }, action{}, ""},
		{"every call is taken", func(b *bench) { b.calls.inFlight = 64 }, action{do: rotate}, ""},
		{"API is down", func(b *bench) {
			q, r := b.breaker.Begin(b.now, "q", "u", "e"), b.breaker.Begin(b.now, "r", "u", "e")
			b.breaker.End(b.now, q, breaker.Throttled)
			b.breaker.End(b.now, r, breaker.Throttled)
		}, wait(time.Second + 125*time.Millisecond), ""},
		{"page is sick", func(b *bench) {
			for i := range 10 {
				b.breaker.End(b.now, b.breaker.Begin(b.now, "p", fmt.Sprint(i), fmt.Sprint(i)), breaker.Failed)
			}
		}, wait(time.Second + 125*time.Millisecond), ""},
		{"nothing", func(*bench) {}, action{do: offer}, ""},
	}
	for i, c := range conditions {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				for k := len(conditions) - 1; k >= i; k-- {
					if conditions[k].name != c.without && (k == i || conditions[k].name != "page's lane is in use" && conditions[k].name != "lane is being made") {
						conditions[k].apply(b)
					}
				}
				before := b.state()
				for range 3 {
					if got := b.decide(b.l, b.m, b.now); got != c.want {
						t.Fatalf("decide() = %+v, want %+v", got, c.want)
					}
				}
				if diff := cmp.Diff(before, b.state()); diff != "" {
					t.Errorf("decide() changed (-before +after):\n%s", diff)
				}
			})
		})
	}
}

// A message goes to its page's lane for each of the reasons, and for no other.
func TestMustOverflow(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		apply func(b *bench)
		want  bool
	}{
		{"nothing", func(*bench) {}, false},
		{"more waits than the partition has room for", func(b *bench) { b.l.direct = 64 }, true},
		{"as much waits as it has room for", func(b *bench) { b.l.direct = 63 }, false},
		{"page is sick, few wait", func(b *bench) { openPage(b); b.l.direct = 8 }, false},
		{"page is sick, more wait", func(b *bench) { openPage(b); b.l.direct = 9 }, true},
		{"page is shut for a moment", func(b *bench) { shut(b, 0); b.l.direct = 9 }, false},
		{"page is shut for long", func(b *bench) { shut(b, time.Hour); b.l.direct = 9 }, true},
		{"lane in use", func(b *bench) { b.l.lane = &lane{inUse: true, open: true} }, true},
		{"lane that is kept for the next burst", func(b *bench) { b.l.lane = &lane{open: true} }, false},
		{"lane that is being found empty", func(b *bench) { b.l.lane, b.l.direct = &lane{inUse: true, open: true, marking: true}, 64 }, false},
		{"lane that is being made", func(b *bench) { b.l.lane, b.l.direct = &lane{inUse: true}, 64 }, false},
		{"it was tried", func(b *bench) { b.m.tried, b.l.direct = true, 64 }, false},
		{"it is of a lane", func(b *bench) { b.s.lane, b.l.direct = &lane{}, 64 }, false},
		{"its source is given up", func(b *bench) { b.s.leaving, b.l.direct = true, 64 }, false},
		{"it is of a broadcast", func(b *bench) { b.m.out.Broadcast, b.l.direct = "b", 64 }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			row.apply(b)
			if got := b.mustOverflow(b.l, b.m, b.now); got != row.want {
				t.Errorf("%s: mustOverflow() = %v, want %v", row.name, got, row.want)
			}
		})
	}
}

func openPage(b *bench) {
	for i := range 10 {
		b.breaker.End(b.now, b.breaker.Begin(b.now, "p", fmt.Sprint(i), fmt.Sprint(i)), breaker.Failed)
	}
}

// shut has the page refused for so long.
func shut(b *bench, d time.Duration) {
	k := excess.Key{Page: "p", Class: "text"}
	for end := b.now.Add(d + 100*time.Millisecond); b.now.Before(end); {
		o := b.gate.Offer(b.now, excess.Request{Key: k})
		if o.Wait > 0 {
			b.now = b.now.Add(o.Wait)
			continue
		}
		b.gate.Done(b.now, o.Permit, excess.Refused)
		if d > 0 && b.gate.ShutFor(b.now, k) > 10*time.Second {
			return
		}
	}
}

// A message is late by its deadline or its age, and the latency counts.
func TestIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for _, row := range []struct {
			name     string
			latency  time.Duration
			age      time.Duration
			deadline time.Duration // from now; 0: none
			want     bool
		}{
			{"as old as may be", 0, time.Hour, 0, false},
			{"older", 0, time.Hour + time.Millisecond, 0, true},
			{"too old once it arrives", 2 * time.Second, time.Hour - time.Second, 0, true},
			{"old, but before its deadline", 0, 5 * time.Hour, time.Second, false},
			{"young, but behind its deadline", 0, 0, -time.Millisecond, true},
			{"behind its deadline once it arrives", 2 * time.Second, 0, time.Second, true},
		} {
			b.calls.latency, b.calls.learned = row.latency, b.now
			b.m.out.Time, b.m.out.Deadline = b.now.Add(-row.age).UnixMilli(), 0
			if row.deadline != 0 {
				b.m.out.Deadline = b.now.Add(row.deadline).UnixMilli()
			}
			if got := b.isLate(b.m, b.now); got != row.want {
				t.Errorf("%s: isLate() = %v, want %v", row.name, got, row.want)
			}
		}
	})
}
