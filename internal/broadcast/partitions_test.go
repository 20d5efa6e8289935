package broadcast

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
)

// twoPages returns a rig with four partitions, and two pages of different
// partitions, with 40 members each.
func twoPages(t *testing.T) (r *rig, p, q string) {
	t.Helper()
	b := memorytest.New(t, queue.Topology{Prefix: "test", Partitions: 4})
	r = newRigOn(t, b, newStore(t, "sqlite::memory:", nil), nil)
	p, q = "p", ""
	for i := 0; q == ""; i++ {
		if page := fmt.Sprint("q", i); b.Topology().OutboundOf(page) != b.Topology().OutboundOf(p) {
			q = page
		}
	}
	r.members(t, p, 40)
	r.members(t, q, 40)
	return r, p, q
}

// TestOneLongPartition checks that a partition that is long delays its own
// broadcasts only.
func TestOneLongPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, p, q := twoPages(t)
		long := r.broker.Topology().OutboundOf(p)
		for i := range 1000 {
			if err := r.broker.Publish(t.Context(), queue.Message{Queue: long, ID: fmt.Sprint(i), Body: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
		rec := recordOn(t, r.broker, r.broker.Topology().OutboundOf(q))
		stop := r.start(t)
		r.add(t, to(p, "long", 10))
		r.add(t, to(q, "free", 10))
		time.Sleep(6 * time.Second)
		stop()
		rec.wantOnce(t, "free", 40)
		rec.wantLast(t, "free", 3*time.Second, 5*time.Second)
		if got := len(memorytest.Drain(t, r.broker, long)); got != 1000 {
			t.Errorf("messages on the long partition = %d, want the 1000 that were there", got)
		}
		r.wantMetrics(t, `
			# HELP chatclub_core_broadcast_partitions_full Partitions that are too long for this core's broadcasts, which wait.
			# TYPE chatclub_core_broadcast_partitions_full gauge
			chatclub_core_broadcast_partitions_full 1
		`, "chatclub_core_broadcast_partitions_full")
	})
}

// TestPartitionIsBounded checks how many messages a partition without a
// dispatcher gets of broadcasts that are faster than the questions how long it
// is: the thousand that fill it, and what the round has that does so.
func TestPartitionIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 60)
		stop := r.start(t)
		const broadcasts, rate = 100, 100 // 6,000 messages, due within a second
		for i := range broadcasts {
			r.add(t, to("p", fmt.Sprint("b", i), rate))
		}
		time.Sleep(5 * time.Second)
		stop()
		if got := len(r.take(t)); got < 1000 || got > 2000 {
			t.Errorf("messages on the partition = %d, want 1000 to 2000", got)
		}
	})
}

// TestPartitionRefuses checks a partition that takes no messages, though it looks
// empty, and has more broadcasts than there are rounds at a time. It costs another
// partition's broadcast the time of two publishes, and doubles none of its messages.
// Afterwards its own come once each.
func TestPartitionRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, p, q := twoPages(t)
		sick, heals := r.broker.Topology().OutboundOf(p), time.Now().Add(40*time.Second)
		r.flaky.instead = func(ctx context.Context, msgs []queue.Message) error {
			errs := make([]error, len(msgs))
			if time.Now().Before(heals) && slices.ContainsFunc(msgs, func(m queue.Message) bool { return m.Queue == sick }) {
				time.Sleep(9 * time.Second) // within PublishTimeout
			}
			for i, m := range msgs {
				if m.Queue == sick && time.Now().Before(heals) {
					errs[i] = queue.ErrRefused
				} else {
					errs[i] = r.broker.Publish(ctx, m)
				}
			}
			return queue.NewPublishError(errs)
		}
		rec, late := recordOn(t, r.broker, r.broker.Topology().OutboundOf(q)), recordOn(t, r.broker, sick)
		for i := range 2 * maxRounds {
			r.add(t, to(p, fmt.Sprint("sick", i), 10))
		}
		r.add(t, to(q, "well", 10))
		stop := r.start(t)
		time.Sleep(25 * time.Second)
		rec.wantOnce(t, "well", 40)
		rec.wantLast(t, "well", 3*time.Second, 22*time.Second)
		late.wantOnce(t, "sick0", 0)
		time.Sleep(90 * time.Second)
		stop()
		for i := range 2 * maxRounds {
			late.wantOnce(t, fmt.Sprint("sick", i), 40)
		}
		r.wantEnded(t, 2*maxRounds+1, 0, 0)
	})
}
