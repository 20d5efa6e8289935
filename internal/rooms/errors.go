package rooms

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
)

// ErrData says that the database will never take this event, however often it
// is tried. Every other error may pass.
var ErrData = errors.New("event cannot be stored")

// maxKey bounds page, user and event ids. Messenger's are at most about 110
// bytes; two of 512 together stay below what a B-tree page of PostgreSQL
// takes (2,704 bytes).
const maxKey = 512

// checkKey refuses what one of the databases would refuse or cut, so that
// both behave the same.
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

// maxWord bounds what else comes from users, whose names and codes are far
// shorter.
const maxWord = 512

// checkWord is checkKey for what may be empty.
func checkWord(field, value string) error {
	if value == "" {
		return nil
	}
	if len(value) > maxWord {
		return fmt.Errorf("%w: %s has %d bytes, more than %d", ErrData, field, len(value), maxWord)
	}
	return checkKey(field, value)
}

// Result codes of SQLite that lie in the data (sqlite.org/rescode.html).
const (
	sqliteTooBig     = 18
	sqliteConstraint = 19
	sqliteMismatch   = 20
)

// classify marks the errors that lie in the data with ErrData. Anything not
// known to be so counts as passing: trying again costs time, giving up costs a
// message. A violated constraint is ErrData, because transactions lock what
// they look at before they change it: whatever violates one does so each time,
// and its page would wait for ever.
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
