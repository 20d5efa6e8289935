package dispatch

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/circuit"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/orders"
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
		Broker: b, Sender: client{newPlatform(), 0}, Limits: func(string) message.Limits { return message.Limits{Text: 300, Media: 10} },
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
	c := &claim{partition: e.claims.partitions[0], since: time.Now()}
	s := &source{queue: name, claim: c, sub: sub, prefetch: 64, known: true}
	c.sources, c.partition.claim = []*source{s}, c
	m := decode(<-sub.Deliveries(), s, time.Now())
	s.add(m)
	l := e.pages.line(m.key())
	e.pages.push(l, m)
	return &bench{engine: e, l: l, m: m, s: s, now: time.Now()}
}

// state is all that a decision could change.
func (b *bench) state() string {
	all, excess := b.gate.Len()
	return fmt.Sprintln(*b.m, b.l.waiting, b.l.fromPartition, b.l.inFlight, b.l.wakeAt, b.l.inTurn, b.l.spill, len(b.l.ready), len(b.l.aside),
		len(b.timers), b.s.inHand, b.s.moving, b.calls.inFlight, len(b.calls.turns), all, excess, fmt.Sprintf("%+v", b.circuits), b.metrics.probes)
}

// One row for each case, in the order of the cases. Each of them stands before
// all that follow it: a row adds its own condition to those of the rows behind
// it.
func TestDecide(t *testing.T) {
	t.Parallel()
	type condition struct {
		name  string
		apply func(b *bench)
		want  action
	}
	wait := func(d time.Duration, why Reason) action { return action{wait: d, why: why} }
	judged := func(d time.Duration, why Reason) action { return action{wait: d, why: why, judged: true} }
	conditions := []condition{
		{"not ours", func(b *bench) { b.s.sub.Close() }, action{do: drop}},
		{"broker is silent", func(b *bench) { b.Broker = silentBroker{b.Broker} }, wait(silentPause, WaitsForBroker)},
		{"sent before", func(b *bench) { b.calls.sent.add(b.m, b.now) }, action{do: repeat}},
		{"too old", func(b *bench) { b.m.out.Time -= time.Hour.Milliseconds() + 1 }, action{do: bury, reason: message.ReasonExpired}},
		{"page is paused", func(b *bench) {
			b.orders.Apply(orders.Order{Kind: orders.Pause, Page: "p", Time: b.now.UnixMilli(), Until: b.now.Add(time.Hour).UnixMilli()})
		}, wait(time.Hour, WaitsForResume)},
		{"recipient fails", func(b *bench) {
			for range b.MaxAttempts {
				b.ended("p", "u", circuit.Bad)
			}
		}, action{do: bury, reason: message.ReasonFailing}},
		{"page is suspended", func(b *bench) { suspend(b) }, action{do: bury, reason: message.ReasonPageStopped}},
		{"a lane is not known yet", func(b *bench) { b.s.claim.sources = append(b.s.claim.sources, &source{}) }, action{why: WaitsForHandover}},
		{"its page waits for the marker", func(b *bench) { b.l.spill = &spill{draining: true} }, action{why: WaitsForHandover}},
		{"every call is taken", func(b *bench) { b.calls.inFlight = 64 }, action{do: rotate, why: WaitsForCalls}},
		{"page's token is refused", func(b *bench) { refuse(b) }, judged(250*time.Millisecond, WaitsForPermission)},
		{"API is down", func(b *bench) {
			openAPI(b)
		}, judged(time.Second, WaitsForApp)},
		{"page is sick", func(b *bench) {
			openPage(b)
		}, judged(250*time.Millisecond, WaitsForPage)},
		{"nothing", func(*bench) {}, action{do: offer}},
	}
	for i, c := range conditions {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				for k := len(conditions) - 1; k >= i; k-- {
					conditions[k].apply(b)
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

// An answer passes its page's lane, unless earlier answers are there, or may be.
func TestAnswersPass(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		apply func(b *bench)
		want  do
	}{
		"no lane":                    {func(*bench) {}, offer},
		"a lane is not known yet":    {func(b *bench) { b.s.claim.sources = append(b.s.claim.sources, &source{}) }, wait},
		"copies alone went to it":    {func(b *bench) { b.l.spill = &spill{draining: true} }, offer},
		"answers went to it, too":    {func(b *bench) { b.l.spill = &spill{draining: true, answers: true} }, wait},
		"more answers wait than may": {func(b *bench) { b.l.spill, b.l.answers = &spill{draining: true}, 9 }, wait},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.m.out.Answer = true
			row.apply(b)
			if got := b.decide(b.l, b.m, b.now).do; got != row.want {
				t.Errorf("%s: decide() = %v, want %v", name, got, row.want)
			}
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
		{"more waits than the partition has room for", func(b *bench) { b.l.fromPartition = 64 }, true},
		{"as much waits as it has room for", func(b *bench) { b.l.fromPartition = 63 }, false},
		{"page is sick, few wait", func(b *bench) { openPage(b); b.l.fromPartition = 8 }, false},
		{"page is sick, more wait", func(b *bench) { openPage(b); b.l.fromPartition = 9 }, true},
		{"page is shut for a moment", func(b *bench) { shut(b, 0); b.l.fromPartition = 9 }, false},
		{"page is shut for long", func(b *bench) { shut(b, time.Hour); b.l.fromPartition = 9 }, true},
		{"page's token is refused, few wait", func(b *bench) { refuse(b); b.l.fromPartition = 8 }, false},
		{"page's token is refused, more wait", func(b *bench) { refuse(b); b.l.fromPartition = 9 }, true},
		{"page is full of little", func(b *bench) { b.s.inHand, b.l.fromPartition = 64, 2 }, false},
		{"API is down", func(b *bench) { openAPI(b); b.l.fromPartition = 64 }, false},
		{"page has a lane", func(b *bench) { b.l.spill = &spill{} }, true},
		{"page waits for the marker", func(b *bench) { b.l.spill = &spill{draining: true} }, false},
		{"page waits for the marker, and the partition is full", func(b *bench) { b.l.spill, b.l.fromPartition = &spill{draining: true}, 64 }, true},
		{"a lane is not known yet", func(b *bench) { b.s.claim.sources, b.l.fromPartition = append(b.s.claim.sources, &source{}), 64 }, false},
		{"answer", func(b *bench) { b.m.out.Answer, b.l.fromPartition, b.l.answers = true, 64, 1 }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			row.apply(b)
			if got := b.pages.mustOverflow(b.l, b.now); got != row.want {
				t.Errorf("%s: mustOverflow() = %v, want %v", row.name, got, row.want)
			}
		})
	}
}

// openAPI has the API take no calls.
func openAPI(b *bench) {
	b.ended("q", "u", circuit.Throttled)
	b.ended("p", "u", circuit.Throttled)
}

// ended has a call ended.
func (b *bench) ended(page, to string, a circuit.Answer) {
	c := b.circuits.Begin(b.now, &message.Outbound{ID: to, Page: page, To: to, Class: message.ClassText})
	b.circuits.End(b.now, c, circuit.Report{Answer: a})
}

// refuse has the page's token refused.
func refuse(b *bench) {
	b.ended("p", "u", circuit.Refused)
	b.ended("p", "x", circuit.Refused)
}

// suspend has the page's token refused for six minutes, and a moment ago.
func suspend(b *bench) {
	now := b.now
	b.circuits.Resume(now.Add(-time.Hour), "p")
	for i, ago := range []time.Duration{6 * time.Minute, 6 * time.Minute, 5 * time.Minute, 4 * time.Minute, 0} {
		b.now = now.Add(-ago)
		b.ended("p", []string{"u", "x"}[i%2], circuit.Refused)
	}
}

func openPage(b *bench) {
	for i := range 10 {
		b.ended("p", fmt.Sprint(i), circuit.Failed)
	}
}

// shut has the page refused for so long.
func shut(b *bench, d time.Duration) {
	k := excess.Key{Page: "p", Class: "text"}
	for end := b.now.Add(d + 100*time.Millisecond); b.now.Before(end); {
		delay, permit := b.gate.Offer(b.now, k, time.Time{})
		if delay > 0 {
			b.now = b.now.Add(delay)
			continue
		}
		b.gate.Done(b.now, permit, excess.Refused)
		if d > 0 && b.gate.ShutFor(b.now, k) > 10*time.Second {
			return
		}
	}
}

// A message is late by its deadline or its age.
func TestIsLate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	d := &Dispatcher{Config: Config{MessageTTL: time.Hour}, orders: orders.NewBook()}
	for _, row := range []struct {
		name     string
		age      time.Duration
		deadline time.Duration // from now; 0: none
		want     bool
	}{
		{"as old as may be", time.Hour, 0, false},
		{"older", time.Hour + time.Millisecond, 0, true},
		{"old, but before its deadline", 5 * time.Hour, time.Second, false},
		{"young, but behind its deadline", 0, -time.Millisecond, true},
	} {
		m := &held{out: message.Outbound{Time: now.Add(-row.age).UnixMilli()}}
		if row.deadline != 0 {
			m.out.Deadline = now.Add(row.deadline).UnixMilli()
		}
		if got := d.isLate(m, time.UnixMilli(now.UnixMilli())); got != row.want {
			t.Errorf("%s: isLate() = %v, want %v", row.name, got, row.want)
		}
	}
}
