package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/queue/transfer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// leaderless is a broker some queues of which confirm nothing, or do not exist.
type leaderless struct {
	*memory.Broker

	mu    sync.Mutex
	down  map[string]error
	tries map[string][]string // ids by queue, as they were published, in vain or not
}

func (l *leaderless) Publish(ctx context.Context, msgs ...queue.Message) error {
	errs := make([]error, len(msgs))
	l.mu.Lock()
	for i, m := range msgs {
		l.tries[m.Queue] = append(l.tries[m.Queue], m.ID)
		if errs[i] = l.down[m.Queue]; errs[i] == nil {
			errs[i] = l.Broker.Publish(ctx, m)
		}
	}
	l.mu.Unlock()
	err := queue.NewPublishError(errs)
	if errors.Is(err, queue.ErrUnavailable) {
		<-ctx.Done()
	}
	return err
}

func (l *leaderless) set(name string, down error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down[name] = down
}

func (l *leaderless) tried(name string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.tries[name])
}

// rig is a mover, and a subscription with deliveries to move.
type rig struct {
	*transfer.Mover
	t      *testing.T
	broker *leaderless
	top    queue.Topology
	from   string // the queue that messages are moved from
	sub    queue.Subscription
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	last map[string]transfer.State // by id, but for Blocked
	errs map[string]error          // by id, of the first time that it was Blocked
	n    map[transfer.State]int
}

func newRig(t *testing.T, log *slog.Logger) *rig {
	t.Helper()
	b := memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 4})
	r := &rig{
		t: t, broker: &leaderless{Broker: b, down: make(map[string]error), tries: make(map[string][]string)}, top: b.Topology(),
		done: make(chan struct{}), last: make(map[string]transfer.State), errs: make(map[string]error), n: make(map[transfer.State]int),
	}
	r.Mover = transfer.New(transfer.Config{
		Broker: r.broker, Log: log, Now: time.Now, Random: func() float64 { return 0.5 }, Notify: r.note,
	})
	r.consume(r.top.Outbound(0))
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go func() { defer close(r.done); r.Run(ctx) }()
	t.Cleanup(func() { r.End(); r.cancel(); <-r.done })
	return r
}

func (r *rig) queue(name string) string {
	return r.top.Inbound(map[string]int{"bad": 1, "good": 2, "gone": 3}[name])
}

// note is the mover's Notify: an item ends once.
func (r *rig) note(ev transfer.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n[ev.State]++
	id := ev.Item.Tag.(string)
	if ev.State == transfer.Blocked {
		if r.errs[id] == nil {
			r.errs[id] = ev.Err
		}
		return
	}
	if s, twice := r.last[id]; twice {
		r.t.Errorf("%s ended twice, in state %d and %d", id, s, ev.State)
	}
	r.last[id] = ev.State
}

// state of an item; Blocked: it has not ended.
func (r *rig) state(id string) transfer.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[id]
}

// consume makes that the queue that messages are moved from.
func (r *rig) consume(name string) {
	r.t.Helper()
	var err error
	r.from = name
	if r.sub, err = r.broker.Consume(name, queue.ConsumeOptions{Prefetch: 1000}); err != nil {
		r.t.Fatal(err)
	}
}

// move publishes a message with that id and has it moved.
func (r *rig) move(id string, to ...string) {
	r.t.Helper()
	if err := r.broker.Broker.Publish(r.t.Context(), queue.Message{Queue: r.from, ID: id}); err != nil {
		r.t.Fatal(err)
	}
	it := &transfer.Item{Transfer: queue.Transfer{Delivery: <-r.sub.Deliveries()}, Tag: id}
	for _, name := range to {
		it.To = append(it.To, queue.Message{Queue: name, ID: id})
	}
	r.Add(it)
}

// idsOn takes the messages off a queue.
func (r *rig) idsOn(name string) (ids []string) {
	r.t.Helper()
	for _, m := range memorytest.Drain(r.t, r.broker.Broker, name) {
		ids = append(ids, m.ID)
	}
	return ids
}

func (r *rig) check(what string, got []string, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A queue that confirms nothing for an hour costs the others five seconds once,
// and one message of its own some copies; its order is kept.
func TestBlockedQueueHoldsUpItsOwnOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, slog.New(slog.DiscardHandler))
		bad, good := r.queue("bad"), r.queue("good")
		r.broker.set(bad, queue.ErrUnavailable)
		r.move("1", good)
		r.move("2", bad)
		r.move("3", good)
		r.move("4", bad)
		time.Sleep(5*time.Second + time.Millisecond)
		r.check("on the other queue after 5 s", r.idsOn(good), "1", "3")
		r.move("5", bad)
		r.move("6", good)
		synctest.Wait()
		r.check("on the other queue at once", r.idsOn(good), "6")
		time.Sleep(time.Hour)
		for i := range 200 {
			r.move(fmt.Sprint("more ", i), bad)
		}
		synctest.Wait()
		r.check("published to the other queue", r.broker.tried(good), "1", "3", "6")
		tries := r.broker.tried(bad)
		if most := 2 + 120; len(tries) > most || slices.ContainsFunc(tries[2:], func(id string) bool { return id != "2" }) {
			t.Errorf("in an hour published %d messages to the queue, %v, want at most %d, after the first try 2 alone", len(tries), tries[:4], most)
		}

		r.broker.set(bad, nil)
		time.Sleep(2 * time.Minute)
		want := []string{"2", "4", "5"}
		for i := range 200 {
			want = append(want, fmt.Sprint("more ", i))
		}
		r.check("on the queue", r.idsOn(bad), want...)
		r.broker.set(bad, queue.ErrUnavailable) // it is blocked no more: what comes now is tried with all else
		r.move("7", good, bad)
		time.Sleep(time.Minute)
		r.check("on the other queue", r.idsOn(good), "7")
		if s := r.state("7"); s != transfer.Blocked {
			t.Errorf("state of 7 = %d, want it to wait", s)
		}
	})
}

// Once many wait for a queue, an item with another message to publish gives way to them.
// A delayed message does not wait at all: it is on a retry queue.
func TestGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, slog.New(slog.DiscardHandler))
		bad, good := r.queue("bad"), r.queue("good")
		r.broker.set(bad, queue.ErrUnavailable)
		add := func(id string, instead *queue.Message, to ...queue.Message) {
			if err := r.broker.Broker.Publish(t.Context(), queue.Message{Queue: r.from, ID: id}); err != nil {
				t.Fatal(err)
			}
			r.Add(&transfer.Item{Transfer: queue.Transfer{Delivery: <-r.sub.Deliveries(), To: to}, Else: instead, Tag: id})
		}
		for i := range 100 {
			id := fmt.Sprint(i)
			add(id, &queue.Message{Queue: good, ID: id}, queue.Message{Queue: bad, ID: id})
		}
		add("without", nil, queue.Message{Queue: bad, ID: "without"})
		// Its first message is not the one that waits.
		add("part", &queue.Message{Queue: good, ID: "part"}, queue.Message{Queue: r.top.Dead(), ID: "part"}, queue.Message{Queue: bad, ID: "told"})
		time.Sleep(time.Minute)
		var want []string
		for i := 64; i < 100; i++ {
			want = append(want, fmt.Sprint(i))
		}
		r.check("on the other queue", r.idsOn(good), want...)
		blocked := func() int { r.mu.Lock(); defer r.mu.Unlock(); return r.n[transfer.Blocked] }
		before := blocked()
		add("gives way", &queue.Message{Queue: good, ID: "gives way"}, queue.Message{Queue: bad, ID: "gives way"})
		synctest.Wait()
		if n := blocked() - before; n != 1 || r.state("gives way") != transfer.Done {
			t.Errorf("an item that gives way was told %d times as blocked, and has state %d, want once, and done", n, r.state("gives way"))
		}
		name := r.top.Outbound(1)
		r.broker.set(name, queue.ErrUnavailable)
		add("now", nil, queue.Message{Queue: name, ID: "now"})
		time.Sleep(time.Minute)
		r.broker.set(name, nil) // the delayed one comes to it by the broker
		add("later", nil, queue.Message{Queue: name, ID: "later", Delay: time.Second})
		synctest.Wait()
		if now, later := r.state("now"), r.state("later"); now != transfer.Blocked || later != transfer.Done {
			t.Errorf("states = %d and %d, want the one without delay to wait alone", now, later)
		}
		r.broker.set(bad, nil)
		time.Sleep(2 * time.Minute)
		if got := r.idsOn(bad); len(got) != 66 || got[64] != "without" || got[65] != "told" {
			t.Errorf("on the queue are %d, %v at the end, want the first 64, and those that have nothing else", len(got), got[max(0, len(got)-3):])
		}
	})
}

// At the end, too, an item goes on that its queue takes at last: it waits for no other.
func TestEndWithTwoBlockedQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, slog.New(slog.DiscardHandler))
		bad, gone := r.queue("bad"), r.queue("gone")
		r.broker.set(bad, queue.ErrUnavailable)
		r.broker.set(gone, queue.ErrUnavailable)
		if err := r.broker.Broker.Publish(t.Context(), queue.Message{Queue: r.from, ID: "1"}); err != nil {
			t.Fatal(err)
		}
		r.Add(&transfer.Item{
			Transfer: queue.Transfer{Delivery: <-r.sub.Deliveries(), To: []queue.Message{{Queue: bad, ID: "1"}, {Queue: gone, ID: "1"}}},
			News:     "1", Tag: "1",
		})
		for i := range 100 {
			r.move(fmt.Sprint("more ", i), gone)
		}
		time.Sleep(time.Minute)
		r.End()
		r.broker.set(bad, nil)
		time.Sleep(2 * time.Minute)
		if s := r.state("1"); s != transfer.Done {
			t.Errorf("state of the item whose queue is well = %d, want done", s)
		}
		r.broker.set(gone, nil)
		<-r.done
		if s := r.state("more 99"); s != transfer.Done {
			t.Errorf("state of the last item of the other = %d, want done", s)
		}
	})
}

// Of one publish each message has its own queue's error: that one is gone says
// nothing of another.
func TestEachQueueHasItsOwnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, slog.New(slog.DiscardHandler))
		r.broker.set(r.queue("bad"), queue.ErrUnavailable)
		r.broker.set(r.queue("good"), queue.ErrUnavailable)
		r.move("first", r.queue("bad")) // the others are published together once this one's time is over
		synctest.Wait()
		r.move("1", r.queue("good"))
		r.broker.set(r.queue("gone"), queue.ErrUnroutable)
		r.move("2", r.queue("gone"))
		time.Sleep(10*time.Second + time.Millisecond)
		r.mu.Lock()
		defer r.mu.Unlock()
		for id, want := range map[string]error{"1": queue.ErrUnavailable, "2": queue.ErrUnroutable} {
			if err := r.errs[id]; !errors.Is(err, want) {
				t.Errorf("error of %s = %v, want %v", id, err, want)
			}
		}
	})
}

// A message with two parts waits for the one that its queue does not take, and
// the other is not published again.
func TestBlockedPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, slog.New(slog.DiscardHandler))
		dead, inbound := r.top.Dead(), r.top.Inbound(0)
		r.broker.set(inbound, queue.ErrUnavailable)
		r.move("1", dead, inbound)
		r.move("2", dead)
		time.Sleep(6 * time.Second)
		r.move("3", dead)
		r.move("4", dead, inbound)
		synctest.Wait()
		r.check("dead", r.idsOn(dead), "1", "2", "3")
		r.broker.set(inbound, nil)
		r.broker.set(dead, queue.ErrUnavailable)
		time.Sleep(3 * time.Minute)
		r.check("told", r.idsOn(inbound), "1", "4")
		r.move("5", inbound)
		synctest.Wait()
		r.check("told", r.idsOn(inbound), "5")
		r.broker.set(dead, nil)
		time.Sleep(3 * time.Minute)
		r.check("dead", r.idsOn(dead), "4")
		r.check("told", r.idsOn(inbound))
		for i := range 5 {
			if s := r.state(fmt.Sprint(i + 1)); s != transfer.Done {
				t.Errorf("state of %d = %d, want done", i+1, s)
			}
		}
	})
}

// An item that became stale while it waited is dropped, and not published.
func TestStaleIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, slog.New(slog.DiscardHandler))
		bad := r.queue("bad")
		r.broker.set(bad, queue.ErrUnavailable)
		r.consume(r.top.Outbound(1)) // the first, which the others are behind, lives on
		r.move("first", bad)
		r.consume(r.top.Outbound(2))
		for i := range 300 {
			r.move(fmt.Sprint(i), bad)
		}
		time.Sleep(time.Minute)
		if err := r.sub.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + time.Second)
		r.mu.Lock()
		if n := r.n[transfer.Stale]; n != 300 {
			t.Errorf("a minute after all but one became stale %d were let go of, want 300", n)
		}
		r.mu.Unlock()
		r.broker.set(bad, nil)
		time.Sleep(time.Minute)
		r.check("on the queue", r.idsOn(bad), "first")
		r.check("back on their own", r.idsOn(r.top.Outbound(2))[:2], "0", "1")
		if r.mu.Lock(); r.n[transfer.Stale] != 300 {
			t.Errorf("%d are stale, want 300", r.n[transfer.Stale])
		}
		r.mu.Unlock()
	})
}

// A message that no broker could take stays where it was, and the others go on.
func TestInvalidIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := newRig(t, slog.New(slog.NewTextHandler(&log, nil)))
		good := r.queue("good")
		r.move("1", good)
		r.move("2", good, strings.Repeat("x", 256))
		r.move("3", good)
		synctest.Wait()
		r.check("on the queue", r.idsOn(good), "1", "3")
		if err := r.sub.Close(); err != nil {
			t.Fatal(err)
		}
		r.check("where they came from", r.idsOn(r.top.Outbound(0)), "2")
		if s := r.state("2"); s != transfer.Failed {
			t.Errorf("state of 2 = %d, want failed", s)
		}
		if !strings.Contains(log.String(), "message cannot be moved") || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("log is %q, want one line about the message", log.String())
		}
	})
}

// End lets everything be tried, and what is blocked goes on until the context
// ends. Then every item has ended.
func TestEnd(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, slog.New(slog.DiscardHandler))
			r.broker.set(r.queue("bad"), queue.ErrUnavailable)
			for i := range 100 {
				r.move(fmt.Sprint(i), r.queue([]string{"good", "bad"}[i%2]))
			}
			r.End()
			time.Sleep(10 * time.Second)
			if n := len(r.idsOn(r.queue("good"))); n != 50 {
				t.Errorf("%d of 50 moved after End", n)
			}
			select {
			case <-r.done:
				t.Fatal("Run returned while messages wait for a queue")
			default:
			}
			want := transfer.Done
			if cancelled {
				r.cancel()
				want = transfer.Failed
			} else {
				r.broker.set(r.queue("bad"), nil)
				time.Sleep(time.Minute)
			}
			synctest.Wait()
			select {
			case <-r.done:
			default:
				t.Fatalf("Run did not return, cancelled %v", cancelled)
			}
			for i := range 100 {
				if s := r.state(fmt.Sprint(i)); i%2 == 0 && s != transfer.Done || i%2 == 1 && s != want {
					t.Errorf("state of %d = %d, cancelled %v", i, s, cancelled)
				}
			}
			if err := r.sub.Close(); err != nil {
				t.Fatal(err)
			}
			if n := len(r.idsOn(r.top.Outbound(0))); cancelled != (n == 50) {
				t.Errorf("%d messages went back, cancelled %v", n, cancelled)
			}
		})
	}
}

// An item that is cut off in its first try has ended, too.
func TestCancelInATry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, slog.New(slog.DiscardHandler))
		r.broker.set(r.queue("bad"), queue.ErrUnavailable)
		r.move("1", r.queue("bad"))
		synctest.Wait()
		r.move("2", r.queue("bad"))
		r.cancel()
		<-r.done
		for _, id := range []string{"1", "2"} {
			if s := r.state(id); s != transfer.Failed {
				t.Errorf("state of %s = %d, want failed", id, s)
			}
		}
		if err := r.sub.Close(); err != nil && !errors.Is(err, queue.ErrClosed) {
			t.Fatal(err)
		}
		r.check("where they came from", r.idsOn(r.top.Outbound(0)), "1", "2")
	})
}
