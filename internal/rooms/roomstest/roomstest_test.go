package roomstest

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestPrivate starts a private server even if another one runs, because this way
// is otherwise taken only on machines without one.
func TestPrivate(t *testing.T) {
	t.Parallel()
	bin, err := programs()
	if err != nil {
		t.Fatalf("programs() = %v, want the folder of initdb", err)
	}
	srv, err := start(bin)
	if err != nil {
		t.Fatalf("start(%q) = %v, want a running server", bin, err)
	}
	runtime.GC() // an unreferenced handle would end the server here
	if err := execute(srv.base, "CREATE SCHEMA x"); err != nil {
		t.Errorf("execute(CREATE SCHEMA) = %v, want nil", err)
	}
	p, err := NewProxy(srv.base) // it listens on a socket file alone
	if err != nil {
		t.Fatalf("NewProxy(%q) = %v, want nil", srv.base, err)
	}
	if err := execute(p.URL(), "DROP SCHEMA x"); err != nil || strings.Contains(p.URL(), "host=") {
		t.Errorf("execute() by TCP at %s = %v, want nil", p.URL(), err)
	}
	p.Close()
	if err := srv.guard.Close(); err != nil {
		t.Errorf("close the private server = %v, want nil", err)
	}
}

func TestDSN(t *testing.T) {
	t.Parallel()
	first, second := DSN(t), DSN(t)
	for _, dsn := range []string{first, second} {
		if err := execute(dsn, "CREATE TABLE mine (a INTEGER)"); err != nil {
			t.Fatalf("execute(CREATE TABLE) in a fresh schema = %v, want nil", err)
		}
	}
	conn, err := pgx.Connect(context.Background(), first)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var schemas int
	if err := conn.QueryRow(context.Background(),
		`SELECT count(*) FROM information_schema.tables WHERE table_name = 'mine' AND table_schema = current_schema()`).Scan(&schemas); err != nil {
		t.Fatal(err)
	}
	if schemas != 1 {
		t.Errorf("tables in the test's schema = %d, want 1", schemas)
	}
}

func TestFindUnreachable(t *testing.T) {
	t.Setenv(URLVariable, "postgres://user:hunter2@127.0.0.1:1/none?sslmode=disable")
	srv, err := find()
	if err == nil {
		t.Fatalf("find() with a dead %s = %q, want an error", URLVariable, srv.base)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("find() = %v, want an error without the password", err)
	}
}

// A database is reached through its proxy until that is cut, and again when it is
// mended.
func TestProxy(t *testing.T) {
	t.Parallel()
	p, err := NewProxy(DSN(t))
	if err != nil {
		t.Fatalf("NewProxy() = %v, want nil", err)
	}
	t.Cleanup(p.Close)
	conn, err := pgx.Connect(t.Context(), p.URL())
	if err != nil {
		t.Fatalf("connect through the proxy = %v, want nil", err)
	}
	defer conn.Close(context.Background())
	p.Cut()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a connection lives on after Cut")
	}
	if err := execute(p.URL(), "SELECT 1"); err == nil {
		t.Error("execute() after Cut = nil, want an error")
	}
	if err := p.Mend(); err != nil {
		t.Fatalf("Mend() = %v, want nil", err)
	}
	if err := execute(p.URL(), "CREATE TABLE mine (a INTEGER)"); err != nil {
		t.Errorf("execute() after Mend = %v, want nil", err)
	}
}
