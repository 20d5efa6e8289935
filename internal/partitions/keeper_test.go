package partitions

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replica is a keeper whose messages are handled by the test.
type replica struct {
	*Keeper

	mu    sync.Mutex
	hold  bool          // messages stay with the test
	takes time.Duration // to handle one
	kept  []func()      // held messages, to be handled
	done  []string      // ids in the order of their handling
	stop  func() error
}

// start starts a keeper.
func start(t *testing.T, b queue.Broker, change func(*replica)) *replica {
	t.Helper()
	top := b.Topology()
	r, work := &replica{}, make(chan func(), 1000)
	r.Keeper = &Keeper{
		Config: Config{Broker: b, Slots: top.CoreSlots(), Log: slog.New(slog.DiscardHandler), Random: rand.Float64},
		Queues: top.Inbounds(), Prefetch: 4, Patience: 20 * time.Second,
	}
	r.Take = func(c *Claim, d *queue.Delivery) {
		handle := func() {
			c.Handle(func() {
				time.Sleep(r.takes)
				if err := d.Ack(); err != nil {
					t.Errorf("Ack(%s) = %v, want nil", d.ID, err)
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				r.done = append(r.done, d.ID)
			})
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.hold {
			r.kept = append(r.kept, handle)
		} else {
			work <- handle
		}
	}
	go func() {
		for handle := range work {
			handle()
		}
	}()
	if change != nil {
		change(r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- r.Run(ctx)
		close(work)
	}()
	r.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	return r
}

func (r *replica) end(t *testing.T) {
	t.Helper()
	if err := r.stop(); err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
}

func (r *replica) handled() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.done)
}

func put(t *testing.T, b queue.Broker, name string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := b.Publish(t.Context(), queue.Message{Queue: name, ID: id}); err != nil {
			t.Fatal(err)
		}
	}
}

func ids(first, last int) (list []string) {
	for i := first; i <= last; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

func inBubble(t *testing.T, partitions int, test func(t *testing.T, b *memory.Broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, memorytest.New(t, queue.Topology{Prefix: "test", Partitions: partitions}))
	})
}

// One alone has everything at once. A newcomer has nothing for five seconds, then its
// part; when one leaves, the other has all.
func TestNewcomerIsOnTrial(t *testing.T) {
	t.Parallel()
	inBubble(t, 16, func(t *testing.T, b *memory.Broker) {
		first := start(t, b, nil)
		time.Sleep(100 * time.Millisecond)
		shares := func() (one, other int) {
			for i, name := range b.Topology().Inbounds() {
				put(t, b, name, fmt.Sprint(time.Now().UnixNano(), "/", i))
			}
			synctest.Wait()
			one = len(first.handled())
			first.mu.Lock()
			defer first.mu.Unlock()
			first.done = nil
			return one, 16 - one
		}
		if one, _ := shares(); one != 16 {
			t.Errorf("one alone has %d partitions, want 16", one)
		}
		second := start(t, b, nil)
		time.Sleep(4900 * time.Millisecond)
		if _, other := shares(); other != 0 {
			t.Errorf("a newcomer has %d partitions, want none", other)
		}
		time.Sleep(500 * time.Millisecond)
		if _, other := shares(); other < 6 || other > 10 {
			t.Errorf("after its trial it has %d partitions, want about 8", other)
		}
		if got := second.Owned(); got < 6 || got > 10 {
			t.Errorf("Owned() = %d, want about 8", got)
		}
		second.end(t)
		if one, _ := shares(); one != 16 {
			t.Errorf("after the other has gone it has %d partitions, want 16", one)
		}
		first.end(t)
	})
}

// A replica that stops ends its work in hand, and nothing is done twice or overtaken.
func TestStopLeavesInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, b *memory.Broker) {
		slow := func(r *replica) { r.takes = 3 * time.Second }
		first := start(t, b, slow)
		time.Sleep(time.Second)
		second := start(t, b, slow)
		put(t, b, b.Topology().Inbound(0), ids(1, 20)...)
		time.Sleep(10 * time.Second)
		began := time.Now()
		first.end(t)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Run() took %v to end, want what is in hand, 3 s at most", took)
		}
		time.Sleep(time.Minute)
		if got := append(first.handled(), second.handled()...); !slices.Equal(got, ids(1, 20)) {
			t.Errorf("handled %v, want 1 to 20", got)
		}
		if n := len(first.handled()); n == 0 || n == 20 {
			t.Errorf("the first has handled %d, want some", n)
		}
		second.end(t)
	})
}

// One whose message in hand never ends leaves after its patience, and the message goes to
// another.
func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, b *memory.Broker) {
		hang := make(chan struct{})
		first := start(t, b, func(r *replica) {
			r.Take = func(c *Claim, _ *queue.Delivery) { go c.Handle(func() { <-hang }) }
		})
		time.Sleep(time.Second)
		put(t, b, b.Topology().Inbound(0), "1")
		synctest.Wait()
		second := start(t, b, nil)
		time.Sleep(10 * time.Second)
		began := time.Now()
		first.end(t)
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("Run() took %v to end, want its patience of 20 s", took)
		}
		synctest.Wait()
		if got := second.handled(); !slices.Equal(got, []string{"1"}) {
			t.Errorf("the second has handled %v, want the message", got)
		}
		close(hang)
		second.end(t)
	})
}

// An owner that is outranked while it holds something hands it over, in order; an
// owner that is not keeps it, as long as it is not held for HeldTime.
func TestHolderIsOutranked(t *testing.T) {
	t.Parallel()
	inBubble(t, 16, func(t *testing.T, b *memory.Broker) {
		first := start(t, b, func(r *replica) { r.hold = true })
		time.Sleep(time.Second)
		for _, name := range b.Topology().Inbounds() {
			put(t, b, name, name+"/1")
		}
		second := start(t, b, nil)
		time.Sleep(10 * time.Second)
		for _, name := range b.Topology().Inbounds() { // now more waits
			put(t, b, name, name+"/2")
		}
		time.Sleep(3 * time.Second)
		got := second.handled()
		if len(got) < 12 || len(got) > 20 {
			t.Fatalf("the second has handled %d, want both of about 8 partitions", len(got))
		}
		for i, id := range got {
			if id[len(id)-1] == '2' && !slices.Contains(got[:i], id[:len(id)-1]+"1") {
				t.Errorf("%s was handled before what is in front of it", id)
			}
		}
		time.Sleep(HeldTime - 20*time.Second)
		first.mu.Lock()
		kept := len(first.kept)
		first.mu.Unlock()
		if kept != 16+(32-len(got)-(16-len(got)/2)) {
			t.Errorf("the first was given %d messages, want those of its partitions once", kept)
		}
		time.Sleep(time.Minute)
		first.mu.Lock()
		again := len(first.kept)
		first.hold = false
		list := first.kept
		first.mu.Unlock()
		if again != kept+32-len(got) {
			t.Errorf("after HeldTime it was given %d messages more, want the %d that it held for too long", again-kept, 32-len(got))
		}
		for _, handle := range list {
			handle()
		}
		if n := len(first.handled()) + len(got); n != 32 {
			t.Errorf("handled = %d, want 32, each once", n)
		}
		first.end(t)
		second.end(t)
	})
}

// Two that have the same slot come to have two.
func TestSlotIsTakenTwice(t *testing.T) {
	t.Parallel()
	for range 4 { // which one moves is chance
		inBubble(t, 16, func(t *testing.T, b *memory.Broker) {
			first := start(t, b, nil)
			time.Sleep(time.Second)
			second := start(t, b, nil)
			time.Sleep(10 * time.Second)
			one, _ := first.standing()
			other, _ := second.standing()
			sub, err := b.Consume(b.Topology().CoreSlots()[one.Slot], queue.ConsumeOptions{Prefetch: 1})
			if err != nil {
				t.Fatal(err)
			}
			other.Close()
			second.move(Place{Slot: one.Slot, Ranks: one.Ranks, Sub: sub}, false)
			time.Sleep(2 * time.Minute)
			one, _ = first.standing()
			if other, _ = second.standing(); one.Slot == other.Slot {
				t.Errorf("both have slot %d after two minutes", one.Slot)
			}
			first.end(t)
			second.end(t)
		})
	}
}

// sickSlot is a broker one of whose slot queues does not answer, or, as a queue without a
// leader, answers that it is empty.
type sickSlot struct {
	queue.Broker
	name  string
	empty bool
}

func (s sickSlot) Inspect(ctx context.Context, name string) (queue.Info, error) {
	if name == s.name && s.empty {
		return queue.Info{}, nil
	}
	if name == s.name {
		<-ctx.Done()
		return queue.Info{}, ctx.Err()
	}
	return s.Broker.Inspect(ctx, name)
}

// A slot whose queue is sick keeps nobody from another.
func TestSickSlot(t *testing.T) {
	t.Parallel()
	for _, empty := range []bool{false, true} {
		inBubble(t, 1, func(t *testing.T, b *memory.Broker) {
			r := start(t, sickSlot{b, b.Topology().CoreSlots()[0], empty}, nil)
			time.Sleep(takeTime + 2*time.Second)
			put(t, b, b.Topology().Inbound(0), "1")
			synctest.Wait()
			place, _ := r.standing()
			if got := r.handled(); !slices.Equal(got, []string{"1"}) || place.Slot != 1 {
				t.Errorf("empty %v: handled %v with slot %d, want the message with slot 1", empty, got, place.Slot)
			}
			r.end(t)
		})
	}
}

// A broker that others close ends Run with an error.
func TestBrokerIsClosed(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(t *testing.T, b *memory.Broker) {
		r := start(t, b, nil)
		time.Sleep(time.Second)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := r.stop(); err == nil {
			t.Error("Run() = nil, want an error")
		}
	})
}

// late is a subscription whose next message is on its way, and comes a moment after the
// broker was asked.
type late struct {
	queue.Subscription
	out chan *queue.Delivery
}

func (l late) Deliveries() <-chan *queue.Delivery { return l.out }

// slow is its broker.
type slow struct {
	queue.Broker
	sub late
}

func (s slow) Inspect(context.Context, string) (queue.Info, error) {
	time.AfterFunc(ArrivalTime/2, func() { s.sub.out <- new(queue.Delivery) })
	return queue.Info{Ready: 1}, nil
}

// An owner to which messages are on their way is not outranked, if the broker is a little slow:
// what it gave back would come to itself again, behind the rest.
func TestSlowBrokerOutranksNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := late{out: make(chan *queue.Delivery, 1)}
		k := &Keeper{Config: Config{Broker: slow{sub: l}}}
		c := &Claim{sub: l, prefetch: 4}
		c.add()
		time.Sleep(2 * LookAfter)
		if k.isOutranked(t.Context(), c) {
			t.Error("it takes itself for outranked")
		}
		<-l.out
	})
}

// An owner that had no room for long, and has some now, is not starved: it has to be
// delivered something first.
func TestRoomAfterALongTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Claim{prefetch: 2}
		c.add()
		c.add()
		time.Sleep(time.Minute)
		c.Handle(func() {})
		if c.isStarved() {
			t.Error("it is starved at the moment at which it has room")
		}
		time.Sleep(LookAfter)
		if !c.isStarved() {
			t.Error("it is not starved though it has had room for long")
		}
	})
}
