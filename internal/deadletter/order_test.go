package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/leftover"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// TestOrderOfWalksThatAreStopped: however often letters are looked at and sent
// again, and wherever that is stopped, those that stay are in order. RabbitMQ puts
// what is returned behind what was returned before.
func TestOrderOfWalksThatAreStopped(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}
	broker, err := rabbit.Open(rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	q := Queue{Broker: broker, Now: time.Now}
	const n = 60
	var want []string
	var msgs []queue.Message
	for i := range n {
		o := message.Outbound{ID: fmt.Sprintf("1/m%d/7", i), Page: "1", To: "7", Class: message.ClassText, Text: "x", Time: 1}
		body, err := o.Encode()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, o.ID)
		msgs = append(msgs, queue.Message{Queue: top.Dead(), ID: o.ID, Body: body, Headers: message.Death{Reason: message.ReasonGone}.Headers()})
	}
	if err := broker.Publish(t.Context(), msgs...); err != nil {
		t.Fatal(err)
	}

	// Fresh, in part; all; those that were returned, in part, by one subscription and
	// by several.
	for _, stopAt := range []int{20, n, 10, 50} {
		seen := 0
		err := q.walk(t.Context(), 16, func(*queue.Delivery) (bool, error) {
			if seen++; seen == stopAt && stopAt < n {
				return false, context.Canceled
			}
			return false, nil
		}, nothing)
		if seen != stopAt || err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("walk() until %d = %v after %d letters", stopAt, err, seen)
		}
	}
	// A replay that is stopped between two batches, and one that has enough.
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	first, err := q.Replay(ctx, Replay{Rate: 1})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Replay() = %v, want DeadlineExceeded", err)
	}
	second, err := q.Replay(t.Context(), Replay{Rate: 1000, Limit: 5})
	if err != nil || second.Replayed.Total() != 5 {
		t.Errorf("Replay() = %v, %v, want 5", second, err)
	}
	want = want[first.Replayed.Total()+5:]

	if _, err := q.begin(t.Context()); err != nil { // all is back
		t.Fatal(err)
	}
	left, err := leftover.Empty(t.Context(), broker, top.Dead())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range left {
		got = append(got, m.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("left = %v\nwant %v", got, want)
	}
}
