package rabbit_test

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a broker and its clients. It can cut all connections,
// and keep back what the server says without cutting.
type proxy struct {
	url      string
	server   string
	listener net.Listener
	workers  sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	frozen chan struct{} // closed by thaw; nil while nothing is kept back
}

// newProxy starts a proxy to the broker of the URL.
func newProxy(t *testing.T, amqpURL string) *proxy {
	t.Helper()
	u, err := url.Parse(amqpURL)
	if err != nil {
		t.Fatal("AMQP_URL is not a URL")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen() = %v, want nil", err)
	}
	p := &proxy{server: u.Host, listener: l, conns: make(map[net.Conn]struct{})}
	u.Host = l.Addr().String()
	p.url = u.String()
	p.workers.Go(p.run)
	t.Cleanup(func() {
		_ = l.Close()
		p.thaw()
		p.cut()
		p.workers.Wait()
	})
	return p
}

func (p *proxy) run() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.workers.Go(func() { p.copy(server, client, false) })
		p.workers.Go(func() { p.copy(client, server, true) })
	}
}

func (p *proxy) copy(to, from net.Conn, freezes bool) {
	defer func() {
		_, _ = to.Close(), from.Close()
		p.mu.Lock()
		delete(p.conns, to)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if freezes && frozen != nil {
			<-frozen
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// freeze keeps back what the server says until thaw.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}
