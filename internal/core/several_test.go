package core

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/rooms"
)

// wire is the connection of one core to a broker that others use, too. It can be cut: then
// the broker takes back the messages that the core holds, and the core hears of it only by
// silence. Once it is mended the core consumes again.
type wire struct {
	*memory.Broker

	mu   sync.Mutex
	cut  chan struct{} // nil: it is whole
	subs []*wireSub
}

// wireSub is a subscription through a wire. Its deliveries never end.
type wireSub struct {
	wire   *wire
	name   string
	opts   queue.ConsumeOptions
	out    chan *queue.Delivery
	inner  queue.Subscription // nil while the wire is cut
	closed bool
}

func (w *wire) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &wireSub{wire: w, name: name, opts: opts, out: make(chan *queue.Delivery, 1000)}
	w.subs = append(w.subs, s)
	return s, s.openLocked()
}

func (s *wireSub) openLocked() error {
	if s.wire.cut != nil || s.closed {
		return nil
	}
	inner, err := s.wire.Broker.Consume(s.name, s.opts)
	if err != nil {
		return err
	}
	s.inner = inner
	go func() { // ends with inner
		for d := range inner.Deliveries() {
			s.out <- d
		}
	}()
	return nil
}

func (s *wireSub) Deliveries() <-chan *queue.Delivery { return s.out }

func (s *wireSub) Close() error {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	s.closed = true
	if s.inner == nil {
		return nil
	}
	return s.inner.Close()
}

func (w *wire) IsSilent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut != nil
}

// Publish waits while the wire is cut.
func (w *wire) Publish(ctx context.Context, msgs ...queue.Message) error {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut != nil {
		select {
		case <-cut:
		case <-ctx.Done():
			return queue.ErrUnavailable
		}
	}
	return w.Broker.Publish(ctx, msgs...)
}

// sever cuts the wire; the broker notices that after a while.
func (w *wire) sever(noticed time.Duration) {
	w.mu.Lock()
	w.cut = make(chan struct{})
	w.mu.Unlock()
	time.Sleep(noticed)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.subs {
		if s.inner != nil {
			memorytest.Lose(s.inner)
			s.inner = nil
		}
	}
}

// mend ends the cut.
func (w *wire) mend(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.cut)
	w.cut = nil
	for _, s := range w.subs {
		if err := s.openLocked(); err != nil {
			t.Error(err)
		}
	}
}

// several is cores that share a broker and a store, and a room of two on each of some
// pages, who write by turns.
type several struct {
	t      *testing.T
	broker *memory.Broker
	store  *rooms.Store
	stops  []func() error
	rigs   []*rig
	wires  []*wire
	said   int
}

const severalPages = 12

func newSeveral(t *testing.T) *several {
	t.Helper()
	return &several{t: t, broker: memorytest.New(t, queue.Topology{Prefix: "test", Partitions: 8}), store: newStore(t, "sqlite::memory:")}
}

// start starts a core more. To publish takes each core another time.
func (s *several) start() {
	s.t.Helper()
	k := len(s.rigs)
	w := &wire{Broker: s.broker}
	r := newRigOn(s.t, s.broker, s.store, func(c *Config) { c.Broker = &flakyBroker{Broker: w}; c.Workers = 8 })
	random := rand.New(rand.NewPCG(1, uint64(k)))
	var mu sync.Mutex
	r.core.cfg.Broker.(*flakyBroker).before = func(ctx context.Context, _ []queue.Message) error { //nolint:forcetypeassert // given above
		mu.Lock()
		d := time.Duration(1+k%3) * time.Duration(random.IntN(12)) * time.Millisecond
		mu.Unlock()
		backoff.Sleep(ctx, d)
		return nil
	}
	s.rigs, s.wires, s.stops = append(s.rigs, r), append(s.wires, w), append(s.stops, r.start(s.t))
}

func (s *several) stop(k int) {
	s.t.Helper()
	if err := s.stops[k](); err != nil {
		s.t.Errorf("Run() of core %d = %v, want nil", k, err)
	}
}

// join has the people of each page enter its room.
func (s *several) join() {
	s.t.Helper()
	for p := range severalPages {
		for _, user := range []string{"1", "2"} {
			s.rigs[0].say(s.t, on(fmt.Sprint("p", p), text(user, "join"+user, "")))
		}
	}
	time.Sleep(2 * time.Second)
	s.sent()
}

// say puts an event of each page on the queues.
func (s *several) say() {
	s.t.Helper()
	for p := range severalPages {
		s.rigs[0].say(s.t, on(fmt.Sprint("p", p), text(fmt.Sprint(1+s.said%2), fmt.Sprint("m", s.said), fmt.Sprint(s.said))))
	}
	s.said++
}

// flow says something each gap for a while.
func (s *several) flow(gap, most time.Duration) {
	s.t.Helper()
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(gap) {
		s.say()
	}
}

// enter goes on until those that have started have their place, which they take in a
// backlog of so many events of each page, and the others have left theirs for long enough
// to say so.
func (s *several) enter(gap time.Duration, backlog int) {
	s.t.Helper()
	s.flow(5*gap, 4500*time.Millisecond)
	for range backlog {
		s.say()
	}
	s.flow(gap, time.Second)
	s.flow(5*gap, 10*time.Second)
}

// sent takes the copies of the texts, by page and recipient, as numbers.
func (s *several) sent() map[string][]int {
	s.t.Helper()
	all := make(map[string][]int)
	for i := range s.broker.Topology().Partitions {
		for _, m := range take(s.t, s.broker, s.broker.Topology().Outbound(i)) {
			o, err := message.DecodeOutbound(m.Body)
			if err != nil {
				s.t.Fatal(err)
			}
			var n int
			if _, words, ok := strings.Cut(o.Text, ": "); ok {
				if _, err := fmt.Sscan(words, &n); err == nil {
					key := o.Page + "/" + o.To
					all[key] = append(all[key], n)
				}
			}
		}
	}
	return all
}

// check wants each copy once, in order, but for doubles next to each other.
func (s *several) check(doubles int) {
	s.t.Helper()
	sent, doubled := s.sent(), 0
	for p := range severalPages {
		for user := range 2 {
			key := fmt.Sprintf("p%d/%d", p, 1+user)
			var want []int
			for n := 1 - user; n < s.said; n += 2 {
				want = append(want, n)
			}
			got := slices.Compact(slices.Clone(sent[key]))
			doubled += len(sent[key]) - len(got)
			if !slices.Equal(got, want) {
				i := 0
				for i < min(len(got), len(want)) && got[i] == want[i] {
					i++
				}
				s.t.Errorf("copies to %s: %d, want %d; the first other one is number %d: %v", key, len(got), len(want), i, got[i:min(len(got), i+5)])
			}
		}
	}
	if doubled > doubles {
		s.t.Errorf("copies doubled = %d, want %d at most", doubled, doubles)
	}
}

// Order holds with several cores, with and without a backlog, while some start and others
// are stopped: no copy is overtaken, lost or doubled.
func TestOrderOfSeveralCores(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		cores   int
		gap     time.Duration // between two events of a page
		backlog int           // events of each page
	}{{2, time.Second, 0}, {2, 120 * time.Millisecond, 100}, {4, 120 * time.Millisecond, 50}} {
		t.Run(fmt.Sprintf("%+v", row), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSeveral(t)
				s.start()
				s.join()
				for range row.cores - 1 {
					s.start()
				}
				s.enter(row.gap, row.backlog)
				for k, r := range s.rigs {
					if n := r.core.keeper.Owned(); n == 0 || n == s.broker.Topology().Partitions {
						t.Errorf("core %d has %d partitions, want a part", k, n)
					}
				}
				for range row.backlog {
					s.say()
				}
				time.Sleep(100 * time.Millisecond)
				s.stop(0)
				s.flow(row.gap, 2*time.Second)
				s.start()
				s.enter(row.gap, 0)
				s.stop(1)
				s.flow(row.gap, 2*time.Second)
				time.Sleep(time.Minute)
				s.check(0)
				for k := 2; k < len(s.rigs); k++ {
					s.stop(k)
				}
			})
		})
	}
}

// A core that is paused, or cut off, loses nothing, and does nothing for what is another's
// by then. Events in its hands may be doubled.
func TestCoreIsCutOff(t *testing.T) {
	t.Parallel()
	for _, comesBack := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSeveral(t)
			s.start()
			s.join()
			s.start()
			s.flow(100*time.Millisecond, 8*time.Second)
			for range 100 {
				s.say()
			}
			time.Sleep(50 * time.Millisecond)
			go s.wires[0].sever(10 * time.Second)
			s.flow(100*time.Millisecond, 15*time.Second)
			if comesBack {
				s.wires[0].mend(t)
			}
			s.flow(100*time.Millisecond, 5*time.Second)
			time.Sleep(time.Minute)
			s.check(8) // its workers had one each
			s.stop(0)
			s.stop(1)
		})
	}
}

// While the broker is silent nothing is begun, because another core may have it by then.
func TestNothingIsBegunInSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSeveral(t)
		s.start()
		s.join()
		w := s.wires[0]
		w.mu.Lock()
		w.cut = make(chan struct{})
		w.mu.Unlock()
		var received atomic.Int64
		s.rigs[0].store.before = func(method string) error {
			if method == "receive" {
				received.Add(1)
			}
			return nil
		}
		s.say()
		time.Sleep(time.Minute)
		if n := received.Load(); n > 0 {
			t.Errorf("events begun in silence = %d, want none", n)
		}
		w.mu.Lock()
		close(w.cut)
		w.cut = nil
		w.mu.Unlock()
		time.Sleep(time.Second)
		s.check(0)
		s.stop(0)
	})
}

// A core that is outranked while a page of the partition is stuck leaves all the same:
// the other pages go on elsewhere.
func TestOutrankedCoreLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSeveral(t)
		s.start()
		s.join()
		stuck := s.rigs[0].core.cfg.Broker.(*flakyBroker) //nolint:forcetypeassert // start makes it
		stuck.before = func(ctx context.Context, _ []queue.Message) error {
			<-ctx.Done()
			return queue.ErrUnavailable
		}
		s.say()
		time.Sleep(time.Second)
		s.start()
		s.flow(time.Second, 40*time.Second)
		if n := s.rigs[1].core.keeper.Owned(); n == 0 || n == s.broker.Topology().Partitions {
			t.Errorf("the second core has %d partitions, want its part", n)
		}
		s.stop(0)
		time.Sleep(time.Minute)
		s.check(0)
		s.stop(1)
	})
}
