package service

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"chatclub/internal/audit"
)

const (
	// AdminConnections are the most of a server for operators: many times what Prometheus,
	// probes, operators and bots have.
	AdminConnections = 256
	// ownShare is the part of all places, 1/ownShare, from which on a newcomer takes the place
	// of another connection from its own address.
	ownShare = 4
	// complainEvery is the period of the line that says that a server is full.
	complainEvery = time.Minute
)

// FileShare returns the connections that a server may have, so that half of the process's
// files is left for all else: most, or fewer where the system allows fewer files.
func FileShare(most int) int {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return most
	}
	return int(min(uint64(most), max(1, files.Cur/2))) //nolint:gosec // most is an int
}

// Bound bounds the connections of srv, which is to serve the listener that it returns. A
// newcomer is always let in. In a full server it takes the place of the connection that
// did nothing for the longest time: one from its own address where that has a quarter of
// all places, and otherwise anybody's. So who keeps many connections, or opens many, keeps
// nobody out. A connection whose request had the token is spared, as long as there are
// others.
func Bound(srv *http.Server, l net.Listener, most int, log *slog.Logger) net.Listener {
	d := &door{Listener: l, most: most, log: log, from: make(map[string]int), closed: audit.Seldom{Every: complainEvery}}
	srv.ConnState = func(c net.Conn, _ http.ConnState) { d.touch(c) }
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, visitorKey{}, c)
	}
	return d
}

// visitorKey is the key of a request's connection in its context.
type visitorKey struct{}

// keepIn spares the connection of a request that had the token.
func keepIn(ctx context.Context) {
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok {
		v.door.mu.Lock()
		defer v.door.mu.Unlock()
		v.spared = true
	}
}

// door is a listener with a bound. Bound makes one.
type door struct {
	net.Listener
	most int
	log  *slog.Logger

	closed audit.Seldom // to make room

	mu   sync.Mutex
	in   list.List      // of *visitor; first the one that did nothing for the longest time
	from map[string]int // how many there are by their address
}

// visitor is a connection.
type visitor struct {
	net.Conn
	door   *door
	from   string
	spared bool          // guarded by the door's lock, as place is
	place  *list.Element // nil once it has left
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	v := &visitor{Conn: conn, door: d, from: host(conn.RemoteAddr())}
	if other := d.enter(v); other != nil {
		_ = other.Conn.Close() // its server finds out
		d.complain()
	}
	return v, nil
}

// enter lets v in, and returns who has to leave for it.
func (d *door) enter(v *visitor) (other *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.in.Len() >= d.most {
		other = d.choose(v.from)
		d.leaveLocked(other)
	}
	v.place = d.in.PushBack(v)
	d.from[v.from]++
	return other
}

// choose returns who has to leave for somebody from an address.
func (d *door) choose(from string) *visitor {
	own := d.from[from]*ownShare >= d.most
	for e := d.in.Front(); e != nil; e = e.Next() {
		if v := e.Value.(*visitor); !v.spared && (!own || v.from == from) {
			return v
		}
	}
	return d.in.Front().Value.(*visitor)
}

func (d *door) leaveLocked(v *visitor) {
	if v.place == nil {
		return
	}
	d.in.Remove(v.place)
	v.place = nil
	if d.from[v.from]--; d.from[v.from] == 0 {
		delete(d.from, v.from)
	}
}

// touch notes that a connection did something.
func (d *door) touch(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v, ok := c.(*visitor); ok && v.place != nil {
		d.in.MoveToBack(v.place)
	}
}

// complain logs once a minute how many connections were closed to make room.
func (d *door) complain() {
	if n, tell := d.closed.Add(time.Now()); tell {
		d.log.Warn("server is full; the idlest connections are closed for new ones", "addr", d.Addr().String(), "most", d.most, "closed", n)
	}
}

// Close implements net.Conn.
func (v *visitor) Close() error {
	v.door.mu.Lock()
	v.door.leaveLocked(v)
	v.door.mu.Unlock()
	return v.Conn.Close()
}

// host returns an address without its port.
func host(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return a.String()
}
