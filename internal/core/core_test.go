package core

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

func TestRelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.say(t,
			text("1", "a", "hello"),
			text("2", "b", "hi"),
			text("1", "a", "hello"), // Messenger repeats it
			message.Event{Kind: message.KindPostback, Page: "p", ID: "c", User: "2", Payload: "X"},
			message.Event{Kind: message.KindPostback, Page: "p", ID: "c", User: "2", Payload: "X"},
			message.Event{Kind: message.KindPolicy, Page: "p", ID: "d", Action: "warning"},
		)
		r.handled(t)
		wantSent(t, "of two users", r.sent(t),
			"1: "+welcomeFirst,
			"2: "+welcomeNext,
			"1: Guest 2: hi",
			"2: You are in room 1 with 1 other.",
		)
		r.wantQueue(t, "test.inbound.00", 0)
		r.wantQueue(t, "test.dead", 0)
		r.wantMetrics(t, `
			# HELP chatclub_core_events_total Events whose handling began, by kind; one that is delivered again counts again.
			# TYPE chatclub_core_events_total counter
			chatclub_core_events_total{kind="deletion"} 0
			chatclub_core_events_total{kind="feedback"} 0
			chatclub_core_events_total{kind="idle"} 0
			chatclub_core_events_total{kind="message"} 3
			chatclub_core_events_total{kind="other"} 0
			chatclub_core_events_total{kind="policy"} 1
			chatclub_core_events_total{kind="postback"} 2
			# HELP chatclub_core_copies_total Messages confirmed on their page's partition.
			# TYPE chatclub_core_copies_total counter
			chatclub_core_copies_total 4
			# HELP chatclub_core_joins_total Users who joined a room.
			# TYPE chatclub_core_joins_total counter
			chatclub_core_joins_total 2
			# HELP chatclub_core_repeated_total Events dropped because they were finished before.
			# TYPE chatclub_core_repeated_total counter
			chatclub_core_repeated_total 2
			# HELP chatclub_core_reproduced_total Events whose copies were made again because they were begun but not finished before.
			# TYPE chatclub_core_reproduced_total counter
			chatclub_core_reproduced_total 0
			# HELP chatclub_core_in_hand_events Events being handled.
			# TYPE chatclub_core_in_hand_events gauge
			chatclub_core_in_hand_events 0
		`, "chatclub_core_events_total", "chatclub_core_copies_total", "chatclub_core_joins_total",
			"chatclub_core_repeated_total", "chatclub_core_reproduced_total", "chatclub_core_in_hand_events")
	})
}

// TestPublishAgain checks that after an error only those messages are published
// again that the broker has not confirmed.
func TestPublishAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.say(t, text("1", "a", ""), text("2", "b", ""), text("3", "c", ""), text("4", "d", ""))
		r.handled(t)
		r.sent(t)
		calls := 0
		r.flaky.before = func(ctx context.Context, msgs []queue.Message) error {
			if calls++; calls > 2 {
				return nil
			}
			errs := make([]error, len(msgs)) // the first call confirms the first, the second call another
			for i, m := range msgs {
				if i > 0 {
					errs[i] = queue.ErrRefused
				} else if errs[i] = r.broker.Publish(ctx, m); errs[i] != nil {
					t.Fatal(errs[i])
				}
			}
			return queue.NewPublishError(errs)
		}
		r.say(t, text("1", "e", "hi"))
		stop := r.start(t)
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		wantSent(t, "after two errors", r.sent(t), "2: Guest 1: hi", "3: Guest 1: hi", "4: Guest 1: hi")
		if got := testutil.ToFloat64(r.core.metrics.copies); got != 4+3 {
			t.Errorf("copies counted = %v, want 7: four welcomes, and each of these once", got)
		}
	})
}

// TestCrash stops a core between two steps as a kill would. Its effects in the
// database and the broker stay, and the event is delivered again.
func TestCrash(t *testing.T) {
	t.Parallel()
	copies := []string{"2: " + welcomeNext, "1: Guest 2: hi"}
	for _, tt := range []struct {
		name  string
		crash func(r *rig)
		first []string // on the queue already when it crashes
	}{
		{"before publish", func(r *rig) {
			r.flaky.before = func(context.Context, []queue.Message) error { return queue.ErrUnavailable }
		}, nil},
		{"in the middle of publish", func(r *rig) {
			r.flaky.before = func(ctx context.Context, msgs []queue.Message) error {
				return errors.Join(r.broker.Publish(ctx, msgs[0]), queue.ErrUnavailable)
			}
		}, copies[:1]},
		{"before done", func(r *rig) { r.store.before = times(1_000_000, "done") }, copies},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.say(t, text("1", "a", "hello"))
				r.handled(t)
				r.sent(t)

				tt.crash(r)
				r.say(t, text("2", "b", "hi"))
				r.handled(t)
				wantSent(t, "before the crash", r.sent(t), tt.first...)
				r.wantQueue(t, "test.inbound.00", 1)

				next := newRigOn(t, r.broker, r.store.Store)
				next.handled(t)
				wantSent(t, "after the crash", next.sent(t), copies...)
				next.wantQueue(t, "test.inbound.00", 0)
				next.wantMetrics(t, `
					# HELP chatclub_core_reproduced_total Events whose copies were made again because they were begun but not finished before.
					# TYPE chatclub_core_reproduced_total counter
					chatclub_core_reproduced_total 1
				`, "chatclub_core_reproduced_total")

				next = newRigOn(t, r.broker, r.store.Store)
				next.say(t, text("2", "b", "hi"))
				next.handled(t)
				wantSent(t, "of the finished event repeated", next.sent(t))
			})
		})
	}
}

// TestOutage checks that an event waits for a database or broker that is away, and
// is then handled once.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		step   step
		outage func(r *rig)
	}{
		{stepMigrate, func(r *rig) { r.store.before = times(5, "migrate") }},
		{stepReceive, func(r *rig) { r.store.before = times(5, "receive") }},
		{stepDone, func(r *rig) { r.store.before = times(5, "done") }},
		{stepPublish, func(r *rig) {
			fail := times(5, "publish")
			r.flaky.before = func(context.Context, []queue.Message) error { return fail("publish") }
		}},
	} {
		t.Run(string(tt.step), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				tt.outage(r)
				r.say(t, text("1", "a", "hello"))
				stop := r.start(t)
				time.Sleep(time.Minute)
				if err := stop(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
				if got := testutil.ToFloat64(r.core.metrics.failures[tt.step]); got != 5 {
					t.Errorf("failures of %s = %v, want 5", tt.step, got)
				}
				wantSent(t, "after the outage", r.sent(t), "1: "+welcomeFirst)
				r.wantQueue(t, "test.inbound.00", 0)
				r.wantQueue(t, "test.dead", 0)
			})
		})
	}
}
