package queuetest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/networktest"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m) }

// partitions is the number of partitions of each case's topology. Declaring few queues is
// quick.
const partitions = 1

// patience bounds every wait for something that must happen. A broker on a
// busy machine answers in milliseconds; only a broken one uses it up.
const patience = 20 * time.Second

// TestMemory runs each case in a testing/synctest bubble of its own: waiting costs no
// time, and a goroutine that is left fails the case.
func TestMemory(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]networktest.Options{
		"at once": {}, "over a network": {Hop: 300 * time.Microsecond}, "with a capacity": {Hop: 300 * time.Microsecond, Capacity: 15_000},
	} {
		onEach(t, name+"/", func(t *testing.T, c testCase) {
			synctest.Test(t, func(t *testing.T) {
				b, err := networktest.NewBroker(queue.Topology{Prefix: fmt.Sprintf("queuetest-%08x", rand.Uint32()), Partitions: partitions}, o)
				if err != nil {
					t.Fatal(err)
				}
				c.on(t, b)
			})
		})
	}
}

func TestRabbit(t *testing.T) {
	t.Parallel()
	onEach(t, "", func(t *testing.T, c testCase) {
		top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: partitions}
		b, err := rabbit.Open(rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		c.on(t, b)
	})
}

// onEach runs all cases in parallel.
func onEach(t *testing.T, prefix string, run func(*testing.T, testCase)) {
	t.Helper()
	for _, c := range slices.Concat(publishCases(), consumeCases(), settleCases(), priorityCases(), closeCases(), delayCases(), streamCases()) {
		t.Run(prefix+c.name, func(t *testing.T) {
			t.Parallel()
			run(t, c)
		})
	}
}

// on runs the case on a broker with empty queues, which it closes.
func (c testCase) on(t *testing.T, b queue.Broker) {
	t.Helper()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
	})
	e := env{T: t, broker: b, top: b.Topology()}
	e.awaitReady()
	c.run(e)
}

type testCase struct {
	name string
	run  func(env)
}

// env is a case's test, broker and topology.
type env struct {
	*testing.T
	broker queue.Broker
	top    queue.Topology
}

// plain is the name of a queue that delivers to all its consumers.
func (e env) plain() string { return e.top.Slots()[0] }

// awaitReady waits until the broker is there.
func (e env) awaitReady() {
	e.Helper()
	e.awaitBroker(e.broker)
}

func (e env) awaitBroker(b interface{ Ready() error }) {
	e.Helper()
	deadline := time.Now().Add(patience)
	for b.Ready() != nil {
		if time.Now().After(deadline) {
			e.Fatalf("Ready() = %v after %s, want nil", b.Ready(), patience)
		}
		time.Sleep(5 * time.Millisecond) // a poll, paced so that it is no load
	}
}

// publish publishes one message per id, in one call, each with its id as body.
func (e env) publish(name string, ids ...string) {
	e.Helper()
	msgs := make([]queue.Message, 0, len(ids))
	for _, id := range ids {
		msgs = append(msgs, queue.Message{Queue: name, ID: id, Body: []byte(id)})
	}
	ctx, cancel := context.WithTimeout(e.Context(), patience)
	defer cancel()
	if err := e.broker.Publish(ctx, msgs...); err != nil {
		e.Fatalf("Publish(%d messages to %q) = %v, want nil", len(msgs), name, err)
	}
}

// consume subscribes and closes the subscription at the end of the test.
func (e env) consume(name string, prefetch int) queue.Subscription {
	e.Helper()
	s, err := e.broker.Consume(name, queue.ConsumeOptions{Prefetch: prefetch})
	if err != nil {
		e.Fatalf("Consume(%q) = %v, want nil", name, err)
	}
	e.Cleanup(func() {
		if err := s.Close(); err != nil {
			e.Errorf("Subscription.Close() = %v, want nil", err)
		}
	})
	return s
}

// receive returns the next delivery and fails the test when none comes.
func (e env) receive(s queue.Subscription) *queue.Delivery {
	e.Helper()
	select {
	case d, ok := <-s.Deliveries():
		if !ok {
			e.Fatal("Deliveries() is closed, want a delivery")
		}
		return d
	case <-time.After(patience):
		e.Fatalf("no delivery within %s", patience)
	}
	return nil
}

// receiveAny returns the next delivery of any of the subscriptions, and which one that is.
func (e env) receiveAny(subs []queue.Subscription) (queue.Subscription, *queue.Delivery) {
	e.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) { // a poll
		for _, s := range subs {
			select {
			case d, ok := <-s.Deliveries():
				if !ok {
					e.Fatal("Deliveries() is closed, want a delivery")
				}
				return s, d
			default:
			}
		}
	}
	e.Fatalf("no delivery within %s on any of %d subscriptions", patience, len(subs))
	return nil, nil
}

// receiveIDs receives one delivery per id and checks the order.
func (e env) receiveIDs(s queue.Subscription, ids ...string) []*queue.Delivery {
	e.Helper()
	ds := make([]*queue.Delivery, 0, len(ids))
	got := make([]string, 0, len(ids))
	for range ids {
		d := e.receive(s)
		ds = append(ds, d)
		got = append(got, d.ID)
	}
	if !slices.Equal(got, ids) {
		e.Fatalf("received ids %v, want %v", got, ids)
	}
	return ds
}

// ack acknowledges every delivery.
func (e env) ack(ds ...*queue.Delivery) {
	e.Helper()
	for _, d := range ds {
		if err := d.Ack(); err != nil {
			e.Fatalf("Ack(%q) = %v, want nil", d.ID, err)
		}
	}
}

// awaitInfo waits until the broker reports want about the queue.
func (e env) awaitInfo(name string, want queue.Info) {
	e.Helper()
	e.await(name, fmt.Sprintf("%+v", want), func(got queue.Info) bool { return got == want })
}

// awaitWaiting waits for a count of ready messages whatever the consumers:
// implementations count the waiting consumers of a partition differently.
func (e env) awaitWaiting(name string, want int) {
	e.Helper()
	e.await(name, fmt.Sprintf("%d ready", want), func(got queue.Info) bool { return got.Ready == want })
}

func (e env) await(name, want string, is func(queue.Info) bool) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), patience)
	defer cancel()
	for {
		got, err := e.broker.Inspect(ctx, name)
		if err != nil {
			e.Fatalf("Inspect(%q) = %v, want %s", name, err, want)
		}
		if is(got) {
			return
		}
		select {
		case <-ctx.Done():
			e.Fatalf("Inspect(%q) = %+v after %s, want %s", name, got, patience, want)
		case <-time.After(5 * time.Millisecond): // a poll, paced so that it is no load
		}
	}
}

// nothing checks that no delivery waits. It is a statement only once the
// broker was seen, by awaitInfo, to keep back what it has.
func (e env) nothing(s queue.Subscription) {
	e.Helper()
	select {
	case d, ok := <-s.Deliveries():
		if !ok {
			e.Fatal("Deliveries() is closed, want it open and empty")
		}
		e.Fatalf("received %q, want nothing", d.ID)
	default:
	}
}

// ids returns prefix0 … prefix(n-1).
func ids(prefix string, n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return s
}
