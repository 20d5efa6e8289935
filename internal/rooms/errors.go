package rooms

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
)

// ErrData says that the database will never store this event, however often it
// is tried. Every other error may be temporary.
var ErrData = errors.New("event cannot be stored")

// ErrGone says that SQLite's file was deleted, moved or replaced while it is open.
var ErrGone = errors.New("the database's file is gone, or another one stands in its place: what is written now is lost at the program's end")

// Public returns what everybody may read of a failure: an error of PostgreSQL or of the
// way to it without the user, the database and the address, which the log has.
func Public(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fmt.Errorf("PostgreSQL answers with SQLSTATE %.5s", pg.Code)
	}
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[*net.OpError](err)
	if !connect && !network {
		return err
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return fmt.Errorf("PostgreSQL cannot be reached: %w", errno)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("PostgreSQL cannot be reached: timeout")
	}
	return errors.New("PostgreSQL cannot be reached")
}

// failed returns err with the name of the operation; nil stays nil.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// orUnknown returns err, or ErrUnknown if there is none and nothing was found.
func orUnknown(err error, found bool) error {
	if err == nil && !found {
		return ErrUnknown
	}
	return err
}

// maxKey bounds page, user and event ids. Messenger's are at most about 110
// bytes. Two of 512 bytes together are below the bound of PostgreSQL's B-tree
// (2,704 bytes).
const maxKey = 512

// checkKey refuses a value that one of the databases would refuse or cut, so
// that both behave the same.
func checkKey(field, value string) error {
	switch {
	case value == "":
		return fmt.Errorf("%w: %s is empty", ErrData, field)
	case len(value) > maxKey:
		return fmt.Errorf("%w: %s has %d bytes, more than %d", ErrData, field, len(value), maxKey)
	case !utf8.ValidString(value):
		return fmt.Errorf("%w: %s is not UTF-8", ErrData, field)
	case strings.ContainsAny(value, "\x00"+separator):
		return fmt.Errorf("%w: %s holds a control character", ErrData, field)
	}
	return nil
}

// checkWord is checkKey for a value that may be empty.
func checkWord(field, value string) error {
	if value == "" {
		return nil
	}
	return checkKey(field, value)
}

// Result codes of SQLite that lie in the data (sqlite.org/rescode.html).
const (
	sqliteTooBig     = 18
	sqliteConstraint = 19
	sqliteMismatch   = 20
)

// classify marks the errors whose cause is in the data with ErrData. All other
// errors count as temporary, because trying again costs time and giving up costs
// a message.
//
// A violated constraint is ErrData. Transactions lock the rows that they read
// before they change them. So an event that violates a constraint does so each
// time, and its page would wait for ever.
func classify(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code[:min(2, len(pg.Code))] {
		case "22", "23", "54": // data exception, constraint violation, program limit exceeded
			return fmt.Errorf("%w: %w", ErrData, err)
		}
		return err
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		switch lite.Code() & 0xff {
		case sqliteTooBig, sqliteConstraint, sqliteMismatch:
			return fmt.Errorf("%w: %w", ErrData, err)
		}
	}
	return err
}
