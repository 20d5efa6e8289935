package rooms

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chatclub/internal/command"
	"chatclub/internal/rooms/roomstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a database that the tests of the suite run on.
type backend struct {
	name string
	url  func(testing.TB) string
}

// databases returns those for the tests of one store. The short run leaves out
// SQLite's file, which behaves as its memory does.
func databases() []backend {
	all := append(shared(), backend{"memory", func(testing.TB) string { return "sqlite::memory:" }})
	if testing.Short() {
		return all[1:]
	}
	return all
}

// shared returns the databases that several stores can use at once.
func shared() []backend {
	return []backend{
		{"sqlite", func(t testing.TB) string { t.Helper(); return "sqlite:" + filepath.Join(t.TempDir(), "rooms.db") }},
		{"postgres", roomstest.DSN},
	}
}

// onEach runs a test on each of the databases, with the URL of an empty one.
func onEach(t *testing.T, dbs []backend, test func(t *testing.T, url string)) {
	t.Helper()
	for _, db := range dbs {
		t.Run(db.name, func(t *testing.T) {
			t.Parallel()
			test(t, db.url(t))
		})
	}
}

// clock is the time of the stores in these tests.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// noon is the time of the events in these tests.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// open returns a migrated store.
func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatalf("Open() = %v, want a store", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
	})
	if err := s.Migrate(context.Background()); err != nil {
		t.Fatalf("Migrate() = %v, want nil", err)
	}
	return s
}

// receive receives an event, which must succeed.
func receive(t testing.TB, s *Store, ev Event) Result {
	t.Helper()
	if ev.Page == "" {
		ev.Page = "p"
	}
	if ev.At.IsZero() {
		ev.At = noon
	}
	res, err := s.Receive(t.Context(), ev)
	if err != nil {
		t.Fatalf("Receive(%+v) = %v, want a result", ev, err)
	}
	return res
}

// says receives a new message of a user.
func says(t testing.TB, s *Store, user string) Result {
	t.Helper()
	return receive(t, s, Event{User: user, ID: rand.Text()})
}

// does receives a new command of a user.
func does(t testing.TB, s *Store, user string, kind command.Kind, arg string) Result {
	t.Helper()
	return receive(t, s, Event{User: user, ID: rand.Text(), Command: wish(kind, arg)})
}

// wish returns a command with its argument: for Join the room, else a name.
func wish(kind command.Kind, arg string) command.Command {
	if kind == command.Join {
		return command.Command{Kind: kind, Room: arg}
	}
	return command.Command{Kind: kind, Name: arg}
}
