package rooms

import (
	"context"
	"fmt"
	"time"
)

// pruneBatch rows are deleted at a time: some milliseconds, in which SQLite's
// one writer is not free for events.
const pruneBatch = 1000

// Prune forgets the events received before that time and returns how many it
// forgot. An event told again after that is taken for a new one.
func (s *Store) Prune(ctx context.Context, before time.Time) (int64, error) {
	var total int64
	for {
		n, err := s.exec(ctx, `
			DELETE FROM processed_events WHERE (page, event_id) IN
				(SELECT page, event_id FROM processed_events WHERE at < $1 LIMIT $2)`,
			before.UnixMilli(), pruneBatch)
		if err != nil {
			return total, fmt.Errorf("prune events: %w", err)
		}
		total += n
		if n < pruneBatch {
			return total, nil
		}
	}
}
