package dispatch

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/sender"
)

// An API that takes 7 s for every call, longer than a lane may be without an
// answer, is slow and not down: nothing is called twice, on lanes or off, and
// no lane changes hands.
func TestSlowAPIIsCalledOnceForEachMessage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		to      func(r *rig) string
		people  int           // recipients of each page: as many calls at a time
		every   time.Duration // between two messages
		minutes int
	}{
		{"busy lanes", func(r *rig) string { return r.broker.Topology().Lane(0) }, 20, 400 * time.Millisecond, 5},
		{"one recipient on a lane", func(r *rig) string { return r.broker.Topology().Lane(0) }, 1, 8 * time.Second, 5},
		{"busy outbound", func(r *rig) string { return r.broker.Topology().Outbound() }, 20, 400 * time.Millisecond, 5},
		{"quiet outbound", func(r *rig) string { return r.broker.Topology().Outbound() }, 20, 20 * time.Second, 5},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(t, 1)
				a := &api{latency: 7 * time.Second}
				rigs := []*rig{startOn(t, b, a, nil), startOn(t, b, a, nil)}
				time.Sleep(3 * time.Second)
				n := 0
				for end := time.Now().Add(time.Duration(row.minutes) * time.Minute); time.Now().Before(end); time.Sleep(row.every) {
					rigs[0].publishTo(t, row.to(rigs[0]), msg("p", fmt.Sprintf("u%d", n%row.people), n))
					n++
				}
				time.Sleep(time.Minute)
				for i, r := range rigs {
					if got := r.givenUpFor("stuck"); got != 0 {
						t.Errorf("lanes given up by replica %d = %v, want 0", i, got)
					}
					r.stop(t)
				}
				if got := len(a.accepted()); got != n {
					t.Errorf("accepted = %d, want %d", got, n)
				}
				for id, calls := range a.calls {
					if calls != 1 {
						t.Errorf("calls for %s = %d, want 1", id, calls)
					}
				}
			})
		})
	}
}

// After an API that gave no answer, and at first answers slowly, nothing is
// called twice: a replica that was probing subscribes anew when its calls have ended.
func TestProbingReplicaRecoversWithoutDuplicates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, 2)
		a := &hanging{until: time.Now().Add(time.Minute), answer: 4 * time.Second}
		r := startOn(t, b, a, nil)
		time.Sleep(3 * time.Second)
		const n = 60
		for i := range n {
			r.publishTo(t, []string{b.Topology().Outbound(), b.Topology().Lane(0), b.Topology().Lane(1)}[i%3],
				msg("p", fmt.Sprintf("u%d", i), i))
		}
		time.Sleep(8 * time.Second)
		if r.Ready() == nil {
			t.Error("Ready() while calls hang = nil, want an error")
		}
		time.Sleep(42 * time.Second)
		if r.Ready() == nil {
			t.Error("Ready() while the few calls hang = nil, want an error")
		}
		time.Sleep(3 * time.Minute)
		if err := r.Ready(); err != nil {
			t.Errorf("Ready() once the API answers = %v, want nil", err)
		}
		r.stop(t)
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.sent) != n {
			t.Errorf("messages sent = %d, want %d", len(a.sent), n)
		}
		for id, got := range a.sent {
			if got != 1 {
				t.Errorf("answered calls for %s = %d, want 1", id, got)
			}
		}
		if got := testutil.ToFloat64(r.metrics.dead.WithLabelValues(string(message.ReasonExhausted))); got != 0 {
			t.Errorf("dead by attempts = %v, want 0: none was answered", got)
		}
	})
}

// hanging is an API whose calls time out until a moment, and then are answered.
type hanging struct {
	until  time.Time
	answer time.Duration

	mu   sync.Mutex
	sent map[string]int
}

func (a *hanging) Send(ctx context.Context, out message.Outbound) sender.Result {
	latency, o := a.answer, sender.Sent
	if time.Now().Before(a.until) {
		latency, o = 10*time.Second, sender.Transient
	}
	select {
	case <-time.After(latency):
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if o == sender.Sent {
		if a.sent == nil {
			a.sent = make(map[string]int)
		}
		a.sent[out.ID]++
	}
	return sender.Result{Outcome: o, Err: context.DeadlineExceeded, Latency: latency}
}

// backlogOn puts messages of one page on `outbound` and on every lane.
func backlogOn(t *testing.T, r *rig, each int) {
	t.Helper()
	for i, page := range pageOfEachLane(t, r) {
		for n := range each {
			r.publishTo(t, r.broker.Topology().Lane(i), msg(page, fmt.Sprintf("u%d", n), n))
		}
	}
	for n := range each {
		r.publish(t, msg("free", fmt.Sprintf("u%d", n), n))
	}
}

// While the app is throttled the API answers, and other replicas could not send
// either: what is held stays.
func TestThrottledAppGivesNothingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, 4)
		begin := time.Now()
		a := &api{latency: 40 * time.Millisecond, answer: func(message.Outbound, int) sender.Outcome {
			if time.Since(begin) < 10*time.Minute {
				return sender.AppThrottled
			}
			return sender.Sent
		}}
		r := startOn(t, b, a, nil)
		time.Sleep(3 * time.Second)
		backlogOn(t, r, 50)
		time.Sleep(12 * time.Minute)
		r.stop(t)
		if got := r.givenUpFor("stuck"); got != 0 {
			t.Errorf("lanes given up = %v, want 0", got)
		}
		if got := testutil.ToFloat64(r.metrics.stale); got != 0 {
			t.Errorf("deliveries that went back = %v, want 0", got)
		}
		if got := len(a.accepted()); got != 250 {
			t.Errorf("accepted = %d, want 250", got)
		}
	})
}

// In an outage what is held goes back once, and from then on a few of each
// queue, ever more rarely: RabbitMQ 4 counts how often a message comes
// back, and at the twentieth time it is dead.
func TestOutageGivesHardlyAnythingBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, 4)
		begin := time.Now()
		a := &api{latency: 40 * time.Millisecond, answer: func(message.Outbound, int) sender.Outcome {
			if time.Since(begin) < 10*time.Minute {
				return sender.Transient
			}
			return sender.Sent
		}}
		r := startOn(t, b, a, nil)
		time.Sleep(3 * time.Second)
		backlogOn(t, r, 50)
		time.Sleep(10 * time.Minute)
		// 250 once. Then, of each of four lanes, four messages after 2, 4, 8 … 60 s
		// of rest and up to as much again, with 5 s or 6 s of holding each time:
		// at most 13 times in ten minutes.
		if got := testutil.ToFloat64(r.metrics.stale); got < 250 || got > 250+4*4*13 {
			t.Errorf("deliveries that went back = %v, want 250 and at most 52 of each lane", got)
		}
		if got := r.givenUpFor("stuck"); got > 4*14 {
			t.Errorf("lanes given up = %v, want at most 14 times each of four", got)
		}
		time.Sleep(5 * time.Minute)
		r.stop(t)
		if got := len(a.accepted()); got != 250 {
			t.Errorf("accepted = %d, want 250", got)
		}
	})
}

// A message that waits for its next attempt on an otherwise empty lane does not
// make the lane stuck: it keeps its attempts, and is dead after the last.
func TestRetryOnAQuietLaneIsNotStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, 1)
		a := &api{latency: 40 * time.Millisecond, answer: func(out message.Outbound, _ int) sender.Outcome {
			if out.Page == "p" {
				time.Sleep(3 * time.Second)
				return sender.Transient
			}
			return sender.Sent
		}}
		longest := func(c *Config) { c.MaxAttempts, c.Random = 8, func() float64 { return .99 } }
		r := startOn(t, b, a, longest)
		other := startOn(t, b, a, longest)
		time.Sleep(3 * time.Second)
		m := msg("p", "u", 1)
		r.publishTo(t, b.Topology().Lane(0), m)
		for i := range 120 { // others are answered
			time.Sleep(time.Second)
			r.publish(t, msg("q", "v", i), msg("q", "w", i))
		}
		if got := r.givenUpFor("stuck") + other.givenUpFor("stuck"); got != 0 {
			t.Errorf("lanes given up = %v, want 0", got)
		}
		if got := a.callsFor(m.ID); got != 8 {
			t.Errorf("calls = %d, want 8", got)
		}
		r.stop(t)
		other.stop(t)
		if got := len(r.drain(t, b.Topology().Dead())); got != 1 {
			t.Errorf("dead letters = %d, want 1", got)
		}
	})
}

// Broadcasts that are in hand when `outbound` is subscribed to anew stay in
// hand, and are sent.
func TestBroadcastsSurviveThatOutboundIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, 1)
		e := purgeRig(t, b)
		q := e.pages[pageID{Key: (&item{out: msg("p", "u0", 0)}).key(), lane: noLane}]
		if len(q.heap) != 2 {
			t.Fatalf("messages in hand = %d, want one of outbound and one of bulk", len(q.heap))
		}
		if err := e.outbound.sub.Close(); err != nil {
			t.Fatal(err)
		}
		e.stopping = true // nothing is sent: only what is held matters here
		e.purge(e.outbound)
		if len(q.heap) != 1 || q.heap[0].delivery.Queue != b.Topology().Bulk() {
			t.Errorf("messages in hand after outbound was given up = %d, want the broadcast", len(q.heap))
		}
		if err := e.bulkIn.sub.Close(); err != nil {
			t.Fatal(err)
		}
		e.purge(e.bulkIn)
		if len(e.pages) != 0 {
			t.Errorf("pages after both were given up = %d, want 0", len(e.pages))
		}
		e.moves.End()
		e.settlers.Wait()
	})
}

// purgeRig is an engine that holds a message of outbound and one of a broadcast.
func purgeRig(t *testing.T, b *memory.Broker) *engine {
	t.Helper()
	r := &rig{broker: b}
	r.publish(t, msg("p", "u0", 0))
	r.publishTo(t, b.Topology().Bulk(), msg("p", "u1", 1))
	d, err := New(testConfig(b, &api{}))
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(d)
	if err != nil {
		t.Fatal(err)
	}
	e.free.leaving = true
	e.outbound = e.source(b.Topology().Outbound(), noLane, 10, nil)
	e.bulkIn = e.source(b.Topology().Bulk(), noLane, 10, nil)
	e.outbound.age, e.bulkIn.age = e.metrics.queueAge[fromOutbound], e.metrics.queueAge[fromBulk]
	for _, s := range []*source{e.outbound, e.bulkIn} {
		if s.sub, err = b.Consume(s.queue, queue.ConsumeOptions{Prefetch: 10}); err != nil {
			t.Fatal(err)
		}
		e.arrive(s.decode(<-s.sub.Deliveries()))
	}
	return e
}
