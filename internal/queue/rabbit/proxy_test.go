package rabbit_test

import (
	"encoding/binary"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a broker and its clients. It can cut all connections,
// keep back what the server says without cutting, and lose deliveries.
type proxy struct {
	url      string
	server   string
	listener net.Listener
	workers  sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	frozen chan struct{} // closed by thaw; nil while nothing is kept back
	// swallows reports whether a consumer's deliveries are lost, from the first one on
	// until its channel is closed; nil: none.
	swallows func(routingKey string) bool
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
		p.workers.Go(func() { p.copy(client, &swallower{proxy: p, Conn: server}, true) })
	}
}

func (p *proxy) copy(to, from net.Conn, freezes bool) {
	defer func() {
		_, _ = to.Close(), from.Close()
		p.mu.Lock()
		delete(p.conns, to)
		p.mu.Unlock()
	}()
	buf := make([]byte, 256<<10) // a frame at least
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

// swallow has deliveries lost, as RabbitMQ does when it believes that it delivered.
func (p *proxy) swallow(which func(routingKey string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallows = which
}

// swallower reads what a server says, without the frames of lost deliveries.
type swallower struct {
	net.Conn
	proxy *proxy
	in    []byte          // read and not given on: the beginning of a frame
	lost  map[uint16]bool // the channels whose deliveries are lost
}

// Frames of AMQP 0-9-1: type, channel, size of the payload, payload, end.
const (
	frameHead, frameTail = 7, 1
	frameMethod          = 1
	frameHeader          = 2
	frameBody            = 3
)

func (s *swallower) Read(p []byte) (int, error) {
	for {
		buf := make([]byte, len(p)/2)
		n, err := s.Conn.Read(buf)
		s.in = append(s.in, buf[:n]...)
		out := s.pass(p[:0])
		if len(out) > 0 || err != nil {
			return len(out), err
		}
	}
}

// pass appends the whole frames that are not lost.
func (s *swallower) pass(out []byte) []byte {
	for len(s.in) >= frameHead {
		size := frameHead + int(binary.BigEndian.Uint32(s.in[3:])) + frameTail
		if len(s.in) < size || len(out)+size > cap(out) {
			break
		}
		if frame := s.in[:size]; !s.loses(frame) {
			out = append(out, frame...)
		}
		s.in = s.in[size:]
	}
	return out
}

func (s *swallower) loses(frame []byte) bool {
	channel := binary.BigEndian.Uint16(frame[1:])
	switch frame[0] {
	case frameHeader, frameBody:
		return s.lost[channel]
	case frameMethod:
	default:
		return false
	}
	switch payload := frame[frameHead:]; binary.BigEndian.Uint32(payload) {
	case 60<<16 | 60: // basic.deliver: consumer tag, delivery tag, redelivered, exchange, routing key
		rest := payload[4:]
		rest = rest[1+int(rest[0])+8+1:]
		rest = rest[1+int(rest[0]):]
		key := string(rest[1 : 1+int(rest[0])])
		s.proxy.mu.Lock()
		which := s.proxy.swallows
		s.proxy.mu.Unlock()
		if which != nil && which(key) {
			if s.lost == nil {
				s.lost = make(map[uint16]bool)
			}
			s.lost[channel] = true
		}
		return s.lost[channel]
	case 20<<16 | 41: // channel.close-ok
		delete(s.lost, channel)
	}
	return false
}
