package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"chatclub/internal/rooms"
)

// errNotStarted is the state before Run.
var errNotStarted = errors.New("core has not started")

// startup migrates the database. It knows why the core takes no events yet.
type startup struct {
	store Store
	now   func() time.Time
	retry retrier

	mu      sync.Mutex
	unready error
}

// state returns why the core takes no events yet, nil once it does. Safe for
// concurrent use.
func (s *startup) state() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unready
}

func (s *startup) set(unready error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unready = unready
}

// migrate tries to migrate the database until it succeeds, the database turns out
// to be newer than this program or older than any release, or ctx ends (errAbandoned).
// A try has no time-out: a step that is cut off is rolled back, and would begin again
// for ever.
func (s *startup) migrate(ctx context.Context) error {
	var last, other error
	try := func() error {
		state := fmt.Errorf("database: migrating since %s", s.now().UTC().Format(time.RFC3339))
		if last != nil {
			state = fmt.Errorf("%w, after %w", state, last)
		}
		s.set(state)
		err := s.store.Migrate(ctx)
		if err != nil {
			last = rooms.Public(err)
			s.set(fmt.Errorf("database: %w", last))
		}
		if errors.Is(err, rooms.ErrNewer) || errors.Is(err, rooms.ErrTooOld) {
			other = err
			return nil // do not try again
		}
		return err
	}
	if err := s.retry.do(ctx, func() bool { return true }, stepMigrate, try); err != nil {
		return err
	}
	return other
}
