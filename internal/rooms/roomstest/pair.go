package roomstest

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Pair is a database of its own, whose server seems to be replaced by its standby.
type Pair struct{ base, name, url string }

// NewPair makes the database, which is dropped when the test ends.
func NewPair(t testing.TB) *Pair {
	t.Helper()
	srv, err := found()
	if err != nil {
		t.Fatalf("these tests need PostgreSQL: %v", err)
	}
	u, err := url.Parse(srv.base)
	if err != nil {
		t.Fatal("the address of PostgreSQL is not a URL") // the error would quote its password
	}
	p := &Pair{base: srv.base, name: "chatclub_test_" + strings.ToLower(rand.Text())}
	u.Path = "/" + p.name
	p.url = u.String()
	p.execute(t, "CREATE DATABASE "+p.name)
	t.Cleanup(func() { p.execute(t, "DROP DATABASE "+p.name+" WITH (FORCE)") })
	return p
}

// URL is the database's.
func (p *Pair) URL() string { return p.url }

// Demote ends all sessions. New ones read only, as those of a standby do.
func (p *Pair) Demote(t testing.TB) {
	t.Helper()
	p.execute(t, "ALTER DATABASE "+p.name+" SET default_transaction_read_only = on")
	p.execute(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+p.name+"'")
}

// Promote lets new sessions write. Those of before stay the standby's.
func (p *Pair) Promote(t testing.TB) {
	t.Helper()
	p.execute(t, "ALTER DATABASE "+p.name+" RESET default_transaction_read_only")
}

func (p *Pair) execute(t testing.TB, statement string) {
	t.Helper()
	// To make or drop a database the server writes a checkpoint, on a busy disk too.
	if err := executeWithin(time.Minute, p.base, statement); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}
