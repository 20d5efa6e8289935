package memory_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, top queue.Topology) *memory.Broker {
	t.Helper()
	b, err := memory.New(top)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNewRefusesAWrongTopology(t *testing.T) {
	t.Parallel()
	if _, err := memory.New(queue.Topology{}); err == nil {
		t.Error("New(Topology{}) = nil error, want one")
	}
}

func BenchmarkPublishConsumeAck(b *testing.B) {
	br := open(b, queue.Topology{Prefix: "t", Partitions: 1})
	defer br.Close()
	name := br.Topology().Inbound(0)
	sub, err := br.Consume(name, queue.ConsumeOptions{Prefetch: 512})
	if err != nil {
		b.Fatal(err)
	}
	m := queue.Message{Queue: name, ID: "id", Body: make([]byte, 200)}
	b.ReportAllocs()
	for b.Loop() {
		if err := br.Publish(b.Context(), m); err != nil {
			b.Fatal(err)
		}
		if err := (<-sub.Deliveries()).Ack(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEndDelays: delayed messages come at once, in order and once.
func TestEndDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		top := queue.Topology{Prefix: "p", Partitions: 1}
		b := open(t, top)
		defer b.Close()
		for i := range 3 {
			if err := b.Publish(t.Context(), queue.Message{Queue: top.Outbound(0), ID: strconv.Itoa(i), Delay: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		b.EndDelays()
		if err := b.Publish(t.Context(), queue.Message{Queue: top.Outbound(0), ID: "3", Delay: time.Second}); err != nil {
			t.Fatal(err)
		}
		if info, err := b.Inspect(t.Context(), top.Outbound(0)); err != nil || info.Ready != 3 || b.Delayed() != 1 {
			t.Errorf("Inspect = %+v %v, Delayed = %d, want 3 messages, and 1", info, err, b.Delayed())
		}
		time.Sleep(2 * time.Minute)
		sub, err := b.Consume(top.Outbound(0), queue.ConsumeOptions{Prefetch: 10})
		if err != nil {
			t.Fatal(err)
		}
		for want := range 4 {
			if d := <-sub.Deliveries(); d.ID != strconv.Itoa(want) {
				t.Errorf("delivery %d = %s", want, d.ID)
			}
		}
		synctest.Wait()
		if n := len(sub.Deliveries()); n > 0 {
			t.Errorf("%d deliveries more than messages", n)
		}
	})
}

// TestAnyOfEquals: among the waiting consumers of the highest priority any is active next.
func TestAnyOfEquals(t *testing.T) {
	t.Parallel()
	for want := range 3 {
		b, err := memory.NewWith(queue.Topology{Prefix: "t", Partitions: 1}, memory.Options{Any: func(n int) int {
			if n != 3 {
				t.Errorf("Any(%d), want Any(3)", n)
			}
			return want
		}})
		if err != nil {
			t.Fatal(err)
		}
		name := b.Topology().Outbound(0)
		var subs []queue.Subscription
		for _, priority := range []int{5, 3, 1, 3, 3} {
			sub, err := b.Consume(name, queue.ConsumeOptions{Prefetch: 1, Priority: priority})
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, sub)
		}
		if err := subs[0].Close(); err != nil {
			t.Fatal(err)
		}
		if next := []int{1, 3, 4}[want]; b.Active(name) != subs[next] {
			t.Errorf("consumer %d is not active, want that of the draw", next)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeepsDead: a consumer that is lost while it is outranked is elected again, and takes as
// much as its prefetch, until queue.MaxHeld is over. A consumer that leaves is gone.
func TestKeepsDead(t *testing.T) {
	t.Parallel()
	for _, isLost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b, err := memory.NewWith(queue.Topology{Prefix: "t", Partitions: 1}, memory.Options{KeepsDead: true})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			name := b.Topology().Outbound(0)
			consume := func(priority int) queue.Subscription {
				sub, err := b.Consume(name, queue.ConsumeOptions{Prefetch: 2, Priority: priority})
				if err != nil {
					t.Fatal(err)
				}
				return sub
			}
			publish := func(id string) {
				if err := b.Publish(t.Context(), queue.Message{Queue: name, ID: id}); err != nil {
					t.Fatal(err)
				}
			}
			old := consume(5)
			publish("1")
			high := consume(9)
			if isLost {
				old.(interface{ Lose() }).Lose()
			} else if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			if err := (<-high.Deliveries()).Ack(); err != nil {
				t.Fatal(err)
			}
			low := consume(1)
			if err := high.Close(); err != nil {
				t.Fatal(err)
			}
			publish("2")
			want := 1
			if isLost {
				want = 0
			}
			synctest.Wait()
			if got := len(low.Deliveries()); got != want {
				t.Errorf("lost %v: %d deliveries, want %d", isLost, got, want)
			}
			time.Sleep(queue.MaxHeld)
			synctest.Wait()
			if got := len(low.Deliveries()); got != 1 {
				t.Errorf("lost %v: %d deliveries after %v, want 1", isLost, got, queue.MaxHeld)
			}
		})
	}
}
