package service

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// sickListener has no files left at first, then one connection, and then is closed.
type sickListener struct{ accepts []func() (net.Conn, error) }

func (l *sickListener) Accept() (net.Conn, error) {
	if len(l.accepts) == 0 {
		return nil, net.ErrClosed
	}
	accept := l.accepts[0]
	l.accepts = l.accepts[1:]
	return accept()
}

func (l *sickListener) Close() error   { return nil }
func (l *sickListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestServersOwnMessages: what net/http says of our faults is logged at warn. Of what a
// client does, as often as it wants, it says nothing.
func TestServersOwnMessages(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		request, want string
		handler       http.HandlerFunc
	}{
		{"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "panic serving", func(http.ResponseWriter, *http.Request) { panic("sick") }},
		{"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"GET / HTTP/9.9\r\nnonsense\r\n\r\n", "", nil},
		{"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", "", nil},
	} {
		var out bytes.Buffer
		log, _ := NewLogger(LogSettings{Level: slog.LevelInfo}, &out)
		client, conn := net.Pipe()
		l := &sickListener{accepts: []func() (net.Conn, error){
			func() (net.Conn, error) { return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE} },
			func() (net.Conn, error) { return conn, nil },
		}}
		srv := NewHTTPServer(row.handler, log)
		if err := srv.Serve(l); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve() = %v, want net.ErrClosed", err)
		}
		if _, err := io.WriteString(client, row.request); err != nil {
			t.Errorf("write %q: %v", row.request, err)
		}
		if _, err := io.ReadAll(client); err != nil { // until the server has closed it
			t.Errorf("read the answer to %q: %v", row.request, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "Accept error: accept: too many open files") {
			t.Errorf("log of a server without files = %q, want that at warn", lines[0])
		}
		switch {
		case row.want == "" && len(lines) > 1:
			t.Errorf("log of %q = %q, want nothing of the request", row.request, lines[1:])
		case row.want != "" && (len(lines) != 2 || !strings.Contains(lines[1], "level=WARN") || !strings.Contains(lines[1], row.want)):
			t.Errorf("log of %q = %q, want %q at warn", row.request, lines[1:], row.want)
		}
	}
}
