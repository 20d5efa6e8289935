package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// TestStaleAckHarmless holds a delivery over a lost connection. Its tag now
// names another message, which must not be acknowledged by it.
func TestStaleAckHarmless(t *testing.T) {
	t.Parallel()
	p, url := rabbittest.Wire(t)
	b := open(t, rabbit.Config{URLs: []string{url}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}})
	name := b.Topology().Inbound(0)
	s := consume(t, b, name, 2)
	publish(t, b, name, "a", "b", "c")
	first, old := receive(t, s), receive(t, s) // a with tag 1, b with tag 2
	if err := first.Ack(); err != nil {
		t.Fatalf("Ack(a) = %v, want nil", err)
	}
	receive(t, s) // c: the prefetch lets it come only when the ack of a has arrived
	if old.ID != "b" || !old.Live() {
		t.Fatalf("received %q, Live() %t, want %q, true", old.ID, old.Live(), "b")
	}
	p.Cut()
	again, other := receive(t, s), receive(t, s) // b with tag 1, c with tag 2
	if again.ID != "b" || !again.Redelivered || other.ID != "c" {
		t.Fatalf("received %q (redelivered %t) and %q, want %q (true) and %q", again.ID, again.Redelivered, other.ID, "b", "c")
	}
	if old.Live() {
		t.Error("Live() = true for a delivery of the lost connection, want false")
	}
	if err := old.Ack(); !errors.Is(err, queue.ErrStale) {
		t.Errorf("Ack(delivery of the lost connection) = %v, want %v", err, queue.ErrStale)
	}
	if err := again.Ack(); err != nil {
		t.Errorf("Ack(b, delivered again) = %v, want nil", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	eventually(t, "c is still queued", func() (string, bool) {
		info, err := b.Inspect(t.Context(), name)
		return fmt.Sprint(info, err), err == nil && info == queue.Info{Ready: 1}
	})
}

// TestConnectionsCut cuts every connection again and again while messages
// flow: every message that was confirmed arrives.
func TestConnectionsCut(t *testing.T) {
	t.Parallel()
	p, url := rabbittest.Wire(t)
	b := open(t, rabbit.Config{URLs: []string{url}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}})
	flow := startFlow(t, b, b.Topology().Inbound(0))
	for i := range 3 {
		flow.awaitReceived(t, (i+1)*200)
		p.Cut()
	}
	flow.finish(t)
}

// TestStallOutlastsDeadAddress has a node that is down between two stalls of another
// one: the second has twice the patience all the same.
func TestStallOutlastsDeadAddress(t *testing.T) {
	t.Parallel()
	p, url := rabbittest.Wire(t)
	var log logbook
	b := open(t, rabbit.Config{
		URLs:           []string{url, "amqp://guest:guest@127.0.0.1:1"}, // nobody listens there
		Topology:       queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1},
		ConfirmTimeout: 200 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for i, want := range []string{"no confirm for 200ms", "no confirm for 400ms"} {
		awaitReady(t, b)
		p.Freeze()
		published := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			published <- b.Publish(ctx, queue.Message{Queue: b.Topology().Inbound(0), ID: fmt.Sprint(i)})
		}()
		eventually(t, "the stall is noticed", func() (string, bool) {
			return log.String(), strings.Contains(log.String(), want)
		})
		p.Thaw()
		if err := <-published; err != nil {
			t.Errorf("Publish(over a stall) = %v, want nil", err)
		}
	}
	if !strings.Contains(log.String(), "connection refused") {
		t.Error("the address that is down was not tried: nothing is tested")
	}
}

// TestMute keeps back everything that the broker says, as half-open connections
// do: soon nothing is ready, and both connections go on at the next address.
func TestMute(t *testing.T) {
	t.Parallel()
	p, url := rabbittest.Wire(t)
	b := open(t, rabbit.Config{
		URLs: []string{url, rabbittest.URL(t)}, Heartbeat: time.Minute,
		Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1},
	})
	awaitReady(t, b)
	name := b.Topology().Inbound(0)
	s := consume(t, b, name, 1)
	publish(t, b, name, "a")
	d := receive(t, s)
	p.Freeze()
	start := time.Now()
	eventually(t, "it is not ready", func() (string, bool) { return "Ready() = nil", b.Ready() != nil })
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("Ready() = nil for %s, want some 1.5 s", took)
	}
	again := receive(t, s) // on the other connection, when RabbitMQ knows that the first is closed
	if again.ID != "a" || d.Live() {
		t.Errorf("received %q, the old delivery live: %t, want %q, false", again.ID, d.Live(), "a")
	}
	took := time.Since(start)
	t.Logf("delivered again after %s", took)
	if took > 20*time.Second {
		t.Errorf("delivered again after %s, want some 6 s", took)
	}
	publish(t, b, name, "b") // the publishing connection is given up when a confirm is owed
	awaitReady(t, b)
}

// TestAbandonedPlaces ends many calls by their contexts while the broker is
// mute: they say so in time, and their places in the window come back.
func TestAbandonedPlaces(t *testing.T) {
	t.Parallel()
	p, url := rabbittest.Wire(t)
	b := open(t, rabbit.Config{
		URLs: []string{url}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1},
		Window: 16, ConfirmTimeout: time.Minute,
	})
	awaitReady(t, b)
	p.Freeze()
	for i := range 12 { // of 2 places each: more than the window has
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := b.Publish(ctx,
			queue.Message{Queue: b.Topology().Inbound(0), ID: fmt.Sprint(i, "a")},
			queue.Message{Queue: b.Topology().Inbound(0), ID: fmt.Sprint(i, "b")})
		cancel()
		if !errors.Is(err, queue.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Publish(mute broker) = %v, want %v and %v", err, queue.ErrUnavailable, context.DeadlineExceeded)
		}
	}
	p.Thaw()
	for i := range 3 {
		publish(t, b, b.Topology().Inbound(0), fmt.Sprint("after", i))
	}
}

// TestReturnsUnderLoad checks that no return is taken for another's, nor comes
// too late to be seen, while callers share the connection.
func TestReturnsUnderLoad(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	const callers, calls, each = 8, 30, 9
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				msgs := make([]queue.Message, each)
				for i := range msgs {
					msgs[i] = queue.Message{Queue: b.Topology().Inbound(0), ID: "same"}
					if i%3 == 0 {
						msgs[i].Queue = b.Topology().Prefix + ".missing"
					}
				}
				err := b.Publish(t.Context(), msgs...)
				if n := strings.Count(fmt.Sprint(err), queue.ErrUnroutable.Error()); n != each/3 {
					t.Errorf("Publish(%d unroutable of %d) = %v, want %d faults", each/3, each, err, each/3)
				}
			}
		})
	}
	wg.Wait()
	want := queue.Info{Ready: callers * calls * each * 2 / 3}
	eventually(t, "every other message is queued", func() (string, bool) {
		info, err := b.Inspect(t.Context(), b.Topology().Inbound(0))
		return fmt.Sprint(info, err), err == nil && info == want
	})
}

// TestQueueDeleted deletes a queue under its consumer, which declares it again
// and goes on.
func TestQueueDeleted(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	name := b.Topology().Inbound(0)
	s := consume(t, b, name, 1)
	publish(t, b, name, "before")
	old := receive(t, s)
	deleteQueue(t, name)
	eventually(t, "the queue is back", func() (string, bool) {
		info, err := b.Inspect(t.Context(), name)
		return fmt.Sprint(info, err), err == nil && info == queue.Info{Consumers: 1}
	})
	if old.Live() {
		t.Error("Live() = true for a delivery of the deleted queue, want false")
	}
	publish(t, b, name, "after")
	if d := receive(t, s); d.ID != "after" {
		t.Errorf("received %q, want %q", d.ID, "after")
	}
}

// TestQueueExchanged has queues deleted under their consumers and declared again at
// once, by somebody else. RabbitMQ tells the consumers, and they go on. On 3.10 they
// were told nothing and got nothing (53 of 60).
func TestQueueExchanged(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	for _, name := range []string{b.Topology().Inbound(0), b.Topology().Outbound(0)} {
		args := amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": name != b.Topology().Inbound(0)}
		s := consume(t, b, name, 4)
		for i := range 5 {
			id := fmt.Sprint(i)
			publish(t, b, name, id)
			if d := receive(t, s); d.ID != id {
				t.Fatalf("received %q, want %q", d.ID, id)
			} else if err := d.Ack(); err != nil {
				t.Fatalf("Ack() = %v, want nil", err)
			}
			onChannel(t, func(ch *amqp.Channel) error {
				if _, err := ch.QueueDelete(name, false, false, true); err != nil {
					return err
				}
				_, err := ch.QueueDeclare(name, true, false, false, false, args)
				if reply, ok := errors.AsType[*amqp.Error](err); ok && reply.Code == amqp.PreconditionFailed {
					return nil // the deletion was slow: the consumer has declared it first
				}
				return err
			})
		}
	}
}

func deleteQueue(t *testing.T, name string) {
	t.Helper()
	onChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(name, false, false, false)
		return err
	})
}

// onChannel does something to the shared server behind the broker's back.
func onChannel(t *testing.T, do func(*amqp.Channel) error) {
	t.Helper()
	conn, err := amqp.Dial(rabbittest.URL(t))
	if err != nil {
		t.Fatalf("Dial() = %v, want nil", err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err == nil {
		err = do(ch)
	}
	if err != nil {
		t.Fatalf("on a channel of its own: %v", err)
	}
}

// TestUnreadDeliveriesRenewed leaves deliveries unread over a lost connection:
// the consumer is spared those that it could not settle.
func TestUnreadDeliveriesRenewed(t *testing.T) {
	t.Parallel()
	p, url := rabbittest.Wire(t)
	b := open(t, rabbit.Config{URLs: []string{url}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}})
	name := b.Topology().Inbound(0)
	s := consume(t, b, name, 3)
	publish(t, b, name, "a", "b", "c")
	delivered := func() {
		t.Helper()
		eventually(t, "all three are delivered", func() (string, bool) {
			info, err := b.Inspect(t.Context(), name)
			return fmt.Sprint(info, err), err == nil && info == queue.Info{Consumers: 1} && len(s.Deliveries()) == 3
		})
	}
	delivered()
	p.Cut()
	eventually(t, "the loss is noticed", func() (string, bool) { return "Ready() = nil", b.Ready() != nil })
	awaitReady(t, b)
	delivered()
	for range 3 {
		d := receive(t, s)
		if !d.Live() || !d.Redelivered {
			t.Errorf("received %q: Live() %t, Redelivered %t, want true, true", d.ID, d.Live(), d.Redelivered)
		}
		if err := d.Ack(); err != nil {
			t.Errorf("Ack(%q) = %v, want nil", d.ID, err)
		}
	}
}

// TestSettleWhileClosing acknowledges while the subscription closes. What
// comes too late must not reach the broker, which would end the connection of
// all subscriptions for it.
func TestSettleWhileClosing(t *testing.T) {
	t.Parallel()
	var log logbook
	b := open(t, rabbit.Config{
		URLs: []string{rabbittest.URL(t)}, Topology: queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1},
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	name := b.Topology().Inbound(0)
	const held = 200
	msgs := make([]queue.Message, held)
	for i := range msgs {
		msgs[i] = queue.Message{Queue: name, ID: fmt.Sprint(i)}
	}
	for range 20 {
		if err := b.Publish(t.Context(), msgs...); err != nil {
			t.Fatalf("Publish(%d messages) = %v, want nil", held, err)
		}
		s := consume(t, b, name, held)
		var wg sync.WaitGroup
		for range held {
			d := receive(t, s)
			wg.Go(func() {
				if err := d.Ack(); err != nil && !errors.Is(err, queue.ErrStale) {
					t.Errorf("Ack(%q) = %v, want nil or %v", d.ID, err, queue.ErrStale)
				}
			})
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
		wg.Wait()
	}
	if strings.Contains(log.String(), "lost") {
		t.Errorf("log is %s, want no connection lost", log.String())
	}
}
