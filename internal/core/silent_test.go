package core

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/rooms"
)

// silentStore has silent members in three parts.
type silentStore struct{ Store }

func (s silentStore) SilentMembers(_ context.Context, after rooms.Silent) ([]rooms.Silent, error) {
	next := map[string][]string{"": {"1", "2"}, "2": {"3", "4"}, "4": {"5"}}[after.User]
	list := make([]rooms.Silent, len(next))
	for i, user := range next {
		list[i] = rooms.Silent{Page: "p", User: user, Since: time.Unix(0, 0)}
	}
	return list, nil
}

// TestSweepFindsAll: however many are silent.
func TestSweepFindsAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, newBroker(t), silentStore{newStore(t, "sqlite::memory:")})
		if err := r.core.sweepOnce(t.Context()); err != nil {
			t.Errorf("sweepOnce() = %v, want nil", err)
		}
		r.wantQueue(t, "test.inbound", 5)
	})
}

// TestFromTheFuture: a day ahead by its stamp, a member is silent when it is.
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

// slowCounts is a database that takes its time to add counts.
type slowCounts struct {
	Store
	asked, answer chan struct{}
}

func (s slowCounts) AddCounts(ctx context.Context, places map[rooms.Place]rooms.Count) error {
	close(s.asked)
	select {
	case <-s.answer:
		return s.Store.AddCounts(ctx, places)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestStopKeepsCounts: those that are on their way to the database.
func TestStopKeepsCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := slowCounts{newStore(t, "sqlite::memory:"), make(chan struct{}), make(chan struct{})}
		r := newRigOn(t, newBroker(t), slow)
		r.say(t, now("1", "a", "hello"))
		stop := r.start(t)
		<-slow.asked
		go func() { _ = stop() }()
		synctest.Wait()
		close(slow.answer)
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		if _, answer := r.ask(t, "GET", "/pages", ""); !strings.Contains(answer, `"messages_per_hour":1,"copies_per_hour":1,`) {
			t.Errorf("GET /pages after a stop while counts were written = %s, want one message and one copy", answer)
		}
	})
}
