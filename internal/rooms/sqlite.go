package rooms

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite" // also the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// busyTimeoutMS is the time that a writer of SQLite waits for another process. The
// longest transaction here takes milliseconds.
const busyTimeoutMS = 5000

// lite is SQLite on one connection. SQLite has only one writer at a time, and a
// second connection would wait in its busy handler instead of in line here. An
// in-memory database belongs to its connection.
type lite struct {
	file string
	db   *sql.DB
	used chan struct{} // holds a token while the connection is in use

	// The holder of the token may use these.
	opened os.FileInfo          // the file that conn has; nil of an in-memory database
	conn   *sql.Conn            // nil before its first use
	stmts  map[string]*sql.Stmt // prepared on conn
}

func openSQLite(file string) (*lite, error) {
	if file == "" || strings.ContainsAny(file, "?\x00") {
		return nil, errors.New("database url: sqlite: must be followed by a file name, or :memory:, without options")
	}
	// NORMAL does not wait for the disk at each commit. The package comment names
	// the events that it may lose. FULL makes an event four to six times as slow.
	options := url.Values{
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busyTimeoutMS),
			"journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(1)",
		},
	}
	db, err := sql.Open("sqlite", "file:"+url.PathEscape(file)+"?"+options.Encode())
	if err != nil {
		return nil, fmt.Errorf("open sqlite: %w", err)
	}
	db.SetMaxOpenConns(1)
	return &lite{file: file, db: db, used: make(chan struct{}, 1), stmts: make(map[string]*sql.Stmt)}, nil
}

func (*lite) lock() string { return "" } // a transaction locks the file

// acquire waits for the connection. The caller releases it.
func (l *lite) acquire(ctx context.Context) error {
	select {
	case l.used <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.conn == nil {
		err := l.create()
		var conn *sql.Conn
		if err == nil {
			conn, err = l.connect(context.WithoutCancel(ctx))
		}
		if err != nil {
			l.release()
			return err
		}
		l.conn = conn
	}
	return nil
}

// connect opens the connection. While another process turns a new file into a WAL
// database SQLite answers at once that it is busy, whatever busy_timeout says.
func (l *lite) connect(ctx context.Context) (*sql.Conn, error) {
	for end := time.Now().Add(busyTimeoutMS * time.Millisecond); ; {
		conn, err := l.db.Conn(ctx)
		busy, ok := errors.AsType[*sqlite.Error](err)
		if !ok || busy.Code() != sqlite3.SQLITE_BUSY || time.Now().After(end) {
			return conn, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// create makes a file that only its owner can read, because it holds names and
// ids. SQLite gives the log beside it the same rights. A file that exists keeps its
// rights. One that cannot be opened is told with its name and the system's reason:
// SQLite says "out of memory".
func (l *lite) create() error {
	if l.file == ":memory:" {
		return nil
	}
	f, err := os.OpenFile(l.file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	l.opened, err = f.Stat()
	return errors.Join(err, f.Close())
}

// isThere returns ErrGone unless the file that is open stands under its name. SQLite goes
// on with a deleted one, and all of it is lost at the program's end.
func (l *lite) isThere() error {
	if l.opened == nil {
		return nil
	}
	now, err := os.Stat(l.file)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && !os.SameFile(now, l.opened):
		return ErrGone
	case err != nil:
		return fmt.Errorf("look at the database's file: %w", errors.Unwrap(err)) // without its path
	}
	return nil
}

func (l *lite) release() { <-l.used }

func (l *lite) begin(ctx context.Context) (transaction, error) {
	if err := l.acquire(ctx); err != nil {
		return nil, err
	}
	return &liteTx{lite: l}, nil
}

func (l *lite) ping(ctx context.Context) error {
	if err := l.acquire(ctx); err != nil {
		return err
	}
	defer l.release()
	return errors.Join(l.isThere(), l.conn.PingContext(context.WithoutCancel(ctx)))
}

func (l *lite) close() error {
	l.used <- struct{}{}
	defer l.release()
	var errs []error
	for _, stmt := range l.stmts {
		errs = append(errs, stmt.Close())
	}
	clear(l.stmts)
	if l.conn != nil {
		errs = append(errs, l.conn.Close())
		l.conn = nil
	}
	return errors.Join(append(errs, l.db.Close())...)
}

// liteTx is a transaction. It holds the connection until its end.
type liteTx struct {
	*lite
	open bool
}

func (t *liteTx) run(ctx context.Context, queries ...query) error {
	if !t.open {
		t.open = true // also if BEGIN fails: end rolls back what an earlier transaction may have left
		// A transaction that reads first and writes later would fail at once if
		// another process wrote in between. IMMEDIATE waits for the lock at BEGIN.
		if _, err := t.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
	}
	for _, q := range queries {
		if err := t.query(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (t *liteTx) query(ctx context.Context, q query) error {
	if len(q.args) == 0 && q.scan == nil { // perhaps several statements, as in a migration
		_, err := t.conn.ExecContext(ctx, q.sql)
		return err
	}
	stmt := t.stmts[q.sql]
	if stmt == nil {
		var err error
		if stmt, err = t.conn.PrepareContext(ctx, q.sql); err != nil {
			return err
		}
		t.stmts[q.sql] = stmt
	}
	if q.scan == nil {
		res, err := stmt.ExecContext(ctx, q.args...)
		if err != nil {
			return err
		}
		if q.affected != nil {
			*q.affected, err = res.RowsAffected()
		}
		return err
	}
	rows, err := stmt.QueryContext(ctx, q.args...)
	if err != nil {
		return err
	}
	defer rows.Close() // rows.Err below returns its error
	for rows.Next() {
		if err := q.scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (t *liteTx) commit(ctx context.Context, queries ...query) error {
	if err := t.run(ctx, queries...); err != nil {
		return err
	}
	if _, err := t.conn.ExecContext(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	t.open = false
	return nil
}

func (t *liteTx) end(ctx context.Context) {
	if t.open {
		// It fails where SQLite has rolled back by itself, as on a full disk.
		_, _ = t.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	t.release()
}
