package service

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// caller is a connection that notes its end.
type caller struct {
	net.Conn
	addr   string
	closed bool
}

func (c *caller) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.addr), Port: 1} }
func (c *caller) Close() error         { c.closed = true; return nil }

// TestBound: a newcomer takes the place of the connection that did nothing for the longest
// time: from its own address where that has many, and not one that had the token.
func TestBound(t *testing.T) {
	t.Parallel()
	const a, b, c = "192.0.2.1", "192.0.2.2", "192.0.2.3"
	for _, row := range []struct {
		name       string
		from       []string // the connections, in their order
		busy       []int    // of those do something, when all but the last are there
		token      []int    // and have the token
		gone       []int    // and leave
		wantClosed []int
	}{
		{name: "room for all", from: []string{a, a, a, a, b, b, c, c}},
		{name: "the oldest leaves", from: []string{b, a, a, a, a, b, c, c, "192.0.2.9"}, wantClosed: []int{0}},
		{name: "the idlest leaves", from: []string{b, a, a, a, a, b, c, c, "192.0.2.9"}, busy: []int{0}, wantClosed: []int{1}},
		{name: "of many from one address one leaves", from: []string{b, a, a, a, a, b, c, c, a}, wantClosed: []int{1}},
		{name: "one with the token stays", from: []string{b, a, a, a, a, b, c, c, a}, token: []int{1, 2}, wantClosed: []int{3}},
		{name: "all have the token", from: []string{a, a, b, b, c, c, a, b, "192.0.2.9"}, token: []int{0, 1, 2, 3, 4, 5, 6, 7}, wantClosed: []int{0}},
		{name: "who leaves makes room", from: []string{a, a, b, b, c, c, a, b, "192.0.2.9"}, gone: []int{5}, wantClosed: []int{5}},
	} {
		var callers []*caller
		l := &sickListener{}
		for _, addr := range row.from {
			one := &caller{addr: addr}
			callers = append(callers, one)
			l.accepts = append(l.accepts, func() (net.Conn, error) { return one, nil })
		}
		srv := &http.Server{}
		d := Bound(srv, l, 8, discard())
		var conns []net.Conn
		for i := range callers {
			if i == 8 {
				for _, k := range row.token {
					keepIn(srv.ConnContext(t.Context(), conns[k]))
				}
				for _, k := range row.busy {
					srv.ConnState(conns[k], http.StateActive)
				}
				for _, k := range row.gone {
					_ = conns[k].Close()
				}
			}
			conn, err := d.Accept()
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		var closed []int
		for i, one := range callers {
			if one.closed {
				closed = append(closed, i)
			}
		}
		if diff := cmp.Diff(row.wantClosed, closed); diff != "" {
			t.Errorf("%s: closed connections: -want +got\n%s", row.name, diff)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
		if dr := d.(*door); dr.in.Len() != 0 || len(dr.from) != 0 {
			t.Errorf("%s: when all have left, the door knows of %d from %v", row.name, dr.in.Len(), dr.from)
		}
	}
}

// TestFullServerSaysSo: once a minute, with the number of connections.
func TestFullServerSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &sickListener{}
		d := Bound(&http.Server{}, l, 1, slog.New(slog.NewTextHandler(&out, nil)))
		for range 2 {
			for range 3 {
				l.accepts = append(l.accepts, func() (net.Conn, error) { return &caller{addr: "192.0.2.1"}, nil })
				if _, err := d.Accept(); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(complainEvery)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], " most=1 closed=1") || !strings.HasSuffix(lines[1], " most=1 closed=2") {
			t.Errorf("log = %q, want closed=1, and closed=2 after a minute", lines)
		}
	})
}

// TestFloodedAdminPort: whoever holds connections keeps nobody out, and takes a bounded
// number of files.
func TestFloodedAdminPort(t *testing.T) {
	t.Parallel()
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	admin := NewAdmin(AdminConfig{Listener: l, Log: slog.New(slog.NewTextHandler(&out, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- admin.Run(ctx) }()
	var held []net.Conn
	for range AdminConnections + 20 {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", admin.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\n"); err != nil { // and nothing more
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatalf("GET %s beside a flood: %v", path, err)
		}
		if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
			t.Errorf("GET %s beside a flood = %d, want 200", path, res.StatusCode)
		}
	}
	for _, conn := range held {
		_ = conn.Close()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if got := out.String(); !strings.Contains(got, "server is full") {
		t.Errorf("log = %q, want that the server is full", got)
	}
}
