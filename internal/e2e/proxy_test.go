package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"chatclub/internal/rooms/roomstest"
)

var errStillReady = errors.New("still ready")

// proxy stands between a program and its database, so that the connection can
// be cut without touching a server that other tests use.
type proxy struct {
	url     string // of the database, through the proxy
	addr    string
	network string // of the database itself
	target  string

	mu    sync.Mutex
	ln    net.Listener
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

func proxyDatabase(t *testing.T) *proxy {
	t.Helper()
	u, err := url.Parse(roomstest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{network: "tcp", target: u.Host, conns: make(map[net.Conn]struct{}), addr: freeAddr(t)}
	if q := u.Query(); q.Get("host") != "" { // a server that listens on a socket file alone
		p.network, p.target = "unix", filepath.Join(q.Get("host"), ".s.PGSQL.5432")
		q.Del("host")
		u.RawQuery = q.Encode()
	}
	u.Host = p.addr
	p.url = u.String()
	p.mend(t)
	t.Cleanup(func() { p.cut(t); p.wg.Wait() })
	return p
}

// mend accepts connections again.
func (p *proxy) mend(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.ln = ln
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.carry(c) })
		}
	})
}

// cut ends every connection and takes no more.
func (p *proxy) cut(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) carry(c net.Conn) {
	defer c.Close()
	s, err := (&net.Dialer{}).DialContext(context.Background(), p.network, p.target)
	if err != nil {
		return
	}
	defer s.Close()
	p.mu.Lock()
	p.conns[c] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(s, c)
		s.Close()
	}()
	_, _ = io.Copy(c, s)
	c.Close()
	<-done
}
