package partitions

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// rooms returns the number of messages that a keeper may hold of each partition.
func (k *Keeper) rooms() (list []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range k.Queues {
		list = append(list, k.claims[name].prefetch)
	}
	return list
}

// A partition that is full while its messages are handled gets more room within a second,
// and keeps it until few have been held for ten. Nothing is overtaken or done twice.
func TestFullPartitionGetsRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, b *memory.Broker) {
		r := start(t, b, func(r *replica) { r.Burst, r.takes = 32, 200*time.Millisecond })
		time.Sleep(TrialTime + time.Second)
		put(t, b, b.Topology().Inbound(0), ids(1, 100)...)
		for _, row := range []struct {
			after, at time.Duration
			want      int
		}{
			{0, 0, 4},
			{1200 * time.Millisecond, 1200 * time.Millisecond, 32},
			{18 * time.Second, 20 * time.Second, 32}, // all 100 are handled
			{9 * time.Second, 29 * time.Second, 32},  // not yet
			{4 * time.Second, 33 * time.Second, 4},   // ten seconds after
		} {
			time.Sleep(row.after)
			if got := r.rooms(); !slices.Equal(got, []int{row.want}) {
				t.Errorf("room of the partition after %v = %v, want %d", row.at, got, row.want)
			}
		}
		if got := r.handled(); !slices.Equal(got, ids(1, 100)) {
			t.Errorf("handled %v, want 1 to 100", got)
		}
		r.end(t)
	})
}

// Where nothing is handled more room would help nobody.
func TestStuckPartitionGetsNoRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, b *memory.Broker) {
		r := start(t, b, func(r *replica) { r.Burst, r.hold = 32, true })
		time.Sleep(time.Second)
		put(t, b, b.Topology().Inbound(0), ids(1, 100)...)
		time.Sleep(time.Minute)
		if got := r.rooms(); !slices.Equal(got, []int{4}) {
			t.Errorf("room of the partition = %v, want 4", got)
		}
		r.end(t)
	})
}

// Only so many partitions have more room at a time. Another gets it after them.
func TestRoomIsBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, MostWide+2, func(t *testing.T, b *memory.Broker) {
		r := start(t, b, func(r *replica) {
			r.Burst = 32
			r.Take = func(c *Claim, d *queue.Delivery) { // each partition in its time
				go c.Handle(func() {
					time.Sleep(4 * time.Second)
					_ = d.Ack()
				})
			}
		})
		time.Sleep(TrialTime + time.Second)
		for _, name := range b.Topology().Inbounds() {
			put(t, b, name, ids(1, 200)...)
		}
		time.Sleep(10 * time.Second)
		first := r.rooms()
		want := make([]int, MostWide+2) // of the others
		for i, room := range first {
			want[i] = 4 + 32 - room
		}
		if got := slices.Sorted(slices.Values(first)); !slices.Equal(got, []int{4, 4, 32, 32}) {
			t.Errorf("rooms of the partitions = %v, want 32 for two and 4 for the others", first)
		}
		time.Sleep(50 * time.Second) // the first two are empty
		if got := r.rooms(); !slices.Equal(got, want) {
			t.Errorf("rooms of the partitions after a minute = %v, want %v", got, want)
		}
		time.Sleep(time.Minute)
		if got, want := r.rooms(), []int{4, 4, 4, 4}; !slices.Equal(got, want) {
			t.Errorf("rooms of the partitions after two minutes = %v, want %v", got, want)
		}
		synctest.Wait()
		r.end(t)
	})
}
