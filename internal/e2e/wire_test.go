package e2e

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// wire stands between some programs and the broker. Their connections can become
// half open, and slow in the direction of the broker.
type wire struct {
	url    string // of the broker, through the wire
	server string
	ln     net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]*strand // both ends of each connection
	deaf  bool                 // what is said reaches nobody
	rate  int                  // bytes per second of a connection towards the broker; 0: as fast as it goes
}

// strand is a connection through the wire. Once something of it was lost it
// carries nothing more, as TCP would not.
type strand struct{ broken bool }

func newWire(t *testing.T, amqpURL string) *wire {
	t.Helper()
	u, err := url.Parse(amqpURL)
	if err != nil {
		t.Fatal("AMQP_URL is not a URL")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{server: u.Host, ln: ln, conns: make(map[net.Conn]*strand)}
	u.Host = ln.Addr().String()
	w.url = u.String()
	w.wg.Go(w.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		w.mu.Lock()
		for c := range w.conns {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.wg.Wait()
	})
	return w
}

func (w *wire) accept() {
	for {
		client, err := w.ln.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", w.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		s := new(strand)
		w.mu.Lock()
		w.conns[client], w.conns[server] = s, s
		w.mu.Unlock()
		w.wg.Go(func() { w.carry(s, server, client, true) })
		w.wg.Go(func() { w.carry(s, client, server, false) })
	}
}

// carry copies one direction. The end of one side reaches the other unless the
// connection is half open.
func (w *wire) carry(s *strand, to, from net.Conn, towardsBroker bool) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.conns, from)
		_ = from.Close()
		if !s.broken {
			_ = to.Close()
		}
	}()
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		s.broken = s.broken || w.deaf
		broken, rate := s.broken, w.rate
		w.mu.Unlock()
		if !broken && n > 0 {
			if towardsBroker && rate > 0 {
				time.Sleep(time.Duration(n) * time.Second / time.Duration(rate)) // the wire's speed
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// setDeaf makes all connections half open, and those that are made meanwhile.
func (w *wire) setDeaf(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = on
	if on {
		for _, s := range w.conns {
			s.broken = true
		}
	}
}

func (w *wire) setRate(bytesPerSecond int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate = bytesPerSecond
}
