package core

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// silentStore returns silent members in three parts.
type silentStore struct{ Store }

func (s silentStore) SilentMembers(_ context.Context, after rooms.Silent) ([]rooms.Silent, error) {
	next := map[string][]string{"": {"1", "2"}, "2": {"3", "4"}, "4": {"5"}}[after.User]
	list := make([]rooms.Silent, len(next))
	for i, user := range next {
		list[i] = rooms.Silent{Page: "p", User: user, Since: time.Unix(0, 0)}
	}
	return list, nil
}

// TestSweepFindsAll checks that a sweep finds all silent members.
func TestSweepFindsAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, newBroker(t), silentStore{newStore(t, "sqlite::memory:")})
		if err := (sweeper{r.core.cfg, r.core.retry}).sweep(t.Context()); err != nil {
			t.Errorf("sweep() = %v, want nil", err)
		}
		r.wantQueue(t, "test.inbound.00", 5)
	})
}

// TestSweepGoesOn checks that a sweep finds all whose partition takes their events.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, newBroker(t), silentStore{newStore(t, "sqlite::memory:")})
		sick := errors.New("sick")
		r.flaky.before = func(_ context.Context, msgs []queue.Message) error {
			if len(msgs) == 2 && strings.HasPrefix(msgs[0].ID, "p/idle/1/") {
				return sick
			}
			return nil
		}
		if err := (sweeper{r.core.cfg, r.core.retry}).sweep(t.Context()); !errors.Is(err, sick) {
			t.Errorf("sweep() = %v, want %v", err, sick)
		}
		r.wantQueue(t, "test.inbound.00", 3)
	})
}

// TestFromTheFuture checks that a member whose event is stamped a day ahead leaves
// when it has been silent for long enough.
func TestFromTheFuture(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newIdleRig(t, newBroker(t), time.Hour)
		ahead := now("1", "a", "hello")
		ahead.Time += 24 * 3600 * 1000
		r.say(t, ahead)
		stop := r.start(t)
		wantSent(t, "of an event from the future", r.sent(t), "1: "+welcomeFirst)
		time.Sleep(time.Hour + 2*time.Minute)
		wantSent(t, "an hour later", r.sent(t), "1: You have been silent for 1 h and have left room 1. Write anything to come back.")
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// TestClockBehind checks that messages have their event's time where core's clock is behind:
// a dispatcher would take them for old.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		behind := func() time.Time { return time.Now().Add(-48 * time.Hour) }
		r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.Now = behind })
		first := now("1", "a", "hello")
		r.say(t, first, now("2", "b", "hi")) // at the same time
		r.handled(t)
		msgs := take(t, r.broker, "test.outbound.00")
		if len(msgs) != 3 {
			t.Errorf("messages = %d, want two welcomes and a copy", len(msgs))
		}
		for _, m := range msgs {
			if o, err := message.DecodeOutbound(m.Body); err != nil || o.Time != first.Time {
				t.Errorf("time of %s = %d, %v, want its event's %d", m.ID, o.Time, err, first.Time)
			}
		}
	})
}

// TestIdleLeaves checks that a silent member leaves once, with a notice, although
// every sweep finds it until then.
func TestIdleLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newIdleRig(t, newBroker(t), time.Hour)
		r.say(t, now("1", "a", "hello"), now("2", "b", "hi"))
		stop := r.start(t)
		synctest.Wait()
		r.sent(t)
		time.Sleep(30 * time.Minute)
		r.say(t, now("1", "c", "awake"))
		time.Sleep(31 * time.Minute)
		wantSent(t, "after an hour", r.sent(t),
			"2: Guest 1: awake", "2: You have been silent for 1 h and have left room 1. Write anything to come back.")
		time.Sleep(time.Hour)
		wantSent(t, "after another", r.sent(t), "1: You have been silent for 1 h and have left room 1. Write anything to come back.")
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		r.wantMetrics(t, `
			# HELP chatclub_core_idle_total Members told that they left a room because they were silent.
			# TYPE chatclub_core_idle_total counter
			chatclub_core_idle_total 2
		`, "chatclub_core_idle_total")
	})
}
