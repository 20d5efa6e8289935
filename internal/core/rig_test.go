package core

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/rooms"
)

func TestMain(m *testing.M) { rabbittest.Main(m) }

// errAway is the error of a database or broker that is away.
var errAway = errors.New("away")

// flakyBroker is a broker whose Publish a test can make fail.
type flakyBroker struct {
	queue.Broker
	before func(ctx context.Context, msgs []queue.Message) error // nil: nothing
}

func (b *flakyBroker) Publish(ctx context.Context, msgs ...queue.Message) error {
	if b.before != nil {
		if err := b.before(ctx, msgs); err != nil {
			return err
		}
	}
	return b.Broker.Publish(ctx, msgs...)
}

// flakyStore is a store whose methods a test can make fail, by their names.
type flakyStore struct {
	Store
	before func(method string) error // nil: nothing
}

func (s *flakyStore) fail(method string) error {
	if s.before == nil {
		return nil
	}
	return s.before(method)
}

func (s *flakyStore) Migrate(ctx context.Context) error {
	return errors.Join(s.fail("migrate"), s.Store.Migrate(ctx))
}

func (s *flakyStore) Ping(ctx context.Context) error {
	return errors.Join(s.fail("ping"), s.Store.Ping(ctx))
}

func (s *flakyStore) Receive(ctx context.Context, ev rooms.Event) (rooms.Result, error) {
	if err := s.fail("receive"); err != nil {
		return rooms.Result{}, err
	}
	return s.Store.Receive(ctx, ev)
}

func (s *flakyStore) Done(ctx context.Context, page, id string) error {
	if err := s.fail("done"); err != nil {
		return err
	}
	return s.Store.Done(ctx, page, id)
}

func (s *flakyStore) Gone(ctx context.Context, page, psid string, at time.Time) error {
	if err := s.fail("gone"); err != nil {
		return err
	}
	return s.Store.Gone(ctx, page, psid, at)
}

func (s *flakyStore) Prune(ctx context.Context, before time.Time) (int64, error) {
	if err := s.fail("prune"); err != nil {
		return 0, err
	}
	return s.Store.Prune(ctx, before)
}

// times returns a hook that fails the first n calls of a method.
func times(n int, method string) func(string) error {
	var mu sync.Mutex
	return func(called string) error {
		mu.Lock()
		defer mu.Unlock()
		if called != method || n == 0 {
			return nil
		}
		n--
		return errAway
	}
}

// rig is a core on an in-memory broker and database.
type rig struct {
	broker *memory.Broker
	flaky  *flakyBroker
	store  *flakyStore
	reg    *prometheus.Registry
	core   *Core

	unexplained float64 // waits that the test brings about
}

func newBroker(t testing.TB) *memory.Broker {
	t.Helper()
	return memorytest.New(t, queue.Topology{Prefix: "test", Partitions: 1})
}

func newStore(t testing.TB, url string) *rooms.Store {
	t.Helper()
	s, err := rooms.Open(rooms.Config{DatabaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"))
}

// newIdleRig returns a rig whose silent members leave.
func newIdleRig(t testing.TB, b *memory.Broker, idle time.Duration) *rig {
	t.Helper()
	s, err := rooms.Open(rooms.Config{DatabaseURL: "sqlite::memory:", Idle: idle})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return newRigOn(t, b, s, func(c *Config) { c.Idle = idle })
}

// newRigOn returns a rig on a broker and store, with changes of its Config.
func newRigOn(t testing.TB, b *memory.Broker, s Store, changes ...func(*Config)) *rig {
	t.Helper()
	r := &rig{broker: b, flaky: &flakyBroker{Broker: b}, store: &flakyStore{Store: s}, reg: prometheus.NewRegistry()}
	cfg := Config{Broker: r.flaky, Store: r.store, Workers: 4, Registerer: r.reg}
	for _, change := range changes {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.core = c
	t.Cleanup(func() {
		if n := testutil.ToFloat64(c.metrics.unexplained); n != r.unexplained {
			t.Errorf("waits without a reason that holds = %v, want %v", n, r.unexplained)
		}
	})
	return r
}

// placeTime is the time that a core takes to find its place: it waits for others that
// take the same.
const placeTime = 50 * time.Millisecond

// start runs the core until the returned function is called, which returns
// Run's error. It waits until the core has its place.
func (r *rig) start(t testing.TB) (stop func() error) {
	t.Helper()
	defer time.Sleep(placeTime)
	return r.launch(t)
}

// launch is start without the wait.
func (r *rig) launch(t testing.TB) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.core.Run(ctx) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
}

// handled runs the core until it has handled all events.
func (r *rig) handled(t testing.TB) {
	t.Helper()
	stop := r.start(t)
	synctest.Wait()
	if err := stop(); err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
}

// say puts events on the inbound partitions of their pages.
func (r *rig) say(t testing.TB, events ...message.Event) {
	t.Helper()
	for _, ev := range events {
		body, err := ev.Encode()
		if err != nil {
			t.Fatal(err)
		}
		r.put(t, ev.Page, ev.Page+"/"+ev.ID, body)
	}
}

func (r *rig) put(t testing.TB, page, id string, body []byte) {
	t.Helper()
	msg := queue.Message{Queue: r.broker.Topology().InboundOf(page), ID: id, Body: body}
	if err := r.broker.Publish(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
}

// text returns a user's message on page p, of the year 1970.
func text(user, id, words string) message.Event {
	return message.Event{Kind: message.KindMessage, Page: "p", ID: id, User: user, Time: 1, Text: words}
}

// now returns a user's message on page p, of this moment.
func now(user, id, words string) message.Event {
	ev := text(user, id, words)
	ev.Time = time.Now().UnixMilli()
	return ev
}

// take takes all messages off a queue. It needs a synctest bubble.
func take(t testing.TB, b *memory.Broker, name string) []queue.Message {
	t.Helper()
	synctest.Wait()
	return memorytest.Drain(t, b, name)
}

// sent takes the copies off the partition, as "recipient: text".
func (r *rig) sent(t testing.TB) []string {
	t.Helper()
	var got []string
	for _, m := range take(t, r.broker, r.broker.Topology().Outbound(0)) {
		o, err := message.DecodeOutbound(m.Body)
		if err != nil {
			t.Fatalf("outbound message %s: %v", m.ID, err)
		}
		if m.ID != o.ID {
			t.Errorf("outbound message id = %q, want its copy's id %q", m.ID, o.ID)
		}
		got = append(got, o.To+": "+o.Text)
	}
	return got
}

// wantQueue checks how many messages a queue without consumers holds.
func (r *rig) wantQueue(t testing.TB, name string, want int) {
	t.Helper()
	info, err := r.broker.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if info.Ready != want {
		t.Errorf("messages on %s = %d, want %d", name, info.Ready, want)
	}
}

func wantSent(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("copies %s: -want +got\n%s", what, diff)
	}
}

func (r *rig) wantMetrics(t testing.TB, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(r.reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

const (
	welcomeFirst = "Welcome to room 1, Guest 1! You are the first one here. Everything you write goes to everybody here."
	welcomeNext  = "Welcome to room 1, Guest 2! You are with 1 other. Everything you write goes to everybody here."
)
