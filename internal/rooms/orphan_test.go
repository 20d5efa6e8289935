package rooms

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/rooms/roomstest"
)

// deadConn loses everything written from the first COMMIT on, and does not
// close. A server sees as much of a client whose machine lost its power.
type deadConn struct {
	net.Conn
	dead *atomic.Bool
	died func()
}

func (c *deadConn) Write(b []byte) (int, error) {
	if c.dead.Load() || bytes.Contains(b, []byte("COMMIT")) {
		c.dead.Store(true)
		c.died()
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *deadConn) Close() error {
	if c.dead.Load() {
		return c.SetDeadline(time.Now()) // ends a pending read
	}
	return c.Conn.Close()
}

// TestOrphan checks that the rows of a core whose machine died between two steps
// of a transaction are soon free for others.
func TestOrphan(t *testing.T) {
	t.Parallel()
	url := roomstest.DSN(t)
	others := open(t, Config{DatabaseURL: url})
	says(t, others, "a")
	var dead atomic.Bool
	died := make(chan struct{})
	doomed, err := Open(Config{
		DatabaseURL: url, MaxConns: 1, orphanTimeout: 200 * time.Millisecond,
		dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dead.Load() {
				return nil, context.DeadlineExceeded // a dead machine cancels nothing
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				t.Cleanup(func() { _ = conn.Close() })
			}
			return &deadConn{conn, &dead, sync.OnceFunc(func() { close(died) })}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer doomed.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !dead.Load() { // a busy machine may be idle for longer than the limit
			_, _ = doomed.Receive(ctx, Event{Page: "p", User: "a", ID: "doomed", At: noon})
		}
	}()
	<-died
	patience, enough := context.WithTimeout(t.Context(), 30*time.Second)
	defer enough()
	if _, err := others.Receive(patience, Event{Page: "p", User: "a", ID: "survivor", At: noon}); err != nil {
		t.Errorf("Receive of the user whose core died = %v, want nil", err)
	}
	cancel()
	<-ended
}

// TestSession checks that the server's settings are ours, unless the URL sets
// others.
func TestSession(t *testing.T) {
	t.Parallel()
	// A connection that is not TCP has none of its settings.
	const sql = `SELECT name || '=' || setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'
		OR inet_client_addr() IS NOT NULL AND (name = 'tcp_user_timeout' OR name LIKE 'tcp_keepalives%') ORDER BY name`
	url := roomstest.DSN(t)
	sign := "?"
	if strings.Contains(url, "?") {
		sign = "&"
	}
	for url, want := range map[string]string{
		url: "idle_in_transaction_session_timeout=10000",
		url + sign + "idle_in_transaction_session_timeout=7s": "idle_in_transaction_session_timeout=7000",
	} {
		s := open(t, Config{DatabaseURL: url})
		var got []string
		if err := s.do(t.Context(), column(&got, sql)); err != nil {
			t.Fatal(err)
		}
		want := []string{want, "tcp_keepalives_count=3", "tcp_keepalives_idle=30", "tcp_keepalives_interval=10", "tcp_user_timeout=60000"}
		if diff := cmp.Diff(want[:min(len(want), max(1, len(got)))], got); diff != "" {
			t.Errorf("settings: -want +got\n%s", diff)
		}
	}
}
