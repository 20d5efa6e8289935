package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/tools/wire"
)

// slow opens a broker behind a wire, with sessions that do not end for want of
// confirms.
func slow(t *testing.T, reg prometheus.Registerer) (*rabbit.Broker, *wire.Wire) {
	t.Helper()
	p, url := rabbittest.Wire(t)
	b := open(t, rabbit.Config{
		URLs: []string{url}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1},
		ConfirmTimeout: time.Minute, Heartbeat: time.Minute, Registerer: reg,
	})
	awaitReady(t, b)
	return b, p
}

// impatient publishes for a short time, and returns what is not confirmed.
func impatient(t *testing.T, b *rabbit.Broker, msgs []queue.Message) []queue.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := b.Publish(ctx, msgs...)
	if !errors.Is(err, queue.ErrUnavailable) {
		t.Fatalf("Publish(slow broker) = %v, want %v", err, queue.ErrUnavailable)
	}
	return queue.Unconfirmed(msgs, err)
}

// A broker is slow to confirm, and the caller publishes again and again what is
// not confirmed. It is queued once.
func TestSlowConfirms(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	b, p := slow(t, reg)
	name := b.Topology().Inbound(0)
	const n = 40
	var msgs []queue.Message
	for i := range n {
		msgs = append(msgs, queue.Message{Queue: name, ID: fmt.Sprint(i), Body: []byte("hello")})
	}
	p.Freeze()
	rest := msgs
	for range 5 {
		rest = impatient(t, b, rest)
	}
	if len(rest) != n {
		t.Fatalf("unconfirmed = %d, want all %d", len(rest), n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := make(chan error, 1)
	go func() { again <- b.Publish(ctx, rest[:n/2]...) }()
	p.Thaw()
	if err := <-again; err != nil {
		t.Errorf("Publish(the first half again) = %v, want nil", err)
	}
	eventually(t, "all are confirmed", func() (string, bool) {
		err := testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(`
# HELP chatclub_broker_published_total Messages that the broker confirmed.
# TYPE chatclub_broker_published_total counter
chatclub_broker_published_total %d
`, n)), "chatclub_broker_published_total")
		return fmt.Sprint(err), err == nil
	})
	if err := b.Publish(ctx, rest[n/2:]...); err != nil { // confirmed when nobody asked
		t.Errorf("Publish(the others again) = %v, want nil", err)
	}
	awaitQueued(t, b, name, queue.Info{Ready: n})
	if err := b.Publish(ctx, msgs...); err != nil {
		t.Errorf("Publish(all, which is meant to be) = %v, want nil", err)
	}
	awaitQueued(t, b, name, queue.Info{Ready: 2 * n})
}

// An equal message from elsewhere is another message: the first one may have come
// back from its queue already, and this is what takes its place.
func TestEqualMessagesAreQueuedEach(t *testing.T) {
	t.Parallel()
	b, p := slow(t, nil)
	name := b.Topology().Inbound(0)
	p.Freeze()
	impatient(t, b, []queue.Message{{Queue: name, ID: "1", Body: []byte("hello")}})
	impatient(t, b, []queue.Message{{Queue: name, ID: "1", Body: []byte("hello")}})
	p.Thaw()
	publish(t, b, name, "1")
	awaitQueued(t, b, name, queue.Info{Ready: 3})
}

// What its queue did not take is published again, however often its caller had
// no patience.
func TestSlowReturnIsPublishedAgain(t *testing.T) {
	t.Parallel()
	b, p := slow(t, nil)
	missing := b.Topology().Inbound(0)
	onChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(missing, false, false, false)
		return err
	})
	msgs := []queue.Message{{Queue: missing, ID: "1", Body: []byte("hello")}}
	p.Freeze()
	impatient(t, b, msgs)
	impatient(t, b, msgs)
	p.Thaw()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Publish(ctx, msgs...); !errors.Is(err, queue.ErrUnroutable) {
		t.Fatalf("Publish() = %v, want %v", err, queue.ErrUnroutable)
	}
	eventually(t, "Publish(once its queue is declared again)", func() (string, bool) {
		err := b.Publish(ctx, msgs...)
		return fmt.Sprint(err), err == nil
	})
	awaitQueued(t, b, missing, queue.Info{Ready: 1})
}

// TestLeaveBeforeAnswer: a consumer leaves before it knows that it has subscribed. What the
// queue has sent to it by then is ahead of the rest for the next consumer, too.
func TestLeaveBeforeAnswer(t *testing.T) {
	t.Parallel()
	near := shared(t, nil)
	name := near.Topology().Outbound(0)
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprint("m", i))
	}
	publish(t, near, name, want...)
	w, url := rabbittest.Wire(t)
	far := open(t, rabbit.Config{URLs: []string{url}, Topology: near.Topology()})
	awaitReady(t, far)
	const late = 200 * time.Millisecond
	w.SetDelay(late)
	first := consume(t, far, name, 4)
	eventually(t, "the queue has sent four messages", func() (string, bool) {
		info, err := near.Inspect(t.Context(), name)
		return fmt.Sprint(info.Ready, err), err == nil && info.Ready == 6
	})
	second := consume(t, near, name, len(want))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range want {
		got = append(got, receive(t, second).ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("received (-want +got)\n%s", diff)
	}
}

// TestLeaveWhileMessagesCome: a consumer that holds nothing leaves, and messages come at each
// moment of that. The next one gets all of them in order.
func TestLeaveWhileMessagesCome(t *testing.T) {
	t.Parallel()
	const rounds, late, count = 12, 100 * time.Millisecond, 20
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: rounds}
	near := open(t, rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top})
	awaitReady(t, near)
	w, url := rabbittest.Wire(t)
	far := open(t, rabbit.Config{URLs: []string{url}, Topology: top})
	awaitReady(t, far)
	w.SetDelay(late)
	var all sync.WaitGroup
	for i := range rounds {
		name := top.Outbound(i)
		first := consume(t, far, name, count)
		publish(t, near, name, "before")
		if err := receive(t, first).Ack(); err != nil {
			t.Fatal(err)
		}
		second := consume(t, near, name, count)
		all.Go(func() {
			if err := first.Close(); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			time.Sleep(time.Duration(i) * late / 2) // so that each moment has its round
			var want, got []string
			for k := range count {
				want = append(want, fmt.Sprint("m", k))
				if err := near.Publish(t.Context(), queue.Message{Queue: name, ID: want[k], Body: []byte("x")}); err != nil {
					t.Error(err)
				}
				time.Sleep(late / count)
			}
			for range want {
				select {
				case d := <-second.Deliveries():
					got = append(got, d.ID)
				case <-time.After(patience):
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("messages from %v on: received (-want +got)\n%s", time.Duration(i)*late/2, diff)
			}
		})
	}
	all.Wait()
}

// TestLeaveOfWaitingConsumer: a consumer that waits leaves, and the active one goes on at once,
// while it holds something.
func TestLeaveOfWaitingConsumer(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	name := b.Topology().Outbound(0)
	prefer := func(priority int) queue.Subscription {
		s, err := b.Consume(name, queue.ConsumeOptions{Prefetch: 10, Priority: priority})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	active := prefer(9)
	publish(t, b, name, "m0")
	held := receive(t, active)
	waiting := prefer(7)
	publish(t, b, name, "m1") // the broker knows the second consumer by now, or will before it leaves
	_ = receive(t, active)
	closed := make(chan error)
	go func() { closed <- waiting.Close() }()
	for i, over := 2, false; !over; i++ {
		select {
		case err := <-closed:
			if err != nil {
				t.Fatal(err)
			}
			over = true
		default:
		}
		id := fmt.Sprint("m", i)
		publish(t, b, name, id)
		if d := receive(t, active); d.ID != id {
			t.Fatalf("received %q, want %q", d.ID, id)
		} else if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	if err := held.Ack(); err != nil {
		t.Fatal(err)
	}
}
