package rooms

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{},
		{DatabaseURL: "mysql://u:hunter2@h/d"},
		{DatabaseURL: "sqlite:"},
		{DatabaseURL: "sqlite:x?mode=ro"},
		{DatabaseURL: "postgres://u:hunter2@h:notaport/d"},
		{DatabaseURL: "postgres://u:hunter2@h/d?sslmode=maybe"},
		{DatabaseURL: "postgres://u:%zzhunter2@h/d"},
		{DatabaseURL: "sqlite::memory:", Capacity: -1},
		{DatabaseURL: "sqlite::memory:", Capacity: MaxCapacity + 1},
		{DatabaseURL: "sqlite::memory:", MaxConns: -1},
	} {
		s, err := Open(cfg)
		if err == nil {
			t.Errorf("Open(%+v) = nil error, want one", cfg)
			_ = s.Close()
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open error %q holds the password", err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:hunter2@127.0.0.1:1/d?sslmode=disable",
		"sqlite:" + t.TempDir() + "/missing/rooms.db",
	} {
		s, err := Open(Config{DatabaseURL: url})
		if err != nil {
			t.Fatalf("Open(unreachable) = %v, want nil: only its use fails", err)
		}
		for what, err := range map[string]error{"Ping": s.Ping(t.Context()), "Migrate": s.Migrate(t.Context())} {
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s(unreachable) = %v, want an error without the password", what, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
	}
}

func TestMigrateTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, shared(), func(t *testing.T, url string) {
		stores := make([]*Store, 4)
		for i := range stores {
			s, err := Open(Config{DatabaseURL: url})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			stores[i] = s
		}
		var wg sync.WaitGroup
		for _, s := range slices.Concat(stores, stores[:1]) {
			wg.Go(func() {
				if err := s.Migrate(t.Context()); err != nil {
					t.Errorf("Migrate() = %v, want nil", err)
				}
			})
		}
		wg.Wait()
		var versions int
		if err := stores[0].db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM schema_migrations`).Scan(&versions); err != nil {
			t.Fatal(err)
		}
		if want := 1; versions != want {
			t.Errorf("recorded steps = %d, want %d", versions, want)
		}
	})
}

func TestMigrateRefusesNewer(t *testing.T) {
	t.Parallel()
	s := open(t, Config{DatabaseURL: "sqlite::memory:"})
	if _, err := s.db.ExecContext(t.Context(), `INSERT INTO schema_migrations VALUES (1000, 0)`); err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "1000") {
		t.Errorf("Migrate() of a newer database = %v, want an error that names its version", err)
	}
}

// TestCancel: a cancelled call leaves no lock behind and costs no data.
func TestCancel(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url})
		receive(t, s, "p", "a", "1")
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
			_, _ = s.Receive(ctx, Event{Page: "p", User: "a", ID: "cancelled", At: noon}) // may or may not succeed
			cancel()
		}
		if got := receive(t, s, "p", "a", "1").Status; got != Unfinished {
			t.Errorf("Receive after cancelled ones = %v, want %v", got, Unfinished)
		}
	})
}

// TestRoomsStayWithinCapacity lets 300 users join through four stores at once.
// Every join is also told twice at once, as by two cores.
func TestRoomsStayWithinCapacity(t *testing.T) {
	t.Parallel()
	onEach(t, shared(), func(t *testing.T, url string) {
		stores := make([]*Store, 4)
		for i := range stores {
			stores[i] = open(t, Config{DatabaseURL: url})
		}
		const users = 300
		var mu sync.Mutex
		fresh := map[string]int{}
		var wg sync.WaitGroup
		for worker := range 2 * len(stores) {
			// Workers w and w+4 have the same users, on different stores.
			s := stores[(worker+worker/len(stores))%len(stores)]
			wg.Go(func() {
				for i := worker % len(stores); i < users; i += len(stores) {
					user := fmt.Sprintf("u%d", i)
					var res Result
					err := patiently(func() (err error) {
						res, err = s.Receive(t.Context(), Event{Page: "p", User: user, ID: user, At: noon})
						return err
					})
					if err != nil {
						t.Errorf("Receive(%s) = %v, want nil", user, err)
						return
					}
					if res.Status == Fresh {
						mu.Lock()
						fresh[user]++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if len(fresh) != users {
			t.Errorf("users = %d, want %d", len(fresh), users)
		}
		for user, n := range fresh {
			if n != 1 {
				t.Errorf("event of %s was fresh %d times, want once", user, n)
			}
		}
		want := map[int]int{1: 100, 2: 100, 3: 100}
		if diff := cmp.Diff(want, count(t, stores[0], `SELECT room, COUNT(DISTINCT psid) FROM memberships GROUP BY room`)); diff != "" {
			t.Errorf("members by room: -want +got\n%s", diff)
		}
		if diff := cmp.Diff(want, count(t, stores[0], `SELECT number, members FROM rooms`)); diff != "" {
			t.Errorf("counted members by room: -want +got\n%s", diff)
		}
		var names int
		if err := stores[0].db.QueryRowContext(t.Context(), `SELECT COUNT(DISTINCT name) FROM users`).Scan(&names); err != nil {
			t.Fatal(err)
		}
		if names != users {
			t.Errorf("distinct names = %d, want %d", names, users)
		}
	})
}

// TestJoinLeaveAtOnce looks for deadlocks and miscounts when the same users
// come and go through several stores.
func TestJoinLeaveAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, shared(), func(t *testing.T, url string) {
		var wg sync.WaitGroup
		var first *Store
		for worker := range 4 {
			s := open(t, Config{DatabaseURL: url, Capacity: 3})
			first = s
			wg.Go(func() {
				for i := range 40 {
					user := fmt.Sprintf("u%d", (i*7+worker)%10)
					err := patiently(func() error {
						if i%2 == 1 {
							return s.Leave(t.Context(), "p", user, noon)
						}
						_, err := s.Receive(t.Context(), Event{Page: "p", User: user, ID: fmt.Sprintf("%d-%d", worker, i), At: noon})
						return err
					})
					if err != nil {
						t.Errorf("worker %d step %d = %v, want nil", worker, i, err)
					}
				}
			})
		}
		wg.Wait()
		rooms := count(t, first, `SELECT number, members FROM rooms WHERE members > 0`)
		if diff := cmp.Diff(rooms, count(t, first, `SELECT room, COUNT(*) FROM memberships GROUP BY room`)); diff != "" {
			t.Errorf("members by room: -counted +there\n%s", diff)
		}
		for number, members := range rooms {
			if members > 3 {
				t.Errorf("room %d has %d members, want at most 3", number, members)
			}
		}
	})
}

// patiently repeats do while SQLite says that it is busy: its waiters poll, so
// that one of several processes can be passed over for longer than the busy
// time-out. PostgreSQL has no such excuse.
func patiently(do func() error) error {
	for {
		if err := do(); err == nil || !strings.Contains(err.Error(), "SQLITE_BUSY") {
			return err
		}
	}
}

// count reads two columns of numbers.
func count(t *testing.T, s *Store, query string) map[int]int {
	t.Helper()
	rows, err := s.db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() // rows.Err below tells
	got := map[int]int{}
	for rows.Next() {
		var k, v int
		if err := rows.Scan(&k, &v); err != nil {
			t.Fatal(err)
		}
		got[k] = v
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}
