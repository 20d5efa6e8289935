package rooms

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the key of PostgreSQL's advisory lock, which is per
// database: "chatclub" in ASCII.
const migrationLock = 0x63686174636c7562

// Migrate brings the schema up to date. Steps are the embedded files in
// name order, numbered from 1; each is applied once. Several programs may call
// it at once: one works and the others wait. It fails, and changes nothing,
// when the database is newer than this program.
func (s *Store) Migrate(ctx context.Context) error {
	steps, err := fs.Glob(migrations, "migrations/*.sql") // in name order
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.lockSchema(ctx, tx); err != nil {
			return err
		}
		var version int
		if err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(version), 0) FROM schema_migrations`).Scan(&version); err != nil {
			return fmt.Errorf("read schema version: %w", err)
		}
		if version > len(steps) {
			return fmt.Errorf("the database has schema version %d, this program knows only %d: run a newer program", version, len(steps))
		}
		for i, name := range steps[version:] {
			if err := s.apply(ctx, tx, version+i+1, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// lockSchema keeps other programs from migrating until tx ends, and makes the
// table of versions. SQLite is locked by the transaction itself.
func (s *Store) lockSchema(ctx context.Context, tx *sql.Tx) error {
	if s.postgres {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return fmt.Errorf("lock schema: %w", err)
		}
	}
	_, err := tx.ExecContext(ctx,
		`CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, applied_at BIGINT NOT NULL)`)
	if err != nil {
		return fmt.Errorf("create schema_migrations: %w", err)
	}
	return nil
}

func (s *Store) apply(ctx context.Context, tx *sql.Tx, version int, name string) error {
	step, err := migrations.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if _, err := tx.ExecContext(ctx, string(step)); err != nil {
		return fmt.Errorf("apply %s: %w", name, err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO schema_migrations (version, applied_at) VALUES ($1, $2)`,
		version, s.now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	return nil
}
