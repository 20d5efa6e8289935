package rooms

import (
	"context"
	"time"
)

const (
	// choreLease is how long a chore stays with a core that may have died. It is
	// several times what a step takes.
	choreLease = time.Minute
	// choreEvery is how long a chore that was done is left alone: a day, less what two
	// cores' hours differ by.
	choreEvery = 23 * time.Hour
)

// claimChore claims work that one core does for all, for choreLease. It reports whether
// it did: another one may be at it, or have done it.
func (s *Store) claimChore(ctx context.Context, name string) (mine bool, err error) {
	now, affected := s.cfg.Now(), int64(0)
	err = s.do(ctx, query{
		sql: `
		INSERT INTO chores (name, until) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET until = excluded.until WHERE chores.until <= $3`,
		args: []any{name, now.Add(choreLease).UnixMilli(), now.UnixMilli()}, affected: &affected,
	})
	return affected > 0, err
}

// keepChore returns the statement by which others leave the chore alone for so long.
func (s *Store) keepChore(name string, d time.Duration) query {
	return query{
		sql:  `UPDATE chores SET until = $2 WHERE name = $1`,
		args: []any{name, s.cfg.Now().Add(d).UnixMilli()},
	}
}

// stepPages calls do for all pages in order, batch of them at a time: for those behind
// after, up to last. So no statement about all pages keeps SQLite's one connection.
func (s *Store) stepPages(ctx context.Context, do func(ctx context.Context, after, last string) error) error {
	for after := ""; ; {
		var pages []string
		err := s.do(ctx, column(&pages, `SELECT page FROM pages WHERE page > $1 ORDER BY page LIMIT $2`, after, int64(batch)))
		if err != nil || len(pages) == 0 {
			return err
		}
		last := pages[len(pages)-1]
		if err := do(ctx, after, last); err != nil {
			return err
		}
		after = last
	}
}
