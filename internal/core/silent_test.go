package core

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
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

func (s slowCounts) AddCounts(ctx context.Context, places map[rooms.RoomKey]rooms.Count) error {
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

// stuckStore is a database that is slow to list pages.
type stuckStore struct {
	Store
	asked, most atomic.Int64
}

func (s *stuckStore) Pages(ctx context.Context, _ string, _ int) ([]rooms.PageView, error) {
	s.most.Store(max(s.most.Load(), s.asked.Add(1)))
	defer s.asked.Add(-1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSlowRequests: what operators ask ends by itself, and leaves connections
// to events.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := &stuckStore{Store: newStore(t, "sqlite::memory:")}
		h := newRigOn(t, newBroker(t), stuck).core.Handler()
		begin := time.Now()
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/pages", nil))
				if w.Code != 503 {
					t.Errorf("GET /pages of a slow database = %d, want 503", w.Code)
				}
			})
		}
		group.Wait()
		if got := time.Since(begin); got != 10*time.Second {
			t.Errorf("requests to a slow database took %v, want 10s", got)
		}
		if got := stuck.most.Load(); got != 2 {
			t.Errorf("requests at a time = %d, want 2", got)
		}
	})
}
