// Package roomstest finds a PostgreSQL for tests. It guarantees that every call
// of DSN returns an empty schema of its own. A test without a server is never
// skipped: it fails with one sentence that says what to do.
//
// It takes the first of these servers:
//
//   - the one at TEST_DATABASE_URL;
//   - one on 127.0.0.1:5432 that lets root or postgres in without a password;
//   - a private one, started from the installed PostgreSQL;
//   - the same after `apt-get install postgresql`, if the test runs as root on
//     Debian or Ubuntu.
package roomstest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// URLVariable is the environment variable that names the server to use.
const URLVariable = "TEST_DATABASE_URL"

// connectTimeout bounds one attempt to reach a server on this machine.
const connectTimeout = 3 * time.Second

// found returns the server of this process, which serves all its tests.
var found = sync.OnceValues(find)

// server is a PostgreSQL to make schemas in.
type server struct {
	base  string    // its URL
	guard io.Closer // a private server ends when this is closed or collected; otherwise nil
}

// DSN returns the URL of an empty schema, which is dropped when the test ends.
// The test closes its connections before that: it registers their Cleanup after
// calling DSN.
func DSN(t testing.TB) string {
	t.Helper()
	srv, err := found()
	if err != nil {
		t.Fatalf("these tests need PostgreSQL: %v", err)
	}
	dsn, drop, err := Schema(srv.base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	return dsn
}

// Schema makes an empty schema on a server, and returns its URL and a function to drop it:
// for programs, which have no test.
func Schema(base string) (dsn string, drop func() error, err error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", nil, errors.New("the address of PostgreSQL is not a URL") // the error would quote its password
	}
	schema := "chatclub_test_" + strings.ToLower(rand.Text())
	if err := executeWithin(time.Minute, base, "CREATE SCHEMA "+schema); err != nil {
		return "", nil, fmt.Errorf("create a schema: %w", err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	q.Set("synchronous_commit", "off") // no test loses power
	u.RawQuery = q.Encode()
	return u.String(), func() error {
		if err := executeWithin(time.Minute, base, "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			return fmt.Errorf("drop the schema: %w", err)
		}
		return nil
	}, nil
}

// Find finds or starts a server, for programs that run tests. stop ends the
// server if Find started it.
func Find() (base string, stop func() error, err error) {
	srv, err := find()
	if err != nil {
		return "", nil, err
	}
	if srv.guard == nil {
		return srv.base, func() error { return nil }, nil
	}
	return srv.base, srv.guard.Close, nil
}

func find() (server, error) {
	if base := os.Getenv(URLVariable); base != "" {
		if err := execute(base, "SELECT 1"); err != nil {
			return server{}, fmt.Errorf("the server of %s does not answer: %w", URLVariable, err)
		}
		return server{base: base}, nil
	}
	for _, base := range []string{
		"postgres://root@127.0.0.1:5432/root?sslmode=disable",
		"postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable",
	} {
		if execute(base, "SELECT 1") == nil {
			return server{base: base}, nil
		}
	}
	bin, err := programs()
	if err != nil {
		return server{}, err
	}
	srv, err := start(bin)
	if err != nil {
		return server{}, fmt.Errorf("start a private server from %s: %w", bin, err)
	}
	return srv, nil
}

// execute runs one statement on a connection of its own.
func execute(base, statement string) error { return executeWithin(connectTimeout, base, statement) }

func executeWithin(limit time.Duration, base, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	config, err := pgx.ParseConfig(base)
	if err != nil {
		return errors.New("not a PostgreSQL URL") // the error may quote its password
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}
