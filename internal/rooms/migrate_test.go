package rooms

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/command"
	"chatclub/internal/rooms/roomstest"
)

// TestMigrateKeeps checks that the users, memberships and names of a database of
// version 1 are kept.
func TestMigrateKeeps(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s, err := Open(Config{DatabaseURL: url, Capacity: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if err := s.migrate(t.Context(), []string{"migrations/0001_rooms.sql"}); err != nil {
			t.Fatal(err)
		}
		write(t, s, `INSERT INTO pages (page, guests) VALUES ('p', 2)`)
		write(t, s, `INSERT INTO rooms (page, number, members, created_at) VALUES ('p', 1, 2, 0)`)
		for psid, name := range map[string]string{"a": "Guest 1", "b": "Guest 2"} {
			write(t, s, `INSERT INTO users (page, psid, name, last_inbound) VALUES ('p', $1, $2, $3)`, psid, name, noon.UnixMilli())
			write(t, s, `INSERT INTO memberships (page, room, psid, joined_at) VALUES ('p', 1, $1, 0)`, psid)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatalf("Migrate() = %v, want nil", err)
		}
		if diff := cmp.Diff(Result{Room: public(1), Name: "Guest 1", Relay: []string{"b"}}, says(t, s, "a")); diff != "" {
			t.Errorf("message of an old member: -want +got\n%s", diff)
		}
		if diff := cmp.Diff(Result{Joined: true, Room: public(2), Name: "Guest 3", Notice: Welcome}, says(t, s, "c")); diff != "" {
			t.Errorf("message of a newcomer: -want +got\n%s", diff)
		}
		if got := does(t, s, "a", command.Name, "guest 2").Notice; got != NameHouse {
			t.Errorf("Rename to an old name = %q, want %q", got, NameHouse)
		}
	})
}

// TestMigrateMerges checks a database of version 2. Its reports become one for
// each pair of users, its pauses hold, and its room numbers are not used again.
func TestMigrateMerges(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s, err := Open(Config{DatabaseURL: url, Capacity: 1, Now: func() time.Time { return noon }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if err := s.migrate(t.Context(), []string{"migrations/0001_rooms.sql", "migrations/0002_social.sql"}); err != nil {
			t.Fatal(err)
		}
		ms := noon.UnixMilli()
		write(t, s, `INSERT INTO pages (page, guests, paused_until, pause_at) VALUES ('p', 0, 0, $1), ('q', 0, $2, $1)`, ms, ms+1000)
		write(t, s, `INSERT INTO room_hours (page, hour, room, events, copies) VALUES ('p', 0, 7, 1, 1)`)
		write(t, s, `
			INSERT INTO reports (page, event_id, reporter, room, accused, name, at)
			VALUES ('p', '1', 'a', 1, 'b', 'Bo', $1), ('p', '2', 'a', 2, 'b', 'Bob', $1), ('p', '3', 'a', 3, 'c', 'Cy', $1), ('q', '1', 'a', 1, 'b', 'Bo', 0)`, ms)
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatalf("Migrate() = %v, want nil", err)
		}
		got, err := s.Reports(t.Context(), "p", ReportView{}, 10)
		want := []ReportView{
			{ID: "3", Page: "p", Reporter: "a", Accused: "c", Name: "Cy", Room: 3, Times: 1, At: noon},
			{ID: "2", Page: "p", Reporter: "a", Accused: "b", Name: "Bob", Room: 2, Times: 2, At: noon},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Reports() = %v: -want +got\n%s", err, diff)
		}
		if got := says(t, s, "a").Room; got != public(8) {
			t.Errorf("first room = %v, want 8: 7 was given", got)
		}
		for _, page := range []string{"p", "q"} { // by what happened before p was resumed
			if err := s.Pause(t.Context(), page, "late", noon, noon.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]bool{false, true}, pauses(t, s)); diff != "" {
			t.Errorf("paused pages: -want +got\n%s", diff)
		}
	})
}

// TestMigrateLiftsLimits checks that the time limits of the server or the URL do
// not hold in a migration.
func TestMigrateLiftsLimits(t *testing.T) {
	t.Parallel()
	s, err := Open(Config{DatabaseURL: roomstest.DSN(t) + "&statement_timeout=3600000&lock_timeout=3600000"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limits := func(what, want string) {
		t.Helper()
		var got string
		err := s.inTx(t.Context(), func(ctx context.Context, tx transaction) error {
			if what == "in a migration" {
				if err := s.lockSchema(ctx, tx); err != nil {
					return err
				}
			}
			return tx.run(ctx, one(nil, `SELECT current_setting('statement_timeout') || ' ' || current_setting('lock_timeout')`, nil, &got))
		})
		if got != want || err != nil {
			t.Errorf("limits %s = %q, %v, want %q", what, got, err, want)
		}
	}
	limits("as usual", "1h 1h")
	limits("in a migration", "0 0")
	limits("after a migration", "1h 1h")
}

// TestMigrateWaits checks that a program waits for another one that migrates,
// for longer than its limit for locks. The limit is a second, not less: on a
// busy machine it must not end another, shorter wait of the same program.
func TestMigrateWaits(t *testing.T) {
	t.Parallel()
	dsn := roomstest.DSN(t)
	holder, err := Open(Config{DatabaseURL: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	name := rand.Text()
	waiter, err := Open(Config{DatabaseURL: dsn + "&lock_timeout=1000&application_name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer waiter.Close()
	ended := make(chan error, 1)
	err = holder.inLongTx(t.Context(), func(ctx context.Context, tx transaction) error {
		if err := holder.lockSchema(ctx, tx); err != nil {
			return err
		}
		go func() { ended <- waiter.Migrate(t.Context()) }()
		for waits := false; !waits; {
			err := tx.run(ctx, one(&waits, `
				SELECT 1 FROM pg_stat_activity
				WHERE application_name = $1 AND wait_event_type = 'Lock' AND clock_timestamp() - query_start > INTERVAL '2 s'`,
				[]any{name}, new(int64)))
			if err != nil {
				return err
			}
			if len(ended) > 0 {
				t.Fatalf("Migrate() while another one migrates = %v, want it to wait", <-ended)
			}
			// A transaction reads pg_stat_activity anew only after this. The pause
			// keeps the poll from being a load.
			if err := tx.run(ctx, query{sql: `SELECT pg_stat_clear_snapshot(), pg_sleep(0.02)`}); err != nil {
				return err
			}
		}
		return tx.commit(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Migrate() while another one migrates = %v, want nil after it", err)
	}
}

// TestMigrateNewer checks that the error is ErrNewer, in one line.
func TestMigrateNewer(t *testing.T) {
	t.Parallel()
	s := open(t, Config{DatabaseURL: "sqlite::memory:"})
	write(t, s, `INSERT INTO schema_migrations VALUES (1000, 0)`)
	err := s.Migrate(t.Context())
	if !errors.Is(err, ErrNewer) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Migrate() of a newer database = %v, want ErrNewer in one line", err)
	}
}
