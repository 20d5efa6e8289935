package fleet

import (
	"testing"
	"testing/synctest"

	"chatclub/internal/article"
	"chatclub/internal/queue"
	"chatclub/internal/queue/leftover"
	"chatclub/internal/queue/memory"
)

// Copies alone go to the shared queue. An event that waits until core has handled
// others of its page is not one: a worker would bury it.
func TestSharedQueueHasCopiesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		top := queue.Topology{Prefix: "t", Partitions: 4}
		b, err := memory.New(top)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		common := article.Queue(top)
		if err := b.Declare(t.Context(), common); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{top.Outbound(0): 0, top.Outbound(3): 0}
		for _, name := range append(top.Overflows(), top.Inbound(), top.Dead()) {
			want[name] = 1
		}
		for name := range want {
			if err := (shared{b}).Publish(t.Context(), queue.Message{Queue: name, ID: name}); err != nil {
				t.Fatal(err)
			}
		}
		want[common.Name] = 2
		for name, n := range want {
			left, err := leftover.Empty(t.Context(), b, name)
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != n {
				t.Errorf("%d messages on %s, want %d", len(left), name, n)
			}
		}
	})
}
