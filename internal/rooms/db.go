package rooms

import (
	"context"
	"errors"
)

// row is one row of a result, of either driver.
type row interface{ Scan(dest ...any) error }

// query is one statement, common to both databases, with $1 for its first
// argument. Times are Unix milliseconds and truths 0 or 1, all of them int64;
// what may be NULL is scanned into a pointer to a pointer.
type query struct {
	sql  string
	args []any
	each func(row) error // called for each row; nil: the rows do not matter
	met  *int64          // set to how many rows a statement without rows met; may be nil
}

// transaction is what happens whole or not at all. Not safe for concurrent use.
type transaction interface {
	// run executes the queries in their order. On PostgreSQL this takes one
	// round trip however many they are, for the first call of a transaction
	// too.
	run(ctx context.Context, queries ...query) error
	// commit is run followed by the commit, in the same round trip.
	commit(ctx context.Context, queries ...query) error
	// end undoes what was not committed and gives the connection back. Call it
	// once, whatever else failed.
	end(ctx context.Context)
}

// database is SQLite or PostgreSQL. Safe for concurrent use.
type database interface {
	begin(ctx context.Context) (transaction, error)
	ping(ctx context.Context) error
	close() error
	// lock is what a SELECT ends in that locks the rows it reads.
	lock() string
}

// inTx runs fn in a transaction, which fn commits; what it did not commit is
// undone.
func (s *Store) inTx(ctx context.Context, fn func(context.Context, transaction) error) error {
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

// errNone: a statement that must meet a row met none.
var errNone = errors.New("no row")

// one is a query for one row, which is scanned into dest; found may be nil.
func one(found *bool, sql string, args []any, dest ...any) query {
	return query{sql: sql, args: args, each: func(r row) error {
		if found != nil {
			*found = true
		}
		return r.Scan(dest...)
	}}
}

// all is a query whose rows are collected by scan.
func all[T any](list *[]T, sql string, args []any, scan func(row, *T) error) query {
	return query{sql: sql, args: args, each: func(r row) error {
		var item T
		if err := scan(r, &item); err != nil {
			return err
		}
		*list = append(*list, item)
		return nil
	}}
}

// column is a query for one column of texts.
func column(list *[]string, sql string, args ...any) query {
	return all(list, sql, args, func(r row, s *string) error { return r.Scan(s) })
}
