package rooms

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chatclub/internal/rooms/roomstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// database is one of the databases that every test of the suite runs on.
type database struct {
	name string
	url  func(testing.TB) string
}

func databases() []database {
	return append(shared(), database{"memory", func(testing.TB) string { return "sqlite::memory:" }})
}

// shared are the databases that several stores can use at once.
func shared() []database {
	return []database{
		{"sqlite", func(t testing.TB) string { t.Helper(); return "sqlite:" + filepath.Join(t.TempDir(), "rooms.db") }},
		{"postgres", roomstest.DSN},
	}
}

// onEach runs a test on each of the databases, with the URL of an empty one.
func onEach(t *testing.T, dbs []database, test func(t *testing.T, url string)) {
	t.Helper()
	for _, db := range dbs {
		t.Run(db.name, func(t *testing.T) {
			t.Parallel()
			test(t, db.url(t))
		})
	}
}

// clock is what the stores of these tests take for the time.
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

// noon is when the events of these tests happen.
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

// receive receives what must be received without error.
func receive(t testing.TB, s *Store, page, user, id string) Result {
	t.Helper()
	return receiveAt(t, s, page, user, id, noon)
}

func receiveAt(t testing.TB, s *Store, page, user, id string, at time.Time) Result {
	t.Helper()
	res, err := s.Receive(t.Context(), Event{Page: page, User: user, ID: id, At: at})
	if err != nil {
		t.Fatalf("Receive(%s, %s, %s) = %v, want a result", page, user, id, err)
	}
	return res
}
