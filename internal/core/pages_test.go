package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/partitions"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
)

// on returns an event on another page.
func on(page string, ev message.Event) message.Event {
	ev.Page = page
	return ev
}

// TestStuckPartitionHoldsUpNoOther checks that pages whose copies are never confirmed,
// with more events than core holds, take neither the workers nor the places of those of
// other partitions.
func TestStuckPartitionHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memorytest.New(t, queue.Topology{Prefix: "test", Partitions: 8})
		r := newRigOn(t, b, newStore(t, "sqlite::memory:"), func(c *Config) { c.Prefetch, c.Workers = 64, 8 })
		sick := b.Topology().Outbound(0)
		r.flaky.before = func(ctx context.Context, msgs []queue.Message) error {
			if msgs[0].Queue == sick {
				<-ctx.Done()
				return queue.ErrUnavailable
			}
			return nil
		}
		stuck, free := 0, 0
		for i := range 2000 {
			if page := fmt.Sprint("p", i%200); b.Topology().OutboundOf(page) == sick {
				stuck++
				r.say(t, on(page, text("1", fmt.Sprint(i), "stuck")))
			}
		}
		stop := r.start(t)
		time.Sleep(time.Second)
		for i := range 200 {
			if page := fmt.Sprint("p", i); b.Topology().OutboundOf(page) != sick {
				free++
				r.say(t, on(page, text("1", "a", "free")))
			}
		}
		time.Sleep(time.Second)
		got := 0
		for i := range 8 {
			got += len(take(t, b, b.Topology().Outbound(i)))
		}
		if got != free || stuck < 100 {
			t.Errorf("copies of other partitions, beside %d events that are stuck = %d, want %d", stuck, got, free)
		}
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		if left := len(take(t, b, b.Topology().Inbound(0))); left != stuck {
			t.Errorf("events of the stuck pages on their queue = %d, want all %d", left, stuck)
		}
	})
}

// slow makes each publish of copies take so long, and records the events whose
// copies are published, in order.
func (r *rig) slow(d time.Duration) (handled func() []string) {
	var mu sync.Mutex
	var ids []string
	r.flaky.before = func(ctx context.Context, msgs []queue.Message) error {
		if msgs[0].Queue != r.broker.Topology().Outbound(0) {
			return nil
		}
		mu.Lock()
		ids = append(ids, strings.Join(strings.Split(msgs[0].ID, "/")[:2], "/"))
		mu.Unlock()
		backoff.Sleep(ctx, d)
		return nil
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(ids)
	}
}

// TestBusyPageTakesTurns checks how much of a page with 360 events, which take
// core 0.2 s each, is handled before one event of each of 20 other pages. With workers
// enough that is an event in each turn; of what does not fit into the prefetch, all
// before.
func TestBusyPageTakesTurns(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ workers, prefetch, most int }{{1, 512, 21}, {4, 512, 21}, {1, 256, 130}, {4, 256, 130}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.Workers, c.Prefetch = row.workers, row.prefetch })
			handled := r.slow(200 * time.Millisecond)
			stop := r.start(t)
			const events = 360
			for i := range events {
				r.say(t, text(fmt.Sprint(i%12), fmt.Sprint("m", i), "busy"))
			}
			for i := range 20 {
				r.say(t, on(fmt.Sprint("q", i), text("1", "a", "free")))
			}
			time.Sleep(2 * time.Minute)
			ids := handled()
			last := 0
			for i, id := range ids {
				if strings.HasPrefix(id, "q") {
					last = i
				}
			}
			if before := last + 1 - 20; before > row.most {
				t.Errorf("%+v: %d events of the busy page were handled before those of the others", row, before)
			}
			var got, want []string
			for _, id := range ids {
				if strings.HasPrefix(id, "p/") {
					got = append(got, id)
				}
			}
			for i := range events {
				want = append(want, fmt.Sprint("p/m", i))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: events of the busy page were handled as %d, %v …, want all in order", row, len(got), got[:min(5, len(got))])
			}
			if err := stop(); err != nil {
				t.Errorf("Run() = %v, want nil", err)
			}
			if n := len(r.core.pages.pages); n != 0 {
				t.Errorf("%+v: core remembers %d pages without events, want none", row, n)
			}
		})
	}
}

// Events of claims that ended come again. Those that were there before do not pile up
// while nobody handles any.
func TestStaleEventsDoNotPileUp(t *testing.T) {
	t.Parallel()
	p := newPages(1, 64)
	live := inbound{claim: new(partitions.Claim), event: on("p", text("1", "live", "hello")), delivery: queue.NewDelivery(nil, new(settler), 1, queue.Message{Queue: "q"}, false)}
	for range 100_000 {
		p.add(inbound{claim: live.claim, event: live.event, delivery: queue.NewDelivery(nil, deadChannel{t}, 1, queue.Message{Queue: "q"}, false)})
	}
	p.add(live)
	if n := len(p.pages["p"].waiting); n > 1000 {
		t.Errorf("%d events wait, of which one can be settled", n)
	}
	for n := 0; ; n++ {
		in, ok := p.next()
		if !ok || n > 1000 {
			t.Fatal("the event that can be settled does not come")
		}
		p.done(in)
		if in.delivery.Live() {
			break
		}
	}
	if len(p.ready) > 1 {
		t.Errorf("one page is ready %d times", len(p.ready))
	}
}
