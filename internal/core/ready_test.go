package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/backoff"
	"chatclub/internal/rooms"
)

// migrating is a store whose migration fails or takes a while, as a test says.
type migrating struct {
	Store
	fails func(try int) error // tries count from 1
	takes time.Duration
	tries int
}

func (s *migrating) Migrate(ctx context.Context) error {
	s.tries++
	if err := s.fails(s.tries); err != nil {
		return err
	}
	if !backoff.Sleep(ctx, s.takes) {
		return ctx.Err()
	}
	return s.Store.Migrate(ctx)
}

func wantReady(t *testing.T, r *rig, when, want string) {
	t.Helper()
	got := ""
	if err := r.core.Ready(t.Context()); err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("Ready() %s = %q, want %q", when, got, want)
	}
}

// TestReady checks Ready from before the start to the end.
func TestReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newBroker(t), newStore(t, "sqlite::memory:")
		r := newRigOn(t, b, &migrating{Store: s, takes: 3 * time.Hour, fails: func(try int) error {
			if try == 1 {
				return errAway
			}
			return nil
		}})
		wantReady(t, r, "before Run", "core has not started")
		stop := r.launch(t)
		synctest.Wait()
		wantReady(t, r, "after a first failure", "database: away")
		time.Sleep(time.Second)
		wantReady(t, r, "while migrating again", "database: migrating since 2000-01-01T00:00:00Z, after away")
		time.Sleep(3*time.Hour - 2*time.Second)
		wantReady(t, r, "three hours later", "database: migrating since 2000-01-01T00:00:00Z, after away")
		r.wantQueue(t, "test.inbound.00", 0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantReady(t, r, "once events are taken", "")
		if got := testutil.ToFloat64(r.core.metrics.failures[stepMigrate]); got != 1 {
			t.Errorf("failed migrations = %v, want the first", got)
		}
		r.store.before = times(1, "ping")
		if err := r.core.Ready(t.Context()); !errors.Is(err, errAway) {
			t.Errorf("Ready() without a database = %v, want %v", err, errAway)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.core.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "broker") {
			t.Errorf("Ready() without a broker = %v, want an error that names it", err)
		}
		_ = stop() // its broker is closed
	})
}

// TestNewerDatabase checks that Run ends, because trying again does not help.
func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &migrating{Store: newStore(t, "sqlite::memory:"), fails: func(try int) error {
			if try == 1 {
				return errAway
			}
			return fmt.Errorf("migrate: %w", rooms.ErrNewer)
		}}
		r := newRigOn(t, newBroker(t), s)
		ended := make(chan error, 1)
		go func() { ended <- r.core.Run(t.Context()) }()
		time.Sleep(time.Minute)
		select {
		case err := <-ended:
			if !errors.Is(err, rooms.ErrNewer) {
				t.Errorf("Run() = %v, want ErrNewer", err)
			}
		default:
			t.Errorf("Run() still tries after a minute, %d times so far, want ErrNewer", s.tries)
		}
		if err := r.core.Ready(t.Context()); !errors.Is(err, rooms.ErrNewer) {
			t.Errorf("Ready() = %v, want ErrNewer", err)
		}
	})
}

// TestFileGone: that SQLite's file is gone is said once a minute, while it lasts.
func TestFileGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) {
			c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		})
		var isGone atomic.Bool
		r.store.before = func(method string) error {
			if method == "ping" && isGone.Load() {
				return rooms.ErrGone
			}
			return nil
		}
		stop := r.start(t)
		time.Sleep(10 * fileEvery)
		isGone.Store(true)
		time.Sleep(3 * fileEvery)
		synctest.Wait()
		isGone.Store(false)
		time.Sleep(3 * fileEvery)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if got := strings.Count(log.String(), "database is gone"); got != 3 {
			t.Errorf("in three minutes without the file %d lines say so, want 3:\n%s", got, log.String())
		}
	})
}
