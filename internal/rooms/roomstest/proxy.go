package roomstest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"

	"chatclub/tools/private"
	"chatclub/tools/wire"
)

// Proxy stands between programs and their database, so that the connections can be
// cut without touching a server that others use. By it a server is reached by TCP
// that listens on a socket file alone. Make one with NewProxy. Safe for concurrent
// use.
type Proxy struct {
	wire *wire.Wire
	url  *url.URL // of the database, through the proxy
}

// NewProxy opens a way to the database of a URL. The caller closes it.
func NewProxy(dsn string) (*Proxy, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("the address of PostgreSQL is not a URL") // the error would quote its password
	}
	network, target := "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "5432"))
	if socket := Socket(u); socket != "" {
		network, target = "unix", socket
		q := u.Query()
		q.Del("host")
		u.RawQuery = q.Encode()
	}
	ports, err := private.Ports(1)
	if err != nil {
		return nil, err
	}
	u.Host = fmt.Sprintf("127.0.0.1:%d", ports[0])
	w, err := wire.New(u.Host, network, target)
	if err != nil {
		return nil, err
	}
	return &Proxy{w, u}, nil
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
func (p *Proxy) Cut() { p.wire.Down() }

// Mend takes connections again.
func (p *Proxy) Mend() error { return p.wire.Up() }

// Close is Cut, and returns when nothing of the proxy is left.
func (p *Proxy) Close() { p.wire.Close() }
