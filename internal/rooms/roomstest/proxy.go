package roomstest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"

	"chatclub/internal/tools/private"
)

// Proxy stands between programs and their database, so that the connections can be
// cut without touching a server that others use. By it a server is reached by TCP
// that listens on a socket file alone. Make one with NewProxy. Safe for concurrent
// use.
type Proxy struct {
	url     *url.URL // of the database, through the proxy
	network string   // of the database itself
	target  string
	serving sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil: connections are cut
	conns    map[net.Conn]struct{}
}

// NewProxy opens a way to the database of a URL. The caller closes it.
func NewProxy(dsn string) (*Proxy, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("the address of PostgreSQL is not a URL") // the error would quote its password
	}
	p := &Proxy{url: u, network: "tcp", target: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "5432")), conns: make(map[net.Conn]struct{})}
	if socket := Socket(u); socket != "" {
		p.network, p.target = "unix", socket
		q := u.Query()
		q.Del("host")
		u.RawQuery = q.Encode()
	}
	ports, err := private.Ports(1)
	if err != nil {
		return nil, err
	}
	u.Host = fmt.Sprintf("127.0.0.1:%d", ports[0])
	if err := p.Mend(); err != nil {
		return nil, err
	}
	return p, nil
}

// Socket is the socket file that the server of a URL listens on; "" where it is
// reached by TCP.
func Socket(u *url.URL) string {
	if dir := u.Query().Get("host"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".s.PGSQL.5432")
	}
	return ""
}

// URL is the database's, through the proxy.
func (p *Proxy) URL() string { return p.url.String() }

// Cut ends every connection and takes no more, until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return
	}
	_ = p.listener.Close() // it listens
	p.listener = nil
	for c := range p.conns {
		_ = c.Close()
	}
}

// Mend takes connections again.
func (p *Proxy) Mend() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	ln, err := net.Listen("tcp", p.url.Host) //nolint:noctx // returns at once
	if err != nil {
		return fmt.Errorf("listen before the database: %w", err)
	}
	p.listener = ln
	p.serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() { p.carry(c, ln) })
		}
	})
	return nil
}

// Close is Cut, and returns when nothing of the proxy is left.
func (p *Proxy) Close() {
	p.Cut()
	p.serving.Wait()
}

// carry serves a connection that a listener has taken. It ends with either side.
func (p *Proxy) carry(c net.Conn, of net.Listener) {
	defer func() { _ = c.Close() }()
	s, err := new(net.Dialer).DialContext(context.Background(), p.network, p.target)
	if err != nil {
		return
	}
	defer func() { _ = s.Close() }()
	if !p.add(c, of) {
		return
	}
	defer p.remove(c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(s, c)
		_ = s.Close()
	}()
	_, _ = io.Copy(c, s)
	_ = c.Close()
	<-done
}

// add reports whether the connections of a listener are not cut.
func (p *Proxy) add(c net.Conn, of net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != of {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
