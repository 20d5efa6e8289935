package leftover_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/leftover"
	"chatclub/internal/queue/memory"
)

// TestTake: everything but the dead letters is taken, from lanes too, and nothing
// twice. The stream of orders stays.
func TestTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		top := queue.Topology{Prefix: "p", Partitions: 2, WithShared: true}
		b, err := memory.New(top)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		marker := queue.Message{Queue: top.Lane(1, 2), ID: "marker", Headers: map[string]string{message.HeaderMarker: ""}}
		msgs := []queue.Message{marker, {Queue: top.Lane(1, 2), ID: "a"}, {Queue: top.Dead(), ID: "dead"}, {Queue: top.Shared(), ID: "b"}, {Queue: top.Inbound(0), ID: "c"}, {Queue: top.Orders(), ID: "order"}}
		for range 2000 { // more than are delivered at a time
			msgs = append(msgs, queue.Message{Queue: top.Outbound(0), ID: "d"})
		}
		if err := b.Publish(t.Context(), msgs...); err != nil {
			t.Fatal(err)
		}
		left, err := leftover.Take(t.Context(), b)
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
		if again, err := leftover.Take(t.Context(), b); err != nil || len(again) > 0 {
			t.Errorf("Take again = %d messages %v, want none", len(again), err)
		}
	})
}
