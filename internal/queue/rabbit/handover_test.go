package rabbit_test

import (
	"testing"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// Two dispatchers subscribe to a partition, and the connection of its owner
// becomes half open. The owner knows that before the broker hands the partition
// on: the two never both send for it.
func TestOwnerIsSilentBeforeHandOver(t *testing.T) {
	t.Parallel()
	p := newProxy(t, rabbittest.URL(t))
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}
	owner := open(t, rabbit.Config{URLs: []string{p.url}, Topology: top, Heartbeat: time.Minute})
	next := open(t, rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top})
	awaitReady(t, owner)
	awaitReady(t, next)
	publish(t, next, top.Outbound(0), "a", "b")
	first := consume(t, owner, top.Outbound(0), 8)
	held := receive(t, first)
	second := consume(t, next, top.Outbound(0), 8)
	if owner.IsSilent() {
		t.Fatal("IsSilent() = true of a healthy connection, want false")
	}
	p.freeze()
	eventually(t, "the owner's broker is silent", func() (string, bool) {
		select {
		case d := <-second.Deliveries():
			t.Fatalf("%q was handed on while its owner would have sent it", d.ID)
		default:
		}
		return "IsSilent() = false", owner.IsSilent()
	})
	if d := receive(t, second); d.ID != "a" || !d.Redelivered {
		t.Errorf("handed on %q (redelivered %t), want %q (true)", d.ID, d.Redelivered, "a")
	}
	if held.Live() || !owner.IsSilent() {
		t.Errorf("afterwards the owner's delivery is live: %t, its broker silent: %t, want false and true", held.Live(), owner.IsSilent())
	}
}
