package rooms

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"chatclub/internal/rooms/roomstest"
)

// TestFailover checks that sessions that were opened on a standby are closed when
// it refuses to write, all of them at the first refusal.
func TestFailover(t *testing.T) {
	t.Parallel()
	p := roomstest.NewPair(t)
	const conns = 6
	s := open(t, Config{DatabaseURL: p.URL(), MaxConns: conns})
	all := func(n string) (failed int) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range 2 * conns {
			wg.Go(func() {
				page := strconv.Itoa(i)
				if _, err := s.Receive(t.Context(), Event{Page: page, User: "a", ID: n, At: noon}); err != nil {
					mu.Lock()
					failed++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return failed
	}
	if n := all("before"); n != 0 {
		t.Fatalf("events that failed before = %d, want 0", n)
	}
	p.Demote(t)
	for i := range 3 { // the first meets ended sessions
		if n := all("during " + strconv.Itoa(i)); n == 0 {
			t.Fatal("no event failed on a standby")
		}
	}
	// Sessions of the standby, which are idle when it is one no longer.
	var held []transaction
	for range conns {
		tx, err := s.db.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, tx)
	}
	for _, tx := range held {
		tx.end(t.Context())
	}
	p.Promote(t)
	_, err := s.Receive(t.Context(), Event{Page: "p", User: "a", ID: "first", At: noon})
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "25006" {
		t.Fatalf("Receive() in a session of the standby = %v, want 25006", err)
	}
	if n := all("after"); n != 0 {
		t.Errorf("events that failed on the new primary after the first = %d, want 0", n)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("Ping() on the new primary = %v, want nil", err)
	}
}

// TestHangingHost checks that a host that answers no more costs each caller its time
// limit once, and the pool no place.
func TestHangingHost(t *testing.T) {
	t.Parallel()
	const conns = 4
	h := &host{}
	s := open(t, Config{DatabaseURL: roomstest.DSN(t), MaxConns: conns, dial: h.dial})
	t.Cleanup(h.close)
	for _, busy := range []int{1, conns} { // sessions that are in use when it hangs
		var held []transaction
		for range conns {
			tx, err := s.db.begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, tx)
		}
		for _, tx := range held[busy:] {
			tx.end(t.Context())
		}
		h.hang()
		for _, tx := range held[:busy] {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := tx.run(ctx, query{sql: `SELECT 1`}); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("run() on a host that hangs = %v, want a time-out", err)
			}
			tx.end(ctx)
		}
		// New connections reach the new host.
		ctx, cancel := context.WithTimeout(t.Context(), 10*pingTimeout)
		defer cancel()
		var wg sync.WaitGroup
		for range conns {
			wg.Go(func() {
				if _, err := s.Receive(ctx, Event{Page: "p", User: rand.Text(), ID: rand.Text(), At: noon}); err != nil {
					t.Errorf("Receive() after %d sessions hung = %v, want a result", busy, err)
				}
			})
		}
		wg.Wait()
		if n := h.used(); n != busy {
			t.Errorf("sessions of the host that hangs that were used = %d, want %d", n, busy)
		}
	}
}

// host holds the connections to one server. Those made before hang answer no more.
type host struct {
	mu    sync.Mutex
	conns []net.Conn
	hung  int // how many of them hang
	wrote map[int]bool
}

func (h *host) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, conn)
	return &hostConn{Conn: conn, host: h, number: len(h.conns)}, err
}

func (h *host) hang() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hung, h.wrote = len(h.conns), make(map[int]bool)
}

// used returns how many connections that hang were written to.
func (h *host) used() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.wrote)
}

func (h *host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		_ = c.Close()
	}
}

type hostConn struct {
	net.Conn
	host   *host
	number int
}

// Write loses bytes to a host that hangs, so that no answer comes.
func (c *hostConn) Write(b []byte) (int, error) {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	if c.number <= c.host.hung {
		if b[0] != 'X' { // the end of a session
			c.host.wrote[c.number] = true
		}
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestPooling checks that errors of prepared statements, which a pooler mixes up, are
// explained, and that the setting that would lose events is refused.
func TestPooling(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"42P05", "26000", "08P01"} {
		pg := &pgconn.PgError{Code: code, Message: "prepared statement"}
		if err := explainPooling(pg); !errors.Is(err, pg) || !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
			t.Errorf("explainPooling(%s) = %v, want one that names the setting", code, err)
		}
	}
	other := &pgconn.PgError{Code: "40P01"}
	if err := explainPooling(other); err.Error() != other.Error() {
		t.Errorf("explainPooling(40P01) = %v, want %v", err, other)
	}
	_, err := Open(Config{DatabaseURL: "postgres://u:hunter2@h/d?default_query_exec_mode=describe_exec"})
	if err == nil || !strings.Contains(err.Error(), "describe_exec") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Open(describe_exec) = %v, want an error that names it", err)
	}
}

// TestReallyPooled checks the explanation with the statements of another session.
func TestReallyPooled(t *testing.T) {
	t.Parallel()
	s := open(t, Config{DatabaseURL: roomstest.DSN(t), MaxConns: 1})
	says(t, s, "a")
	// A pooler gives the next statement, here COMMIT, another session.
	err := s.do(t.Context(), query{sql: `DEALLOCATE ALL`})
	if err == nil || !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
		t.Errorf("COMMIT with lost statements = %v, want an error that names the setting", err)
	}
}
