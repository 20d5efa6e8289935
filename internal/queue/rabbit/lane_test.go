package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// TestDeleteLosesNothing deletes a lane again and again while another program
// publishes to it: what was confirmed is delivered, or is still there.
func TestDeleteLosesNothing(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	var log logbook
	other := open(t, rabbit.Config{
		URLs: []string{rabbittest.URL(t)}, Topology: b.Topology(), Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	lane := b.Topology().Lane("page", "text")
	rabbittest.DeleteAfter(t, lane)
	const messages = 40
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := range messages {
			time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) // so that the lane is found empty
			publishOrDeclare(t, other, queue.Message{Queue: lane, ID: fmt.Sprint(i)})
		}
	}()
	received := make(map[string]bool)
	deleted := 0
	for done := false; !done; {
		select {
		case <-published:
			done = true
		case <-time.After(time.Duration(rand.IntN(200)) * time.Millisecond):
		}
		empty(t, b, lane, received)
		switch err := b.Delete(t.Context(), lane); {
		case err == nil:
			deleted++
		case !errors.Is(err, queue.ErrInUse):
			t.Errorf("Delete() = %v, want nil or %v", err, queue.ErrInUse)
		}
	}
	empty(t, b, lane, received)
	if len(received) != messages || deleted == 0 {
		t.Errorf("received %d of %d confirmed messages, deleted the lane %d times", len(received), messages, deleted)
	}
	if strings.Contains(log.String(), "lost") {
		t.Errorf("log of the publisher is %s, want no connection lost", log.String())
	}
}

// publishOrDeclare publishes to a lane that may not be there.
func publishOrDeclare(t *testing.T, b queue.Broker, m queue.Message) {
	for {
		err := b.Publish(t.Context(), m)
		if err == nil {
			return
		}
		if errors.Is(err, queue.ErrUnroutable) {
			err = b.Declare(t.Context(), b.Topology().LaneSpec(m.Queue))
		}
		if err != nil {
			t.Errorf("Publish(%s) or Declare() = %v, want nil or %v", m.ID, err, queue.ErrUnroutable)
			return
		}
	}
}

// empty takes everything off a lane.
func empty(t *testing.T, b queue.Broker, lane string, received map[string]bool) {
	t.Helper()
	if err := b.Declare(t.Context(), b.Topology().LaneSpec(lane)); err != nil {
		t.Fatalf("Declare() = %v, want nil", err)
	}
	s := consume(t, b, lane, 100)
	eventually(t, "the lane is empty", func() (string, bool) {
		for len(s.Deliveries()) > 0 {
			d := receive(t, s)
			received[d.ID] = true
			if err := d.Ack(); err != nil {
				t.Fatalf("Ack() = %v, want nil", err)
			}
		}
		info, err := b.Inspect(t.Context(), lane)
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

// TestLaneLockOfADeadProgram: a lane that another program is at is not declared, and
// the error says so: that program may be lost without the broker knowing. Once the
// broker knows, it leaves no lock behind.
func TestLaneLockOfADeadProgram(t *testing.T) {
	t.Parallel()
	b := shared(t, nil)
	lane := b.Topology().Lane("page", "text")
	rabbittest.DeleteAfter(t, lane)
	conn, err := amqp.Dial(rabbittest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDeclare(lane+".lock", false, true, true, false, nil)
	}
	if err != nil {
		t.Fatalf("lock the lane: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := b.Declare(ctx, b.Topology().LaneSpec(lane)); !errors.Is(err, queue.ErrLocked) || !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("Declare(locked lane), for a second = %v, want %v and %v", err, queue.ErrLocked, queue.ErrUnavailable)
	}
	declared := make(chan error, 1)
	go func() { declared <- b.Declare(t.Context(), b.Topology().LaneSpec(lane)) }()
	select {
	case err := <-declared:
		t.Errorf("Declare(locked lane) = %v, want it to wait", err)
	case <-time.After(500 * time.Millisecond): // two tries
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-declared; err != nil {
		t.Errorf("Declare(lane that was locked) = %v, want nil", err)
	}
}
