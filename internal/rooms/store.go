// Package rooms keeps users, rooms and memberships in SQL, on SQLite (one
// process, embedded) or PostgreSQL (any number of processes). It guarantees,
// with any number of stores on one database at once, that
//
//   - a room never has more members than its capacity, and a user is in at
//     most one room of a page;
//   - every event is one transaction: it happened whole or not at all;
//   - an event told again changes nothing: until Done it gives the very same
//     Result, so that the same copies can be made again, and after Done it
//     says Finished.
//
// Both databases run the same schema and the same statements. On SQLite a
// commit survives the death of the process; the last few may be lost with the
// machine's power (WAL, synchronous=NORMAL), which costs at most memberships
// that the users' next messages restore.
//
// Rows are locked in one order everywhere — user, page, room, event — so that
// two transactions never wait for each other. The page's row serialises
// joining and leaving; events of members do not touch it.
package rooms

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// MaxCapacity is the most members a room can have: the platform that this
// design comes from stops there, and a copy to each of 100 members is already
// a third of a page's 300 calls a second.
const MaxCapacity = 100

const (
	// defaultMaxConns for PostgreSQL: an event holds a connection for about
	// 2 ms, so 8 carry some thousand events a second, and a dozen cores fit
	// into PostgreSQL's default of 100 connections.
	defaultMaxConns = 8
	// connectTimeout bounds one attempt, so that a silent host is reported.
	connectTimeout = 5 * time.Second
	// busyTimeoutMS is how long a writer of SQLite waits for another process;
	// the longest transaction here takes milliseconds.
	busyTimeoutMS = 5000
)

// Config says which database to use and how. The zero value is not useful:
// DatabaseURL must be set.
type Config struct {
	// DatabaseURL is sqlite:FILE, sqlite::memory: or postgres://….
	DatabaseURL string
	Capacity    int              // most members of a room, 1 to MaxCapacity; default MaxCapacity
	MaxConns    int              // connections to PostgreSQL; default 8
	Now         func() time.Time // default time.Now
}

// Store is the database. Safe for concurrent use. The zero value is not
// useful; Open makes a Store.
type Store struct {
	db       *sql.DB
	postgres bool
	capacity int
	now      func() time.Time
}

// Open prepares a Store without reaching for a server, so that it succeeds
// while the database is down; Ping tells whether it is there. Call Migrate
// before anything else. Errors name the wrong setting and never hold the
// URL's password. The caller closes the Store.
func Open(cfg Config) (*Store, error) {
	s := &Store{capacity: cfg.Capacity, now: cfg.Now}
	if s.capacity == 0 {
		s.capacity = MaxCapacity
	}
	if s.capacity < 1 || s.capacity > MaxCapacity {
		return nil, fmt.Errorf("open rooms: capacity %d must be 1 to %d", cfg.Capacity, MaxCapacity)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if cfg.MaxConns < 0 {
		return nil, fmt.Errorf("open rooms: max conns %d must not be negative", cfg.MaxConns)
	}
	scheme, rest, _ := strings.Cut(cfg.DatabaseURL, ":")
	var err error
	switch scheme {
	case "sqlite":
		err = s.openSQLite(rest)
	case "postgres", "postgresql":
		err = s.openPostgres(cfg)
	default:
		err = errors.New("database url must begin with sqlite: or postgres://")
	}
	if err != nil {
		return nil, fmt.Errorf("open rooms: %w", err)
	}
	return s, nil
}

func (s *Store) openSQLite(file string) error {
	if file == "" || strings.ContainsAny(file, "?\x00") {
		return errors.New("database url: sqlite: must be followed by a file name, or :memory:, without options")
	}
	options := url.Values{
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busyTimeoutMS),
			"journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(1)",
		},
		// A transaction that reads first and writes later would fail at once
		// when another process wrote in between; locking at BEGIN waits.
		"_txlock": {"immediate"},
	}
	db, err := sql.Open("sqlite", "file:"+url.PathEscape(file)+"?"+options.Encode())
	if err != nil {
		return fmt.Errorf("open sqlite: %w", err)
	}
	// One writer is all that SQLite has: a second connection would only wait
	// in its busy handler instead of in the fair queue of database/sql. An
	// in-memory database is its connection's own, and this one stays open.
	db.SetMaxOpenConns(1)
	s.db = db
	return nil
}

func (s *Store) openPostgres(cfg Config) error {
	pg, err := pgx.ParseConfig(cfg.DatabaseURL)
	if err != nil {
		// The parser's error may quote the URL, and with it the password.
		return errors.New("database url: not a PostgreSQL URL such as postgres://user:password@host:5432/database")
	}
	if pg.ConnectTimeout == 0 {
		pg.ConnectTimeout = connectTimeout
	}
	if pg.RuntimeParams["application_name"] == "" {
		pg.RuntimeParams["application_name"] = "chatclub"
	}
	conns := cfg.MaxConns
	if conns == 0 {
		conns = defaultMaxConns
	}
	s.db = stdlib.OpenDB(*pg)
	s.db.SetMaxOpenConns(conns)
	s.db.SetMaxIdleConns(conns)
	s.postgres = true
	return nil
}

// Ping returns nil while the database answers.
func (s *Store) Ping(ctx context.Context) error {
	err := s.onConn(ctx, func(ctx context.Context, conn *sql.Conn) error { return conn.PingContext(ctx) })
	if err != nil {
		return fmt.Errorf("ping database: %w", err)
	}
	return nil
}

// Close ends the connections; an in-memory database is gone with it.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

// onConn runs fn on a connection of its own. On SQLite ctx counts only until
// fn begins: the driver reports a BEGIN as cancelled that has in fact happened,
// and the connection would keep its lock for ever. Statements there end by
// themselves within the busy time-out.
func (s *Store) onConn(ctx context.Context, fn func(context.Context, *sql.Conn) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // only gives the connection back
	if !s.postgres {
		ctx = context.WithoutCancel(ctx)
	}
	return fn(ctx, conn)
}

// inTx runs fn in a transaction that is committed when fn returns nil and
// rolled back otherwise.
func (s *Store) inTx(ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
	return s.onConn(ctx, func(ctx context.Context, conn *sql.Conn) error {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		if err := fn(ctx, tx); err != nil {
			// The rollback's own error says nothing new: the connection is
			// gone, and the server rolls back by itself.
			_ = tx.Rollback()
			return err
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	})
}

// exec executes one statement outside a transaction and returns how many rows
// it met.
func (s *Store) exec(ctx context.Context, query string, args ...any) (rows int64, err error) {
	err = s.onConn(ctx, func(ctx context.Context, conn *sql.Conn) error {
		res, err := conn.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		rows, err = res.RowsAffected()
		return err
	})
	return rows, err
}
