package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// TestDeleteLosesNothing deletes one lane after another while another program
// publishes to it, and to the next one from then on: what was confirmed is delivered,
// is still there, or comes to the queue of what was rescued.
func TestDeleteLosesNothing(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	var log logbook
	other := open(t, rabbit.Config{
		URLs: []string{rabbittest.URL(t)}, Topology: b.Topology(), Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	const messages = 40
	var latest atomic.Int64
	lane := func(i int64) string { return b.Topology().Lane(fmt.Sprint("page.", i), "text") }
	declare := func(i int64) {
		rabbittest.DeleteAfter(t, lane(i))
		if err := other.Declare(t.Context(), b.Topology().LaneSpec(lane(i))); err != nil {
			t.Errorf("Declare() = %v, want nil", err)
		}
	}
	declare(0)
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := 0; i < messages; {
			time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) // so that the lane is found empty
			switch err := other.Publish(t.Context(), queue.Message{Queue: lane(latest.Load()), ID: fmt.Sprint(i)}); {
			case err == nil:
				i++
			case errors.Is(err, queue.ErrUnroutable):
				declare(latest.Load() + 1)
				latest.Add(1)
			default:
				t.Errorf("Publish(%d) = %v, want nil or %v", i, err, queue.ErrUnroutable)
				return
			}
		}
	}()
	received := make(map[string]bool)
	deleted := int64(0)
	for done := false; !done || deleted <= latest.Load(); {
		select {
		case <-published:
			done = true
		case <-time.After(time.Duration(rand.IntN(200)) * time.Millisecond):
		}
		if deleted > latest.Load() {
			continue // the next one is not there yet
		}
		empty(t, b, lane(deleted), received)
		switch err := b.Delete(t.Context(), lane(deleted), b.Topology().Inbound()); {
		case err == nil:
			deleted++
		case !errors.Is(err, queue.ErrInUse):
			t.Fatalf("Delete() = %v, want nil or %v", err, queue.ErrInUse)
		}
	}
	empty(t, b, b.Topology().Inbound(), received)
	if len(received) != messages || deleted < 2 {
		t.Errorf("received %d of %d confirmed messages, deleted %d lanes", len(received), messages, deleted)
	}
	if strings.Contains(log.String(), "lost") {
		t.Errorf("log of the publisher is %s, want no connection lost", log.String())
	}
}

// A lane is not taken for deleted because something else is missing.
func TestDeleteWithoutExchange(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	top := b.Topology()
	lane := top.Lane("page.1", "text")
	rabbittest.DeleteAfter(t, lane)
	if err := b.Declare(t.Context(), top.LaneSpec(lane)); err != nil {
		t.Fatal(err)
	}
	publish(t, b, lane, "m")
	onChannel(t, func(ch *amqp.Channel) error { return ch.ExchangeDelete(top.Lanes(), false, false) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := b.Delete(ctx, lane, top.Inbound()); err == nil {
		t.Error("Delete(lane with a message, whose exchange is gone) = nil, want an error")
	}
	awaitQueued(t, b, lane, queue.Info{Ready: 1})
}

// empty takes everything off a queue.
func empty(t *testing.T, b queue.Broker, name string, received map[string]bool) {
	t.Helper()
	s := consume(t, b, name, 100)
	eventually(t, "the queue is empty", func() (string, bool) {
		for len(s.Deliveries()) > 0 {
			d := receive(t, s)
			received[d.ID] = true
			if err := d.Ack(); err != nil {
				t.Fatalf("Ack() = %v, want nil", err)
			}
		}
		info, err := b.Inspect(t.Context(), name)
		return fmt.Sprint(info, err), err == nil && info == queue.Info{Consumers: 1} && len(s.Deliveries()) == 0
	})
	if err := s.Cancel(); err != nil {
		t.Fatalf("Cancel() = %v, want nil", err)
	}
	for d := range s.Deliveries() {
		received[d.ID] = true
		if err := d.Ack(); err != nil {
			t.Fatalf("Ack() = %v, want nil", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close() = %v, want nil", err)
	}
}
