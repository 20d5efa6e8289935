package broadcast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"chatclub/internal/backoff"
	"chatclub/internal/command"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/rooms"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// errAway is the error of a database that is away.
var errAway = errors.New("away")

// flakyBroker is a broker whose Publish a test can make fail.
type flakyBroker struct {
	queue.Broker
	before  func(msgs []queue.Message) error                      // nil: nothing
	instead func(ctx context.Context, msgs []queue.Message) error // of the broker; nil: the broker
	delay   time.Duration                                         // before it publishes
}

func (b *flakyBroker) Publish(ctx context.Context, msgs ...queue.Message) error {
	if !backoff.Sleep(ctx, b.delay) {
		return queue.ErrUnavailable
	}
	if b.before != nil {
		if err := b.before(msgs); err != nil {
			return err
		}
	}
	if b.instead != nil {
		return b.instead(ctx, msgs)
	}
	return b.Broker.Publish(ctx, msgs...)
}

// flakyStore is a store whose methods a test can make fail, by their names.
type flakyStore struct {
	rooms.Broadcasts
	before func(method string) error // nil: nothing
	slow   string                    // the page whose reads take longer than they may; those that begin like it, too; empty: none
}

func (s *flakyStore) fail(method string) error {
	if s.before == nil {
		return nil
	}
	return s.before(method)
}

func (s *flakyStore) Claim(ctx context.Context, holder string, lease time.Duration) (rooms.Claim, error) {
	if err := s.fail("claim"); err != nil {
		return rooms.Claim{}, err
	}
	c, err := s.Broadcasts.Claim(ctx, holder, lease)
	return c, errors.Join(err, s.fail("claimed"))
}

func (s *flakyStore) Release(ctx context.Context, holder string, ids ...string) error {
	if err := s.fail("release"); err != nil {
		return err
	}
	return s.Broadcasts.Release(ctx, holder, ids...)
}

func (s *flakyStore) NextRecipients(ctx context.Context, holder string, b rooms.Broadcast, limit int) (rooms.Recipients, error) {
	if err := s.fail("next"); err != nil {
		return rooms.Recipients{}, err
	}
	if limit > 0 && s.slow != "" && strings.HasPrefix(b.Page, s.slow) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		<-ctx.Done()
		return rooms.Recipients{}, ctx.Err()
	}
	return s.Broadcasts.NextRecipients(ctx, holder, b, limit)
}

func (s *flakyStore) Advance(ctx context.Context, holder string, p rooms.Progress) (rooms.BroadcastState, error) {
	if err := s.fail("advance"); err != nil {
		return "", err
	}
	return s.Broadcasts.Advance(ctx, holder, p)
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

// rig is a scheduler on an in-memory broker and database.
type rig struct {
	broker    *memory.Broker
	flaky     *flakyBroker
	db        *rooms.Store
	store     *flakyStore
	counter   *rooms.Counter
	reg       *prometheus.Registry
	scheduler *Scheduler
}

func newBroker(t testing.TB) *memory.Broker {
	t.Helper()
	return memorytest.New(t, queue.Topology{Prefix: "test", Partitions: 1})
}

// newStore returns a migrated store.
func newStore(t testing.TB, url string, now func() time.Time) *rooms.Store {
	t.Helper()
	s, err := rooms.Open(rooms.Config{DatabaseURL: url, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:", nil), nil)
}

func newRigOn(t testing.TB, b *memory.Broker, s *rooms.Store, now func() time.Time) *rig {
	t.Helper()
	r := &rig{broker: b, flaky: &flakyBroker{Broker: b}, db: s, store: &flakyStore{Broadcasts: s.Broadcasts()}, counter: new(rooms.Counter), reg: prometheus.NewRegistry()}
	var err error
	r.scheduler, err = New(Config{Broker: r.flaky, Store: r.store, Counter: r.counter, Registerer: r.reg, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// another returns one more scheduler on the rig's broker and database.
func (r *rig) another(t testing.TB) *rig {
	t.Helper()
	return newRigOn(t, r.broker, r.db, nil)
}

// start runs the scheduler until the returned function is called.
func (r *rig) start(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.scheduler.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// members makes users u001 … of a page, all in room 1.
func (r *rig) members(t testing.TB, page string, n int) {
	t.Helper()
	for i := range n {
		user := fmt.Sprintf("u%03d", i+1)
		ev := rooms.Event{Page: page, User: user, ID: "join" + user, At: time.Now(), Command: command.Command{Kind: command.Start}}
		if _, err := r.db.Receive(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
}

// to returns a broadcast to all rooms of a page, with a deadline in an hour.
func to(page, id string, rate float64) rooms.Broadcast {
	return rooms.Broadcast{ID: id, Page: page, Text: "x", Rate: rate, Deadline: time.Now().Add(time.Hour)}
}

// add adds a broadcast, which must be new.
func (r *rig) add(t testing.TB, b rooms.Broadcast) {
	t.Helper()
	got, err := r.scheduler.Add(t.Context(), b)
	if err != nil || got.ID != b.ID || got.Queued != 0 || got.State != rooms.BroadcastRunning {
		t.Fatalf("Add(%s) = %+v, %v, want it running", b.ID, got, err)
	}
}

func (r *rig) wantMetrics(t testing.TB, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(r.reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// mortal makes the scheduler die at its next call of method after kill was called.
// Then its calls have no more effect, and gone is closed.
func (r *rig) mortal(method string) (kill func(), gone <-chan struct{}) {
	var armed, dead atomic.Bool
	ended := make(chan struct{})
	r.store.before = func(called string) error {
		if called == method && armed.Load() && dead.CompareAndSwap(false, true) {
			close(ended)
		}
		if dead.Load() {
			return errAway
		}
		return nil
	}
	r.flaky.before = func([]queue.Message) error {
		if dead.Load() {
			return queue.ErrUnavailable
		}
		return nil
	}
	return func() { armed.Store(true) }, ended
}

// recorder takes the messages of the partition as they come, and records when.
type recorder struct {
	begin time.Time

	mu    sync.Mutex
	times map[string][]time.Duration // by broadcast, since begin
	ids   map[string]int             // how often each message came
}

// record starts a recorder on the first partition. It needs a synctest bubble.
func record(t testing.TB, b *memory.Broker) *recorder {
	t.Helper()
	return recordOn(t, b, b.Topology().Outbound(0))
}

// recordOn is record on another queue.
func recordOn(t testing.TB, b *memory.Broker, name string) *recorder {
	t.Helper()
	sub, err := b.Consume(name, queue.ConsumeOptions{Prefetch: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	rec := &recorder{begin: time.Now(), times: map[string][]time.Duration{}, ids: map[string]int{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for d := range sub.Deliveries() {
			o, err := message.DecodeOutbound(d.Body)
			if err != nil || d.Ack() != nil {
				t.Errorf("message %s of a broadcast: %v", d.ID, err)
			}
			rec.mu.Lock()
			rec.times[o.Broadcast] = append(rec.times[o.Broadcast], time.Since(rec.begin))
			rec.ids[d.ID]++
			rec.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = sub.Close()
		<-ended
	})
	return rec
}

// of returns the times at which messages of a broadcast came.
func (rec *recorder) of(id string) []time.Duration {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return append([]time.Duration(nil), rec.times[id]...)
}

// wantOnce checks how many messages of a broadcast came, and that each message
// came once.
func (rec *recorder) wantOnce(t testing.TB, id string, want int) {
	t.Helper()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if got := len(rec.times[id]); got != want {
		t.Errorf("messages of broadcast %s = %d, want %d", id, got, want)
	}
	for key, n := range rec.ids {
		if n > 1 {
			t.Errorf("message %s came %d times, want once", key, n)
		}
	}
}

// wantRate checks that in any T seconds at most rate × (T + 1.2 s) + least
// messages came.
func (rec *recorder) wantRate(t testing.TB, id string, rate float64, least int) {
	t.Helper()
	times := rec.of(id)
	for i := range times {
		for j := i; j < len(times); j++ {
			if most := rate*((times[j]-times[i]).Seconds()+1.2) + float64(least); float64(j-i+1) > most {
				t.Fatalf("messages of %s from %v to %v = %d, want at most %g", id, times[i], times[j], j-i+1, most)
			}
		}
	}
}

// wantLast checks when the last message of a broadcast came.
func (rec *recorder) wantLast(t testing.TB, id string, least, most time.Duration) {
	t.Helper()
	times := rec.of(id)
	if len(times) == 0 || times[len(times)-1] < least || times[len(times)-1] > most {
		t.Errorf("the last of %d messages of %s came at %v, want between %v and %v", len(times), id, times[max(0, len(times)-1):], least, most)
	}
}

// take takes all messages off the partition. It needs a synctest bubble.
func (r *rig) take(t testing.TB) []queue.Message {
	t.Helper()
	synctest.Wait()
	return memorytest.Drain(t, r.broker, r.broker.Topology().Outbound(0))
}
