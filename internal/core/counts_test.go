package core

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/rooms"
)

// slowCounts is a database that adds counts only when it is told to.
type slowCounts struct {
	Store
	asked, answer chan struct{}
}

func (s slowCounts) AddCounts(ctx context.Context, counts map[rooms.RoomKey]rooms.Count) error {
	close(s.asked)
	select {
	case <-s.answer:
		return s.Store.AddCounts(ctx, counts)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestStopKeepsCounts checks that a stop waits for counts that are being written.
func TestStopKeepsCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, "sqlite::memory:")
		slow := slowCounts{store, make(chan struct{}), make(chan struct{})}
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
		pages, err := store.Pages(t.Context(), "", 1)
		if err != nil || len(pages) != 1 || pages[0].Events != 1 || pages[0].Copies != 1 {
			t.Errorf("Pages() after a stop while counts were written = %+v, %v, want one message and one copy", pages, err)
		}
	})
}

// TestCountsAlongside checks that Alongside runs from the end of the migration on,
// that its end is waited for, and that its last counts are written.
func TestCountsAlongside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, "sqlite::memory:")
		counter := new(rooms.Counter)
		s := &migrating{Store: store, takes: time.Minute, fails: func(int) error { return nil }}
		var began time.Duration
		begin := time.Now()
		r := newRigOn(t, newBroker(t), s, func(c *Config) {
			c.Counter = counter
			c.Alongside = func(ctx context.Context) error {
				began = time.Since(begin)
				<-ctx.Done()
				time.Sleep(3 * time.Second)
				counter.Add(rooms.RoomKey{Page: "p"}, rooms.Count{Events: 2, Copies: 3})
				return nil
			}
		})
		r.say(t, now("1", "a", "hello"))
		stop := r.start(t)
		time.Sleep(2 * time.Minute)
		asked := time.Now()
		if err := stop(); err != nil || time.Since(asked) != 3*time.Second {
			t.Errorf("Run() = %v after %v, want nil after 3s", err, time.Since(asked))
		}
		if began != time.Minute {
			t.Errorf("Alongside began after %v, want 1m, with the end of the migration", began)
		}
		pages, err := store.Pages(t.Context(), "", 1)
		if err != nil || len(pages) != 1 || pages[0].Events != 3 || pages[0].Copies != 4 {
			t.Errorf("Pages() = %+v, %v, want three messages and four copies", pages, err)
		}
	})
}

// TestAlongsideFails checks that Run ends with the error of Alongside.
func TestAlongsideFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) {
			c.Alongside = func(context.Context) error { return errAway }
		})
		if err := r.core.Run(t.Context()); !errors.Is(err, errAway) {
			t.Errorf("Run() = %v, want %v", err, errAway)
		}
	})
}
