package broadcast

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// TestLongPartition checks that nothing is added to a partition that no dispatcher
// empties, and that the rate is kept afterwards.
func TestLongPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 60)
		stop := r.start(t)
		partition := r.broker.Topology().Outbound(0)
		msgs := slices.Repeat([]queue.Message{{Queue: partition, ID: "x", Body: []byte("{}")}}, 1001)
		if err := r.broker.Publish(t.Context(), msgs...); err != nil {
			t.Fatal(err)
		}
		r.add(t, to("p", "a", 10))
		time.Sleep(10 * time.Second)
		const metric = `
			# HELP chatclub_core_broadcast_partitions_full Partitions that are too long for this core's broadcasts, which wait.
			# TYPE chatclub_core_broadcast_partitions_full gauge
			chatclub_core_broadcast_partitions_full %d
		`
		r.wantMetrics(t, fmt.Sprintf(metric, 1), "chatclub_core_broadcast_partitions_full")
		if got := len(r.take(t)); got != 1001 {
			t.Errorf("messages on the long partition = %d, want 1001", got)
		}
		rec := record(t, r.broker)
		time.Sleep(10 * time.Second)
		stop()
		rec.wantOnce(t, "a", 60)
		rec.wantLast(t, "a", 4*time.Second, 7*time.Second)
		if got := rec.of("a"); len(got) > 16 && got[15] == got[16] {
			t.Errorf("more than 16 messages were queued at %v, want one and what 1.5 s allow", got[16])
		}
		r.wantMetrics(t, fmt.Sprintf(metric, 0), "chatclub_core_broadcast_partitions_full")
	})
}

// TestOutages checks that each message comes once although the database or the
// broker fails.
func TestOutages(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"claim", "claimed", "next", "advance", "publish"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.members(t, "p", 40)
				rec := record(t, r.broker)
				r.store.before = times(3, method)
				r.flaky.before = func([]queue.Message) error { return r.store.before("publish") }
				stop := r.start(t)
				r.add(t, to("p", "a", 10))
				time.Sleep(20 * time.Second)
				stop()
				rec.wantOnce(t, "a", 40)
				rec.wantRate(t, "a", 10, 5)
				r.wantEnded(t, 1, 0, 0)
				r.wantMetrics(t, `
					# HELP chatclub_core_failures_total Failed steps, each tried again, by step.
					# TYPE chatclub_core_failures_total counter
					chatclub_core_failures_total{step="broadcast"} 3
				`, "chatclub_core_failures_total")
			})
		})
	}
}

// TestClockAhead checks that a scheduler whose clock is ahead asks now and then whether that
// is over, and then goes on.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 1)
		right := time.Now().Add(10 * time.Minute)
		r.store.before = func(method string) error {
			if method == "claim" && time.Now().Before(right) {
				return fmt.Errorf("claim broadcasts: %w", rooms.ErrAhead)
			}
			return nil
		}
		stop := r.start(t)
		r.add(t, to("p", "a", 1))
		time.Sleep(time.Until(right) + time.Minute + time.Second)
		stop()
		if got := len(r.take(t)); got != 1 {
			t.Errorf("messages once the clock is right = %d, want 1", got)
		}
		if got := testutil.ToFloat64(r.scheduler.metrics.failures); got > 41 {
			t.Errorf("failures in ten minutes = %v, want at most 41", got)
		}
	})
}

// TestClockJumpsAhead checks that broadcasts outlive a clock that is ahead of their deadlines for
// a while.
func TestClockJumpsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		db := newStore(t, "sqlite::memory:", nil)
		r := newRigOn(t, newBroker(t), db, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		r.members(t, "p", 40)
		r.store.before = func(method string) error {
			if (method == "claim" || method == "next") && ahead.Load() > 0 {
				return fmt.Errorf("%s: %w", method, rooms.ErrAhead)
			}
			return nil
		}
		stop := r.start(t)
		r.add(t, to("p", "a", 1))
		time.Sleep(5 * time.Second)
		ahead.Store(int64(2 * time.Hour))
		time.Sleep(time.Minute)
		if got := len(r.take(t)); got < 4 || got > 7 {
			t.Errorf("messages before the clock jumped = %d, want those of five seconds", got)
		}
		ahead.Store(0)
		time.Sleep(2 * time.Minute)
		stop()
		r.wantEnded(t, 1, 0, 0)
	})
}

// TestShutdown checks that a round in progress is finished, and that the end comes
// in bounded time.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		publish time.Duration // how long it takes
		want    time.Duration // until Run returns
		queued  int
	}{
		{"in time", 3 * time.Second, 2 * time.Second, 1},
		{"too late", time.Hour, 20 * time.Second, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.scheduler.cfg.PublishTimeout = 2 * time.Hour
				r.members(t, "p", 1)
				r.flaky.delay = tt.publish
				r.add(t, to("p", "a", 1))
				stop := r.start(t)
				time.Sleep(time.Second)
				begin := time.Now()
				stop()
				if got := time.Since(begin); got != tt.want {
					t.Errorf("Run() returned after %v, want %v", got, tt.want)
				}
				if got := len(r.take(t)); got != tt.queued {
					t.Errorf("messages on the partition = %d, want %d", got, tt.queued)
				}
				claim, err := r.db.Broadcasts().Claim(t.Context(), "next", time.Minute)
				if want := 1 - tt.queued; len(claim.New) != want || err != nil {
					t.Errorf("broadcasts for the next holder = %d, %v, want %d", len(claim.New), err, want)
				}
			})
		})
	}
}

// TestSlowPages checks that pages whose recipients are not read in time delay no other
// page's broadcasts for long. There are more of them than rounds at a time.
func TestSlowPages(t *testing.T) {
	t.Parallel()
	const slow, others, people, rate = maxRounds + 1, 8, 16, 0.5
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		rec := record(t, r.broker)
		r.store.slow = "slow"
		for i := range slow + others {
			page := fmt.Sprintf("p%02d", i)
			if i < slow {
				page = "slow" + page
			}
			r.members(t, page, people)
			b := to(page, page, rate)
			if i < slow {
				b.Deadline = time.Now().Add(15 * time.Second) // which ends it all the same
			}
			r.add(t, b)
		}
		stop := r.start(t)
		// Each slow page has one of the places for ten seconds, once. From then on they
		// share the one for those that fail.
		time.Sleep(people/rate*time.Second + 25*time.Second)
		stop()
		for i := range others {
			rec.wantOnce(t, fmt.Sprintf("p%02d", slow+i), people)
		}
		for i := range slow {
			rec.wantOnce(t, fmt.Sprintf("slowp%02d", i), 0)
		}
		r.wantEnded(t, others, slow, 0)
	})
}
