package rooms

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the key of PostgreSQL's advisory lock, which is per
// database: "chatclub" in ASCII.
const migrationLock = 0x63686174636c7562

// ErrNewer says that a newer program has migrated the database. Trying again
// does not help.
var ErrNewer = errors.New("run the newer version again, or restore a backup from before it")

// firstStep is the number of the first embedded file. Those before it made a schema
// that was never released.
const firstStep = 9

// ErrTooOld says that no release has made the database. Trying again does not help.
var ErrTooOld = errors.New("there is no way from it: give this version a new database")

// Migrate brings the schema up to date. Steps are the embedded files in name
// order, numbered from firstStep. Each is applied once, all of them in one transaction.
// Several programs may call it at once: one works and the others wait, however
// long that takes. So ctx should have no time-out. If the database is newer than
// this program, or older than any release, the error is ErrNewer or ErrTooOld and
// nothing is changed.
func (s *Store) Migrate(ctx context.Context) error {
	steps, err := fs.Glob(migrations, "migrations/*.sql") // in name order
	if err == nil {
		err = s.migrate(ctx, steps)
	}
	return failed("migrate", err)
}

func (s *Store) migrate(ctx context.Context, steps []string) error {
	return s.inLongTx(ctx, func(ctx context.Context, tx transaction) error {
		if err := s.lockSchema(ctx, tx); err != nil {
			return err
		}
		var version int
		err := tx.run(ctx, one(nil, `SELECT COALESCE(MAX(version), 0) FROM schema_migrations`, nil, &version))
		if err != nil {
			return fmt.Errorf("read schema version: %w", err)
		}
		switch last := firstStep + len(steps) - 1; {
		case version > last:
			return fmt.Errorf("the database has schema version %d, this program knows only %d: %w", version, last, ErrNewer)
		case version > 0 && version < firstStep:
			return fmt.Errorf("the database has schema version %d, older than any release: %w", version, ErrTooOld)
		}
		for i, name := range steps {
			if number := firstStep + i; number > version {
				if err := s.apply(ctx, tx, number, name); err != nil {
					return err
				}
			}
		}
		return tx.commit(ctx)
	})
}

// lockSchema keeps other programs from migrating until tx ends, and creates the
// table of versions. SQLite is locked by the transaction itself.
func (s *Store) lockSchema(ctx context.Context, tx transaction) error {
	if s.postgres {
		err := tx.run(
			ctx,
			// The limits of the server or the URL are not meant for migrations.
			query{sql: `SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)`},
			query{sql: `SELECT pg_advisory_xact_lock($1)`, args: []any{int64(migrationLock)}},
		)
		if err != nil {
			return fmt.Errorf("lock schema: %w", err)
		}
	}
	err := tx.run(ctx, query{sql: `CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, applied_at BIGINT NOT NULL)`})
	return failed("create schema_migrations", err)
}

func (s *Store) apply(ctx context.Context, tx transaction, version int, name string) error {
	step, err := migrations.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	for _, statement := range statements(string(step)) {
		if err := tx.run(ctx, query{sql: statement}); err != nil {
			return fmt.Errorf("apply %s: %w", name, err)
		}
	}
	err = tx.run(ctx, query{
		sql:  `INSERT INTO schema_migrations (version, applied_at) VALUES ($1, $2)`,
		args: []any{int64(version), s.cfg.Now().UnixMilli()},
	})
	if err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	return nil
}

// statements returns the statements of a step, because PostgreSQL takes one at a
// time. In a step each statement ends with its line.
func statements(step string) []string {
	return slices.DeleteFunc(strings.Split(step, ";\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
}
