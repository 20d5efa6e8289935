package rooms

import (
	"context"
	"errors"
	"time"
)

// operationTimeout bounds one operation. It is a hundred times the time that the slowest
// takes, and less than the time until a lost connection is noticed.
const operationTimeout = 10 * time.Second

// row is one row of a result, of either driver.
type row interface{ Scan(dest ...any) error }

// query is one statement, the same for both databases, with $1 for its first
// argument. Times are Unix milliseconds and booleans 0 or 1, all of them int64.
// A column that may be NULL is scanned into a pointer to a pointer.
type query struct {
	sql      string
	args     []any
	scan     func(row) error // called for each row; nil: the statement has no rows
	affected *int64          // set to the number of rows that a statement without rows changed; may be nil
}

// transaction happens whole or not at all. Not safe for concurrent use.
type transaction interface {
	// run executes the queries in their order. On PostgreSQL this takes one
	// round trip, however many they are, also in the first call of a
	// transaction.
	run(ctx context.Context, queries ...query) error
	// commit is run followed by the commit, in the same round trip.
	commit(ctx context.Context, queries ...query) error
	// end undoes everything that is not committed and gives the connection
	// back. Call it once, also after errors.
	end(ctx context.Context)
}

// database is SQLite or PostgreSQL. Safe for concurrent use.
type database interface {
	begin(ctx context.Context) (transaction, error)
	ping(ctx context.Context) error
	close() error
	// lock returns the end of a SELECT that locks the rows it reads.
	lock() string
}

// inTx runs fn in a transaction, within operationTimeout. fn commits; what it
// leaves uncommitted is undone.
func (s *Store) inTx(ctx context.Context, fn func(context.Context, transaction) error) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	err := s.inLongTx(ctx, fn)
	if err != nil {
		s.suspect.Store(true) // Ping finds out whether it is the database
	}
	return err
}

// inLongTx is inTx without a time limit.
func (s *Store) inLongTx(ctx context.Context, fn func(context.Context, transaction) error) error {
	tx, err := s.db.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.end(ctx)
	if !s.postgres {
		// The SQLite driver reports a BEGIN as cancelled that has in fact
		// happened, and the connection would keep its lock for ever. Statements
		// end by themselves within the busy time-out.
		ctx = context.WithoutCancel(ctx)
	}
	return fn(ctx, tx)
}

// do runs queries as a transaction of their own, in one round trip.
func (s *Store) do(ctx context.Context, queries ...query) error {
	return s.inTx(ctx, func(ctx context.Context, tx transaction) error { return tx.commit(ctx, queries...) })
}

// errNoRow says that a statement found no row where there must be one.
var errNoRow = errors.New("no row")

// one returns a query for one row, which is scanned into dest. found is set to
// true if there is one; it may be nil.
func one(found *bool, sql string, args []any, dest ...any) query {
	return query{sql: sql, args: args, scan: func(r row) error {
		if found != nil {
			*found = true
		}
		return r.Scan(dest...)
	}}
}

// all returns a query whose rows are appended to list, each read by scan.
func all[T any](list *[]T, sql string, args []any, scan func(row, *T) error) query {
	return query{sql: sql, args: args, scan: func(r row) error {
		var item T
		if err := scan(r, &item); err != nil {
			return err
		}
		*list = append(*list, item)
		return nil
	}}
}

// column returns a query for one column of texts.
func column(list *[]string, sql string, args ...any) query {
	return all(list, sql, args, func(r row, s *string) error { return r.Scan(s) })
}
