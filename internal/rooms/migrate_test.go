package rooms

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"testing"

	"chatclub/internal/rooms/roomstest"
)

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
			// A transaction reads pg_stat_activity again only after this. The pause
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

// TestMigrateRefuses checks that a database of another program's schema is refused, in
// one line that names its version.
func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]error{1000: ErrNewer, firstStep - 1: ErrTooOld} {
		s := open(t, Config{DatabaseURL: "sqlite::memory:"})
		write(t, s, `DELETE FROM schema_migrations`)
		write(t, s, `INSERT INTO schema_migrations VALUES ($1, 0)`, version)
		err := s.Migrate(t.Context())
		if !errors.Is(err, want) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), strconv.Itoa(version)) {
			t.Errorf("Migrate() of version %d = %v, want %v in one line that names the version", version, err, want)
		}
	}
}
