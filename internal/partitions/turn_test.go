package partitions

import (
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
)

// TestSinceTurn: a loop that stands still is seen among the others; work that takes long is
// no reason.
func TestSinceTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 3})
		publish := func(id string) {
			if err := b.Publish(t.Context(), queue.Message{Queue: b.Topology().Inbound(1), ID: id}); err != nil {
				t.Fatal(err)
			}
		}
		block := make(chan struct{})
		r := start(t, b, func(r *replica) {
			take := r.Take
			r.Take = func(c *Claim, d *queue.Delivery) {
				if d.ID == "stuck" {
					<-block
				}
				take(c, d)
			}
			r.takes = 4 * time.Minute
		})
		want := func(when string, least, most time.Duration) {
			t.Helper()
			if got := r.SinceTurn(); got < least || got > most {
				t.Errorf("SinceTurn() %s = %v, want %v to %v", when, got, least, most)
			}
		}
		publish("slow")
		for range 40 {
			time.Sleep(5 * time.Second)
			want("while work takes long", 0, LookAfter+ArrivalTime)
		}
		publish("stuck")
		time.Sleep(time.Minute)
		want("while a loop stands still", time.Minute-checkEvery, 2*time.Minute)
		close(block)
		time.Sleep(checkEvery)
		want("when it goes on", 0, LookAfter+ArrivalTime)
		time.Sleep(time.Hour) // until all is handled
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		want("after the end", 0, 0)
	})
}
