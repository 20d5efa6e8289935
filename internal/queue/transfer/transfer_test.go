package transfer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
)

// leaderless is a broker some queues of which confirm nothing.
type leaderless struct {
	*memory.Broker

	mu    sync.Mutex
	down  map[string]bool
	tries map[string][]string // ids by queue, as they were published, in vain or not
}

func (l *leaderless) Publish(ctx context.Context, msgs ...queue.Message) error {
	e := &queue.PublishError{Faults: make([]error, len(msgs)), Err: queue.ErrUnavailable}
	l.mu.Lock()
	failed := false
	for i, m := range msgs {
		l.tries[m.Queue] = append(l.tries[m.Queue], m.ID)
		if l.down[m.Queue] {
			e.Faults[i], failed = queue.ErrUnavailable, true
		} else if err := l.Broker.Publish(ctx, m); err != nil {
			e.Faults[i], failed = err, true
		}
	}
	l.mu.Unlock()
	if !failed {
		return nil
	}
	<-ctx.Done()
	return e
}

func (l *leaderless) set(name string, down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down[name] = down
}

func (l *leaderless) tried(name string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.tries[name])
}

// moving is a mover with deliveries to move, of `outbound` unless it is told otherwise.
type moving struct {
	*Mover
	t      *testing.T
	broker *leaderless
	from   string // the queue that messages are moved from
	sub    queue.Subscription
	top    queue.Topology
	ended  chan struct{}
}

func newMoving(t *testing.T, log *slog.Logger) *moving {
	t.Helper()
	b := &leaderless{Broker: memorytest.New(t, queue.Topology{Prefix: "t", Lanes: 4}), down: make(map[string]bool), tries: make(map[string][]string)}
	mover := New(Config{
		Publisher: b, Log: log, Now: time.Now, Random: func() float64 { return 0.5 },
		Stale: prometheus.NewCounter(prometheus.CounterOpts{Name: "stale_total", Help: "Stale deliveries."}),
	})
	m := &moving{Mover: mover, t: t, broker: b, top: b.Topology(), ended: make(chan struct{})}
	m.consume(m.top.Outbound())
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(m.ended); m.Run(ctx) }()
	t.Cleanup(func() { m.End(); cancel(); <-m.ended })
	return m
}

// consume makes that the queue that messages are moved from.
func (m *moving) consume(name string) {
	m.t.Helper()
	var err error
	m.from = name
	if m.sub, err = m.broker.Consume(name, queue.ConsumeOptions{Prefetch: 1000}); err != nil {
		m.t.Fatal(err)
	}
}

// moveOne publishes a message with that id and has it moved.
func (m *moving) moveOne(id string, to ...string) {
	m.t.Helper()
	if err := m.broker.Broker.Publish(m.t.Context(), queue.Message{Queue: m.from, ID: id}); err != nil {
		m.t.Fatal(err)
	}
	it := Transfer{Transfer: queue.Transfer{Delivery: <-m.sub.Deliveries()}, Done: func() {}}
	for _, name := range to {
		it.To = append(it.To, queue.Message{Queue: name, ID: id})
	}
	m.Add(it)
}

// idsOn are what lies on a queue, and takes it off.
func (m *moving) idsOn(name string) (ids []string) {
	m.t.Helper()
	for _, msg := range memorytest.Drain(m.t, m.broker.Broker, name) {
		ids = append(ids, msg.ID)
	}
	return ids
}

func (m *moving) check(what string, got []string, want ...string) {
	m.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A queue that confirms nothing for an hour costs the others five seconds once,
// and one message of its own some copies; its order is kept.
func TestQueueWithoutLeaderHoldsUpItsOwnOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(t, slog.New(slog.DiscardHandler))
		bad, good := m.top.Lane(0), m.top.Lane(1)
		m.broker.set(bad, true)
		m.moveOne("1", good)
		m.moveOne("2", bad)
		m.moveOne("3", good)
		m.moveOne("4", bad)
		var ended atomic.Int32
		m.After(func() { ended.Add(1) })
		time.Sleep(5*time.Second - time.Millisecond)
		if ended.Load() != 0 {
			t.Error("called after the moves while they were tried")
		}
		time.Sleep(2 * time.Millisecond)
		m.check("on the other lane after 5 s", m.idsOn(good), "1", "3")
		m.moveOne("5", bad)
		m.After(func() { ended.Add(1) })
		synctest.Wait()
		if ended.Load() != 2 {
			t.Errorf("%d of 2 called after the moves, want all: a blocked queue holds up nobody", ended.Load())
		}
		m.moveOne("6", good)
		synctest.Wait()
		m.check("on the other lane", m.idsOn(good), "6")
		time.Sleep(time.Hour)
		for i := range 200 {
			m.moveOne(fmt.Sprint("more ", i), bad)
		}
		synctest.Wait()
		m.check("published to the other lane", m.broker.tried(good), "1", "3", "6")
		tries := m.broker.tried(bad)
		if most := 2 + 120; len(tries) > most || slices.ContainsFunc(tries[2:], func(id string) bool { return id != "2" }) {
			t.Errorf("in an hour published %d messages to the lane, %v, want at most %d, after the first try 2 alone", len(tries), tries[:4], most)
		}

		m.broker.set(bad, false)
		time.Sleep(2 * time.Minute)
		want := []string{"2", "4", "5"}
		for i := range 200 {
			want = append(want, fmt.Sprint("more ", i))
		}
		m.check("on the lane", m.idsOn(bad), want...)
		m.broker.set(bad, true) // no queue is blocked any more: what comes now is tried with all else
		m.moveOne("7", good, bad)
		time.Sleep(time.Minute)
		m.check("on the other lane", m.idsOn(good), "7")
		if err := m.sub.Close(); err != nil {
			t.Fatal(err)
		}
		m.check("on outbound", m.idsOn(m.top.Outbound()), "7")
	})
}

// A dead letter of which core is told does not hold up others, nor is it
// published again, while core's queue takes nothing.
func TestOnePartIsBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(t, slog.New(slog.DiscardHandler))
		dead, inbound := m.top.Dead(), m.top.Inbound()
		m.broker.set(inbound, true)
		m.moveOne("1", dead, inbound)
		m.moveOne("2", dead)
		time.Sleep(6 * time.Second)
		m.moveOne("3", dead)
		m.moveOne("4", dead, inbound)
		synctest.Wait()
		m.check("dead", m.idsOn(dead), "1", "2", "3")
		m.broker.set(inbound, false)
		m.broker.set(dead, true)
		time.Sleep(3 * time.Minute)
		m.check("told", m.idsOn(inbound), "1", "4")
		m.moveOne("5", inbound)
		synctest.Wait()
		m.check("told", m.idsOn(inbound), "5")
		m.broker.set(dead, false)
		time.Sleep(3 * time.Minute)
		m.check("dead", m.idsOn(dead), "4")
		m.check("told", m.idsOn(inbound))
		m.blockedMu.Lock()
		defer m.blockedMu.Unlock()
		if len(m.blocked) > 0 {
			t.Errorf("%d queues are still blocked", len(m.blocked))
		}
	})
}

// What became stale while it waited is let go of, and not published.
func TestBlockedQueueDoesNotKeepWhatIsStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(t, slog.New(slog.DiscardHandler))
		m.broker.set(m.top.Lane(0), true)
		m.consume(m.top.Bulk()) // the first, which the others are behind, lives on
		m.moveOne("first", m.top.Lane(0))
		m.consume(m.top.Lane(1))
		for i := range 300 {
			m.moveOne(fmt.Sprint(i), m.top.Lane(0))
		}
		time.Sleep(time.Minute)
		if err := m.sub.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + time.Second)
		m.blockedMu.Lock()
		defer m.blockedMu.Unlock()
		if n := len(m.blocked[m.top.Lane(0)]); n != 1 {
			t.Errorf("a minute after all but one became stale %d messages wait, want 1", n)
		}
	})
}

// A message that cannot be published stays where it was, and the others go on.
func TestMessageThatCannotMoveIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		m := newMoving(t, slog.New(slog.NewTextHandler(&log, nil)))
		m.moveOne("1", m.top.Lane(0))
		m.moveOne("2", m.top.Lane(0), strings.Repeat("x", 256))
		m.moveOne("3", m.top.Lane(0))
		synctest.Wait()
		m.check("on the lane", m.idsOn(m.top.Lane(0)), "1", "3")
		if err := m.sub.Close(); err != nil {
			t.Fatal(err)
		}
		m.check("on outbound", m.idsOn(m.top.Outbound()), "2")
		if !strings.Contains(log.String(), "message cannot be moved") || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("log is %q, want one line about the message", log.String())
		}
	})
}

// After waits for what was added before it, whatever ends first.
func TestInboxAfter(t *testing.T) {
	t.Parallel()
	b := newInbox()
	items := []*item{{}, {}, {}, {}}
	var called []int
	b.After(func() { called = append(called, 0) })
	for i, it := range items {
		b.add(it)
		b.After(func() { called = append(called, i+1) })
	}
	var got [][]int
	for _, i := range []int{3, 1, 0, 2} {
		b.finish(items[i], items[3]) // the last one counts once
		got = append(got, slices.Clone(called))
	}
	if diff := cmp.Diff([][]int{{0}, {0}, {0, 1, 2}, {0, 1, 2, 3, 4}}, got); diff != "" {
		t.Errorf("called (-want +got):\n%s", diff)
	}
	if len(b.barriers) > 0 {
		t.Errorf("%d entries are left", len(b.barriers))
	}
}
