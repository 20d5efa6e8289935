// Package rooms keeps users, rooms and memberships in SQL, on SQLite (one
// process, embedded) or PostgreSQL (any number of processes). It guarantees,
// with any number of stores on one database, that
//
//   - a room never has more members than its capacity;
//   - a user is in at most one room of a page;
//   - no member of a room gets a name that looks like another's, or like a name that
//     another gave up there in the last day;
//   - every event is one transaction, which happens whole or not at all;
//   - a repeated event changes nothing: until Done it returns the same Result,
//     for the same copies, and after Done it returns Finished;
//   - a message's copies go only to other members of the room who are within the
//     platform's window and not muted, and between whom and the sender is no block;
//   - every operation ends within ten seconds, except Migrate, Prune, PrunePeople,
//     CountAudiences and Overview.
//
// Both databases run the same schema and the same statements. A message of a
// member costs two round trips to PostgreSQL, and Done a third. A user who
// joins, leaves or takes a name costs one to three more.
//
// On SQLite a commit survives the death of the process. The commits of the last
// seconds, which the operating system has not written yet, may be lost with the
// machine's power (WAL, synchronous=NORMAL). Joins come back with the users'
// next messages. Names, blocks, reports, bans and pauses do not, nor do the
// marks of events, so that repeated events are new. The file stays sound.
//
// Rows are locked in one order everywhere: user, page, room, event. So two
// transactions never wait for each other. The page's row serialises joining,
// leaving and naming; messages of members do not lock it.
package rooms

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// MaxCapacity is the most members that a room can have. The platform that this
// design comes from stops there. A copy to each of 100 members is already a third
// of a page's 300 calls a second.
const MaxCapacity = 100

// Window is the time after a user's last event in which the platform lets the page send
// to it.
const Window = 24 * time.Hour

// Config is the configuration of a Store. DatabaseURL must be set.
type Config struct {
	// DatabaseURL is sqlite:FILE, sqlite::memory: or postgres://….
	DatabaseURL string
	Capacity    int              // most members of a room, 1 to MaxCapacity; default MaxCapacity
	MaxConns    int              // connections to PostgreSQL; default 8
	Idle        time.Duration    // a member silent for longer leaves; 0: never
	FloodLimit  int              // events that a user may send at once, and per FloodPeriod; 0: any number
	FloodShare  int              // percent of its page's limits that a user's copies may take; 0: all
	FloodPeriod time.Duration    // default 10 s
	Now         func() time.Time // default time.Now

	// For tests; zero: as usual.
	dial          func(ctx context.Context, network, addr string) (net.Conn, error)
	orphanTimeout time.Duration
	forgetPause   time.Duration
}

// withDefaults returns c with its defaults filled in, or an error that names the
// wrong field.
func (c Config) withDefaults() (Config, error) {
	c.Capacity = cmp.Or(c.Capacity, MaxCapacity)
	c.MaxConns = cmp.Or(c.MaxConns, defaultMaxConns)
	c.FloodPeriod = cmp.Or(c.FloodPeriod, 10*time.Second)
	c.orphanTimeout = cmp.Or(c.orphanTimeout, orphanTimeout)
	c.forgetPause = cmp.Or(c.forgetPause, forgetPause)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Capacity < 1 || c.Capacity > MaxCapacity {
		return c, fmt.Errorf("capacity %d must be 1 to %d", c.Capacity, MaxCapacity)
	}
	return c, nil
}

// Store is the database. The zero value is not useful; Open makes a Store. Safe
// for concurrent use.
type Store struct {
	cfg      Config
	db       database
	postgres bool
	suspect  atomic.Bool // an operation failed, and none of Ping's has been written since
}

// Open prepares a Store and does not connect, so that it succeeds while the
// server is down; Ping reports whether it answers. Call Migrate before all other
// methods. An error names the wrong setting and never holds the URL's password.
// The caller closes the Store.
func Open(cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open rooms: %w", err)
	}
	s := &Store{cfg: cfg}
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

// Ping returns nil while the database answers and takes writes. It writes
// only after an operation has failed, until it succeeds: a full disk and a server
// that has become a standby still answer. ErrGone is among the errors.
func (s *Store) Ping(ctx context.Context) error {
	err := s.db.ping(ctx)
	if err == nil && s.suspect.Load() {
		if err = s.writeProbe(ctx); err == nil {
			s.suspect.Store(false)
		}
	}
	if err != nil {
		return fmt.Errorf("ping database: %w", Public(err)) // for /readyz, which is open to all
	}
	return nil
}

// writeProbe writes a row that is larger than those of an event, so that it needs as
// much of the disk. It is kept among the events until it is pruned as one of them.
// None has an empty page.
func (s *Store) writeProbe(ctx context.Context) error {
	filler := make([]byte, 16<<10)
	_, _ = rand.Read(filler) // never fails; bytes that nothing compresses
	return s.do(ctx, query{
		sql: `
		INSERT INTO processed_events (page, event_id, at, outcome) VALUES ('', 'probe', $1, $2)
		ON CONFLICT (page, event_id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome`,
		args: []any{s.cfg.Now().UnixMilli(), hex.EncodeToString(filler)},
	})
}

// Close ends the connections. An in-memory database is gone with them.
func (s *Store) Close() error {
	return failed("close database", s.db.close())
}
