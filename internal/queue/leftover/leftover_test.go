package leftover_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/leftover"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m) }

// TestDelete: a lane goes with the topology if its token is there.
func TestDelete(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 2}
	b, err := rabbit.Open(rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	lane := top.Lane("1.7", "text")
	rabbittest.DeleteAfter(t, lane)
	token := queue.Message{Queue: top.Outbound(1), ID: "token", Body: []byte("text"), Headers: map[string]string{message.HeaderLane: "1.7"}}
	if err := b.Declare(t.Context(), top.LaneSpec(lane)); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), token, queue.Message{Queue: lane, ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if version, err := leftover.Delete(t.Context(), rabbittest.URL(t), top); err != nil || !strings.HasPrefix(version, "RabbitMQ ") {
		t.Errorf("Delete() = %q, %v, want RabbitMQ and its version, nil", version, err)
	}
	for _, name := range []string{lane, top.Outbound(1), top.Dead()} {
		if _, err := b.Inspect(t.Context(), name); !errors.Is(err, queue.ErrUnroutable) {
			t.Errorf("Inspect(%q) after Delete() = %v, want %v", name, err, queue.ErrUnroutable)
		}
	}
}

// TestTake: everything but the dead letters is taken, from lanes whose token is
// there too, and nothing twice.
func TestTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		top := queue.Topology{Prefix: "p", Partitions: 2}
		b, err := memory.New(top)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		known, forgotten := top.Lane("1.7", "text"), top.Lane("1.8", "text")
		for _, lane := range []string{known, forgotten, "more"} {
			if err := b.Declare(t.Context(), top.LaneSpec(lane)); err != nil {
				t.Fatal(err)
			}
		}
		token := queue.Message{Queue: top.Outbound(1), ID: "token", Body: []byte("text"), Headers: map[string]string{message.HeaderLane: "1.7"}}
		hello := queue.Message{Queue: top.Outbound(1), ID: "hello", Headers: map[string]string{message.HeaderHello: "1"}}
		msgs := []queue.Message{token, hello, {Queue: known, ID: "a"}, {Queue: forgotten, ID: "never"}, {Queue: top.Dead(), ID: "dead"}, {Queue: "more", ID: "b"}, {Queue: top.Inbound(), ID: "c"}}
		for range 2000 { // more than are delivered at a time
			msgs = append(msgs, queue.Message{Queue: top.Outbound(0), ID: "d"})
		}
		if err := b.Publish(t.Context(), msgs...); err != nil {
			t.Fatal(err)
		}
		left, err := leftover.Take(t.Context(), b, "more")
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, d := range left {
			ids = append(ids, d.ID)
		}
		slices.Sort(ids)
		if got, want := slices.Compact(slices.Clone(ids)), []string{"a", "b", "c", "d"}; len(ids) != 2003 || !slices.Equal(got, want) {
			t.Errorf("Take = %d messages %v, want 2003 of %v", len(ids), got, want)
		}
		dead, err := leftover.Empty(t.Context(), b, top.Dead())
		if err != nil || len(dead) != 1 {
			t.Errorf("Empty(dead) = %d messages %v, want one", len(dead), err)
		}
		if again, err := leftover.Take(t.Context(), b, "more", "none of that name"); err != nil || len(again) > 0 {
			t.Errorf("Take again = %d messages %v, want none", len(again), err)
		}
	})
}
