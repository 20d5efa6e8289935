// Package wire stands between programs and a server as a network does, so that tests can
// make connections fail without touching a server that others use. Nothing is lost,
// doubled or reordered on a connection that carries on.
package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Wire is the way to one server. Make one with New. Safe for concurrent use.
type Wire struct {
	Addr string // where programs reach the server

	network, server string
	workers         sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener             // nil: the wire is down
	conns    map[net.Conn]*connection // by each of its two ends
	deaf     bool                     // bytes reach nobody
	rate     int                      // bytes per second of a connection towards the server; 0: no limit
	delay    time.Duration            // of all that passes, each way
	frozen   chan struct{}            // closed by Thaw; nil while nothing is kept back
}

// connection is one through the wire. Once something of it was lost it carries nothing
// more, as TCP would not.
type connection struct{ broken bool }

// New opens a way to a server, at an address of this machine, whose port may be 0. The
// caller closes it.
func New(addr, network, server string) (*Wire, error) {
	w := &Wire{Addr: addr, network: network, server: server, conns: make(map[net.Conn]*connection)}
	if err := w.Up(); err != nil {
		return nil, err
	}
	return w, nil
}

// heldTime is the longest wait for a port that is still in use.
const heldTime = 2 * time.Second

// Up takes connections, after Down too.
func (w *Wire) Up() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", w.Addr) //nolint:noctx // returns at once
	// A child that is just being started holds for a moment the ports that we had open.
	for end := time.Now().Add(heldTime); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); {
		time.Sleep(heldTime / 100)
		l, err = net.Listen("tcp", w.Addr) //nolint:noctx // returns at once
	}
	if err != nil {
		return fmt.Errorf("listen before the server: %w", err)
	}
	w.listener, w.Addr = l, l.Addr().String()
	w.workers.Go(func() { w.accept(l) })
	return nil
}

// Down ends every connection and takes no more, until Up.
func (w *Wire) Down() {
	w.mu.Lock()
	if w.listener != nil {
		_ = w.listener.Close() // it listens
		w.listener = nil
	}
	w.mu.Unlock()
	w.Cut()
}

// Close is Down, and returns when nothing of the wire is left.
func (w *Wire) Close() {
	w.Thaw()
	w.Down()
	w.workers.Wait()
}

// Cut ends every connection. New ones are taken.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}

// Freeze keeps the server's bytes back until Thaw.
func (w *Wire) Freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = make(chan struct{})
}

// Thaw ends a Freeze.
func (w *Wire) Thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen != nil {
		close(w.frozen)
		w.frozen = nil
	}
}

// SetDeaf makes all connections half open for ever, and those that are made meanwhile.
func (w *Wire) SetDeaf(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = on
	if on {
		for _, c := range w.conns {
			c.broken = true
		}
	}
}

// SetRate bounds a connection's bytes a second towards the server; 0 is no bound.
func (w *Wire) SetRate(bytesPerSecond int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate = bytesPerSecond
}

// SetDelay makes all that is said from now on arrive so much later, in its order.
func (w *Wire) SetDelay(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// Heal ends all faults. Bytes lost on connections are lost, so those
// that were half open end.
func (w *Wire) Heal() error {
	w.mu.Lock()
	w.deaf, w.rate, w.delay = false, 0, 0
	for end, c := range w.conns {
		if c.broken {
			_ = end.Close()
		}
	}
	w.mu.Unlock()
	w.Thaw()
	return w.Up()
}

func (w *Wire) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		w.workers.Go(func() { w.connect(l, client) })
	}
}

// connect carries a connection that a listener has taken until it ends.
func (w *Wire) connect(of net.Listener, client net.Conn) {
	server, err := new(net.Dialer).DialContext(context.Background(), w.network, w.server)
	if err != nil {
		_ = client.Close()
		return
	}
	w.mu.Lock()
	c := new(connection)
	down := w.listener != of
	if !down {
		w.conns[client], w.conns[server] = c, c
	}
	w.mu.Unlock()
	if down {
		_, _ = client.Close(), server.Close()
		return
	}
	w.workers.Go(func() { w.carry(c, server, client, true) })
	w.carry(c, client, server, false)
}

// carry copies one direction. The end of one side reaches the other unless the
// connection is half open.
func (w *Wire) carry(c *connection, to, from net.Conn, towardsServer bool) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.conns, from)
		_ = from.Close()
		if !c.broken {
			_ = to.Close()
		}
	}()
	late := make(chan parcel, mostLate)
	var forwarding sync.WaitGroup
	forwarding.Go(func() {
		for p := range late {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close() // which ends the reading
			}
		}
	})
	defer forwarding.Wait()
	defer close(late)
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		c.broken = c.broken || w.deaf
		broken, rate, frozen, delay := c.broken, w.rate, w.frozen, w.delay
		w.mu.Unlock()
		if frozen != nil && !towardsServer {
			<-frozen
		}
		if !broken && n > 0 {
			if towardsServer && rate > 0 {
				time.Sleep(time.Duration(n) * time.Second / time.Duration(rate)) // the wire's speed
			}
			late <- parcel{slices.Clone(buf[:n]), time.Now().Add(delay)}
		}
		if err != nil {
			return
		}
	}
}

// parcel is some bytes on their way, and the time of their arrival.
type parcel struct {
	bytes []byte
	due   time.Time
}

// mostLate is the number of parcels of a connection that are on their way at most.
// Beyond it the wire reads no more, as TCP would not.
const mostLate = 256
