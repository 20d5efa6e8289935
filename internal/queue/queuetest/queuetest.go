// Package queuetest is the contract of package queue as a suite of tests: an
// implementation that passes Run keeps every promise that package queue makes
// and that can be observed through its interface.
package queuetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
)

// Options says how to run the suite. The zero value suits a broker reached
// over the network.
type Options struct {
	// Synctest runs every case in its own testing/synctest bubble: for a broker
	// without sockets. Waiting then costs no time, and a leaked goroutine fails
	// the case.
	Synctest bool
	// Prefix returns a queue prefix that nothing else uses. The default is a
	// random one.
	Prefix func(t *testing.T) string
}

// partitions is how many partitions each case's topology has: two show that one
// does not affect another, and declaring few is quick.
const partitions = 2

// Lanes are the lanes that a case may leave behind.
func Lanes(top queue.Topology) []string {
	return []string{top.Lane("page0", "text"), top.Lane("page1", "text")}
}

// patience bounds every wait for something that must happen. A broker on a
// busy machine answers in milliseconds; only a broken one uses it up.
const patience = 20 * time.Second

// Run runs every case, in parallel, each on its own broker with its own empty
// queues. open returns a broker for the topology; Run closes it.
func Run(t *testing.T, opts Options, open func(t *testing.T, topology queue.Topology) queue.Broker) {
	t.Helper()
	for _, c := range slices.Concat(publishCases(), consumeCases(), settleCases(), closeCases(), cancelCases(), delayCases(), laneCases()) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			prefix := fmt.Sprintf("queuetest-%08x", rand.Uint32())
			if opts.Prefix != nil {
				prefix = opts.Prefix(t)
			}
			run := func(t *testing.T) {
				b := open(t, queue.Topology{Prefix: prefix, Partitions: partitions})
				t.Cleanup(func() {
					if err := b.Close(); err != nil {
						t.Errorf("Close() = %v, want nil", err)
					}
				})
				e := env{T: t, broker: b, top: b.Topology()}
				e.awaitReady()
				c.run(e)
			}
			if opts.Synctest {
				synctest.Test(t, run)
				return
			}
			run(t)
		})
	}
}

type testCase struct {
	name string
	run  func(env)
}

// env is what a case works with.
type env struct {
	*testing.T
	broker queue.Broker
	top    queue.Topology
}

// awaitReady waits until the broker is there.
func (e env) awaitReady() {
	e.Helper()
	deadline := time.Now().Add(patience)
	for e.broker.Ready() != nil {
		if time.Now().After(deadline) {
			e.Fatalf("Ready() = %v after %s, want nil", e.broker.Ready(), patience)
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
func ids(prefix string, n int) []string { //nolint:unparam // reads better where it is called
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return s
}
