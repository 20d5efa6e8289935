// Package rooms keeps users, rooms and what they want of each other in SQL, on
// SQLite (one process, embedded) or PostgreSQL (any number of processes). It
// guarantees, with any number of stores on one database at once, that
//
//   - a room never has more members than its capacity, a user is in at most
//     one room of a page, and no two members of a room share a name;
//   - every event is one transaction: it happened whole or not at all;
//   - an event told again changes nothing: until Done it gives the very same
//     Result, so that the same copies can be made again, and after Done it
//     says Finished;
//   - a message's copies never go to its sender, to who is in another room, to
//     who blocked the sender, muted the room, is gone, or wrote nothing within
//     the platform's window.
//
// Both databases run the same schema and the same statements. A message of a
// member costs two round trips to PostgreSQL and Done a third; whatever
// changes who is where costs some more. On SQLite a commit survives the death
// of the process. What was committed in the last seconds, until the operating
// system has written it, may be lost with the machine's power (WAL,
// synchronous=NORMAL): joins, which the users' next messages restore, but also
// names, blocks, reports, bans and pauses, which nothing restores, and the marks
// of events, so that those told again are new. The file stays sound.
//
// Rows are locked in one order everywhere — user, page, room, event — so that
// two transactions never wait for each other. The page's row serialises
// joining, leaving and naming; messages of members do not touch it.
package rooms

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// MaxCapacity is the most members a room can have: the platform that this
// design comes from stops there, and a copy to each of 100 members is already
// a third of a page's 300 calls a second.
const MaxCapacity = 100

// Window is how long after a user's last event the platform lets the page
// send to it.
const Window = 24 * time.Hour

// Config says which database to use and how. The zero value is not useful:
// DatabaseURL must be set.
type Config struct {
	// DatabaseURL is sqlite:FILE, sqlite::memory: or postgres://….
	DatabaseURL string
	Capacity    int              // most members of a room, 1 to MaxCapacity; default MaxCapacity
	MaxConns    int              // connections to PostgreSQL; default 8
	Idle        time.Duration    // a member silent for longer leaves; 0: never
	FloodLimit  int              // events that a user may send at once, and per FloodPeriod; 0: any number
	FloodPeriod time.Duration    // default 10 s
	Now         func() time.Time // default time.Now

	// For tests; zero: the usual.
	dial          func(ctx context.Context, network, addr string) (net.Conn, error)
	orphanTimeout time.Duration
}

// Store is the database. Safe for concurrent use. The zero value is not
// useful; Open makes a Store.
type Store struct {
	cfg      Config
	db       database
	postgres bool
}

// Open prepares a Store without reaching for a server, so that it succeeds
// while the database is down; Ping tells whether it is there. Call Migrate
// before anything else. Errors name the wrong setting and never hold the
// URL's password. The caller closes the Store.
func Open(cfg Config) (*Store, error) {
	if cfg.Capacity == 0 {
		cfg.Capacity = MaxCapacity
	}
	if cfg.FloodPeriod == 0 {
		cfg.FloodPeriod = 10 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	switch {
	case cfg.Capacity < 1 || cfg.Capacity > MaxCapacity:
		return nil, fmt.Errorf("open rooms: capacity %d must be 1 to %d", cfg.Capacity, MaxCapacity)
	case cfg.MaxConns < 0:
		return nil, fmt.Errorf("open rooms: max conns %d must not be negative", cfg.MaxConns)
	case cfg.Idle < 0:
		return nil, fmt.Errorf("open rooms: idle %v must not be negative", cfg.Idle)
	case cfg.FloodLimit < 0:
		return nil, fmt.Errorf("open rooms: flood limit %d must not be negative", cfg.FloodLimit)
	case cfg.FloodPeriod < 0:
		return nil, fmt.Errorf("open rooms: flood period %v must not be negative", cfg.FloodPeriod)
	}
	s := &Store{cfg: cfg}
	var err error
	switch scheme, rest, _ := strings.Cut(cfg.DatabaseURL, ":"); scheme {
	case "sqlite":
		s.db, err = openSQLite(rest)
	case "postgres", "postgresql":
		s.postgres = true
		s.db, err = openPostgres(cfg)
	default:
		err = errors.New("database url must begin with sqlite: or postgres://")
	}
	if err != nil {
		return nil, fmt.Errorf("open rooms: %w", err)
	}
	return s, nil
}

// Ping returns nil while the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.db.ping(ctx); err != nil {
		return fmt.Errorf("ping database: %w", err)
	}
	return nil
}

// Close ends the connections; an in-memory database is gone with it.
func (s *Store) Close() error {
	if err := s.db.close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}
