package deployment

import (
	"errors"
	"fmt"
	"net/url"

	"chatclub/internal/rooms/roomstest"
	"chatclub/loadtest/proc"
)

// database is a PostgreSQL's empty schema.
type database struct {
	url   *url.URL         // through addr's place a link may stand
	addr  string           // where it listens for TCP
	proxy *roomstest.Proxy // of one that listens on a socket file alone
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
	if roomstest.Socket(d.url) != "" {
		if d.proxy, err = roomstest.NewProxy(dsn); err == nil {
			d.url, err = url.Parse(d.proxy.URL())
		}
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
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
	if d.proxy != nil {
		d.proxy.Close()
	}
	return err
}
