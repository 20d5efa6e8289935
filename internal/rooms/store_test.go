package rooms

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/command"
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
			t.Fatalf("Open(unreachable) = %v, want nil, because Open does not connect", err)
		}
		for what, err := range map[string]error{"Ping": s.Ping(t.Context()), "Migrate": s.Migrate(t.Context())} {
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s(unreachable) = %v, want an error without the password", what, err)
			}
			if what == "Migrate" { // whose error is for the log
				err = Public(err)
			}
			if strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "user") || strings.Contains(err.Error(), "database=") {
				t.Errorf("%s(unreachable) says publicly %v, want an error without user, database and address", what, err)
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
		steps, err := migrations.ReadDir("migrations")
		if err != nil {
			t.Fatal(err)
		}
		want := map[int]int{}
		for i := range steps {
			want[firstStep+i] = 1
		}
		if diff := cmp.Diff(want, count(t, stores[0], `SELECT version, COUNT(*) FROM schema_migrations GROUP BY version`)); diff != "" {
			t.Errorf("recorded steps: -want +got\n%s", diff)
		}
	})
}

// TestCancel checks that a cancelled call leaves no lock behind and loses no data.
func TestCancel(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := open(t, Config{DatabaseURL: url})
		receive(t, s, Event{User: "a", ID: "1"})
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
			_, _ = s.Receive(ctx, Event{Page: "p", User: "a", ID: "cancelled", At: noon}) // may or may not succeed
			cancel()
		}
		if got := receive(t, s, Event{User: "a", ID: "1"}).Status; got != Unfinished {
			t.Errorf("Receive after cancelled ones = %v, want %v", got, Unfinished)
		}
	})
}

// count returns two columns of numbers as a map.
func count(t *testing.T, s *Store, sql string) map[int]int {
	t.Helper()
	got := map[int]int{}
	err := s.do(t.Context(), query{sql: sql, scan: func(r row) error {
		var k, v int
		err := r.Scan(&k, &v)
		got[k] = v
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func write(t *testing.T, s *Store, sql string, args ...any) {
	t.Helper()
	if err := s.do(t.Context(), query{sql: sql, args: args}); err != nil {
		t.Fatal(err)
	}
}

// TestSQLiteIsPrivate: nobody but the owner reads the database's files, while it is
// open and afterwards. A file that was there keeps its rights.
func TestSQLiteIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{DatabaseURL: "sqlite:" + filepath.Join(dir, "rooms.db")})
	does(t, s, "a", command.Name, "Ana")
	files, err := os.ReadDir(dir)
	if len(files) != 3 || err != nil {
		t.Fatalf("files = %v, %v, want the database, its log and the log's index", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s = %v, %v, want rights 0600", f.Name(), info.Mode(), err)
		}
	}
	shared := filepath.Join(dir, "shared.db")
	if err := errors.Join(os.WriteFile(shared, nil, 0o600), os.Chmod(shared, 0o640)); err != nil { // whatever the umask
		t.Fatal(err)
	}
	open(t, Config{DatabaseURL: "sqlite:" + shared})
	if info, err := os.Stat(shared); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("a file that was there = %v, %v, want its rights kept", info.Mode(), err)
	}
}
