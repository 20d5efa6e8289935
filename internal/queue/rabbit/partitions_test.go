package rabbit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// TestOtherPartitions: a program with another number of partitions than the one that was
// first is told both, and makes no queue that the first one does not look at.
func TestOtherPartitions(t *testing.T) {
	t.Parallel()
	first := shared(t, nil)
	top := first.Topology()
	for _, n := range []int{1, 2, 3} {
		told := make(chan error, 100)
		other := open(t, rabbit.Config{
			URLs:     []string{rabbittest.URL(t)},
			Topology: queue.Topology{Prefix: top.Prefix, Partitions: n},
			Useless:  func(err error) { told <- err },
		})
		if n == top.Partitions {
			awaitReady(t, other)
			continue
		}
		select {
		case err := <-told:
			got, _ := errors.AsType[*rabbit.OtherPartitionsError](err)
			if diff := cmp.Diff(&rabbit.OtherPartitionsError{Queue: top.Number(), Here: n, There: 2}, got); diff != "" {
				t.Errorf("%d partitions beside two: %v (-want +got)\n%s", n, err, diff)
			}
		case <-time.After(patience):
			t.Fatalf("%d partitions beside two: nothing is told", n)
		}
		if err := other.Ready(); err == nil {
			t.Errorf("%d partitions beside two: Ready() = nil, want an error", n)
		}
	}
	if _, err := first.Inspect(t.Context(), top.Inbound(2)); !errors.Is(err, queue.ErrUnroutable) {
		t.Errorf("the third partition of two: %v, want none", err)
	}
}
