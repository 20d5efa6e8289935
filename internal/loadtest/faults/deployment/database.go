package deployment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"

	"chatclub/internal/loadtest/proc"
	"chatclub/internal/rooms/roomstest"
)

// database is a PostgreSQL's empty schema.
type database struct {
	url   *url.URL // through addr's place a link may stand
	addr  string   // where it listens for TCP
	relay *relay   // where it listens on a socket file alone
	drop  func() error
	stop  func() error
}

// openDatabase makes a schema on a server; empty: the one that tests find.
func openDatabase(base string) (d *database, err error) {
	d = &database{stop: func() error { return nil }}
	if base == "" {
		if base, d.stop, err = roomstest.Find(); err != nil {
			return nil, fmt.Errorf("find PostgreSQL: %w", err)
		}
	}
	dsn, drop, err := roomstest.Schema(base)
	if err != nil {
		return nil, errors.Join(err, d.stop())
	}
	d.drop = drop
	if d.url, err = url.Parse(dsn); err != nil {
		return nil, errors.Join(errors.New("the database's address is not a URL"), d.close()) // the error would quote its password
	}
	q := d.url.Query()
	if socket := q.Get("host"); filepath.IsAbs(socket) {
		if d.relay, err = newRelay(filepath.Join(socket, ".s.PGSQL.5432")); err != nil {
			return nil, errors.Join(err, d.close())
		}
		q.Del("host")
		d.url.RawQuery, d.addr = q.Encode(), d.relay.listener.Addr().String()
		return d, nil
	}
	d.addr = proc.HostPort(d.url)
	return d, nil
}

// through is the database's address where a link begins.
func (d *database) through(addr string) string {
	u := *d.url
	u.Host = addr
	return u.String()
}

func (d *database) close() error {
	err := errors.Join(d.drop(), d.stop())
	if d.relay != nil {
		d.relay.close()
	}
	return err
}

// relay lets a server be reached by TCP that listens on a socket file.
type relay struct {
	socket   string
	listener net.Listener
	wg       sync.WaitGroup
}

func newRelay(socket string) (*relay, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return nil, fmt.Errorf("relay to the database: %w", err)
	}
	r := &relay{socket: socket, listener: ln}
	r.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			r.wg.Go(func() { r.carry(c) })
		}
	})
	return r, nil
}

// carry ends with either side.
func (r *relay) carry(c net.Conn) {
	defer func() { _ = c.Close() }()
	s, err := new(net.Dialer).DialContext(context.Background(), "unix", r.socket)
	if err != nil {
		return
	}
	defer func() { _ = s.Close() }()
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

// close takes no more connections; those that there are end with their programs,
// which have ended.
func (r *relay) close() {
	_ = r.listener.Close()
	r.wg.Wait()
}
