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

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// on returns an event on another page.
func on(page string, ev message.Event) message.Event {
	ev.Page = page
	return ev
}

// TestStuckPageHoldsUpNobody checks that pages whose copies are never confirmed,
// with more events than core holds, take one worker each and no other page's place.
func TestStuckPageHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for stuck, events := range map[int]int{1: 1000, 3: 300} {
		synctest.Test(t, func(t *testing.T) {
			r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.Prefetch = 64 })
			r.flaky.before = func(ctx context.Context, msgs []queue.Message) error {
				if strings.HasPrefix(msgs[0].ID, "p") && msgs[0].Queue == "test.outbound.00" {
					<-ctx.Done()
					return queue.ErrUnavailable
				}
				return nil
			}
			for i := range events {
				for p := range stuck {
					r.say(t, on(fmt.Sprint("p", p), text("1", fmt.Sprint(i), "stuck")))
				}
			}
			for i := range 20 {
				r.say(t, on(fmt.Sprint("q", i), text("1", "a", "free")))
			}
			r.handled(t)
			if got := len(r.sent(t)); got != 20 {
				t.Errorf("copies of other pages beside %d that are stuck = %d, want 20", stuck, got)
			}
			left := 0
			for _, name := range append(r.broker.Topology().Overflows(), "test.inbound") {
				left += len(take(t, r.broker, name))
			}
			if left != stuck*events {
				t.Errorf("events of the stuck pages on the queues = %d, want all %d", left, stuck*events)
			}
		})
	}
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
// core 0.2 s each, is handled before one event of each of 20 other pages: one
// event, since that page has one worker, and the others have three.
func TestBusyPageTakesTurns(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.Workers = workers })
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
			if before := last + 1 - 20; before > 20 {
				t.Errorf("%d workers: %d events of the busy page were handled before those of the others, want 20 at most", workers, before)
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
				t.Errorf("%d workers: events of the busy page were handled as %d, %v …, want all in order", workers, len(got), got[:min(5, len(got))])
			}
			if moved := testutil.ToFloat64(r.core.metrics.moved); moved < 200 {
				t.Errorf("%d workers: events moved = %v, want most of %d", workers, moved, events)
			}
			if err := stop(); err != nil {
				t.Errorf("Run() = %v, want nil", err)
			}
			if n := len(r.core.pages.pages); n != 0 {
				t.Errorf("%d workers: core remembers %d pages without events, want none", workers, n)
			}
		})
	}
}

// TestOrderOfBusyPage checks that a page's events are handled in order while they
// overflow, come back, and go on coming.
func TestOrderOfBusyPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.Prefetch = 16 })
		handled := r.slow(50 * time.Millisecond)
		stop := r.start(t)
		n := 0
		bursts := 20
		if testing.Short() {
			bursts = 6
		}
		for range bursts {
			for burst := range 30 { // 1.5 s of work in less than that
				r.say(t, text(fmt.Sprint(n%2), fmt.Sprint("m", n), "busy"), on("q", text(fmt.Sprint(n%2), fmt.Sprint("m", n), "beside")))
				n++
				time.Sleep(time.Duration(burst%5) * 7 * time.Millisecond)
			}
			time.Sleep(1200 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		for _, page := range []string{"p", "q"} {
			var got []string
			for _, id := range handled() {
				if strings.HasPrefix(id, page+"/") {
					got = append(got, id)
				}
			}
			for i, id := range got {
				if want := fmt.Sprint(page, "/m", i); id != want {
					t.Fatalf("event %d of page %s is %s, want %s", i, page, id, want)
				}
			}
			if len(got) != n {
				t.Errorf("events of page %s = %d, want %d", page, len(got), n)
			}
		}
		if moved := testutil.ToFloat64(r.core.metrics.moved); moved == 0 || moved == float64(2*n) {
			t.Errorf("events moved = %v, want some and not all", moved)
		}
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// TestTwoCoresOverflow checks that the events that one core moves are handled by
// another one, that the first one then sends no more there, and that those of a
// core that ends are taken over.
func TestTwoCoresOverflow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker, store := newBroker(t), newStore(t, "sqlite::memory:")
		small := func(c *Config) { c.Prefetch = 16 }
		first, second := newRigOn(t, broker, store, small), newRigOn(t, broker, store, small)
		one, two := first.slow(100*time.Millisecond), second.slow(100*time.Millisecond)
		stop := first.start(t) // it is delivered the overflow queues
		for user := range 2 {  // who writes before the other is there has no copies made
			first.say(t, text(fmt.Sprint(user), fmt.Sprint("join", user), "hello"))
		}
		time.Sleep(time.Second)
		stopSecond := second.start(t)
		synctest.Wait()
		for i := range 200 {
			first.say(t, text(fmt.Sprint(i%2), fmt.Sprint("m", i), "busy"))
		}
		time.Sleep(2 * time.Second)
		if moved := testutil.ToFloat64(second.core.metrics.moved); moved < 10 {
			t.Errorf("events that the second core moved = %v, want some", moved)
		}
		if err := stop(); err != nil { // the other one goes on
			t.Errorf("Run() = %v, want nil", err)
		}
		time.Sleep(time.Minute)
		all := slices.DeleteFunc(append(one(), two()...), func(id string) bool { return strings.HasPrefix(id, "p/join") })
		slices.Sort(all)
		if all = slices.Compact(all); len(all) != 200 {
			t.Errorf("events handled = %d, want 200", len(all))
		}
		moved := testutil.ToFloat64(second.core.metrics.moved)
		for i := range 20 {
			first.say(t, text("1", fmt.Sprint("calm", i), "calm"))
			time.Sleep(time.Second)
		}
		if got := testutil.ToFloat64(second.core.metrics.moved); got != moved {
			t.Errorf("events moved of a page that is calm again = %v, want none", got-moved)
		}
		if err := stopSecond(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// TestOverflowAtAnotherCore checks that a core whose events come out at another
// one sends the page's next events there no longer than a few seconds.
func TestOverflowAtAnotherCore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.Prefetch = 16 })
		for _, name := range r.broker.Topology().Overflows() { // the other core
			sub, err := r.broker.Consume(name, queue.ConsumeOptions{Prefetch: 1000})
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
		}
		handled := r.slow(100 * time.Millisecond)
		stop := r.start(t)
		for i := range 50 {
			r.say(t, text(fmt.Sprint(i%2), fmt.Sprint("m", i), "busy"))
		}
		time.Sleep(10 * time.Second)
		before := len(handled())
		r.say(t, text("1", "calm", "calm"))
		time.Sleep(time.Second)
		if ids := handled(); before >= 50 || len(ids) != before+1 || ids[before] != "p/calm" {
			t.Errorf("events handled here = %d before and %d after, want some and then the page's next", before, len(ids))
		}
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// TestOverflowRefuses checks that a page whose overflow queue takes nothing holds
// up no other, and that its events are handled later.
func TestOverflowRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.Prefetch = 64 })
		handled := r.slow(100 * time.Millisecond)
		slow := r.flaky.before
		r.flaky.before = func(ctx context.Context, msgs []queue.Message) error {
			full := func(m queue.Message) bool { return strings.Contains(m.Queue, ".overflow.") }
			if !slices.ContainsFunc(msgs, full) {
				return slow(ctx, msgs)
			}
			errs := make([]error, len(msgs))
			for i, m := range msgs {
				if full(m) {
					errs[i] = queue.ErrRefused
				} else if err := r.broker.Publish(ctx, m); err != nil {
					return err
				}
			}
			return queue.NewPublishError(errs)
		}
		stop := r.start(t)
		for i := range 300 {
			r.say(t, text(fmt.Sprint(i%2), fmt.Sprint("m", i), "busy"))
		}
		for i := range 20 {
			r.say(t, on(fmt.Sprint("q", i), text("1", "a", "free")))
		}
		time.Sleep(5 * time.Second)
		others := 0
		for _, id := range handled() {
			if strings.HasPrefix(id, "q") {
				others++
			}
		}
		if others != 20 {
			t.Errorf("events of other pages that were handled = %d, want 20", others)
		}
		time.Sleep(10 * time.Minute)
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		left := 0
		for _, name := range []string{"test.inbound"} {
			left += len(take(t, r.broker, name))
		}
		if n := len(handled()); n+left != 320 || left > 64 {
			t.Errorf("events handled = %d, left = %d, want all 320 but what waits for the queue", n, left)
		}
	})
}
