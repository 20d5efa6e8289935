package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"

	"chatclub/internal/rooms/roomstest"
	"chatclub/loadtest/peer"
	"chatclub/tools/private"
)

// Servers are those that strategies and peers need beside a broker: each is started
// when it is first asked for, and serves all runs. The zero value has none. Not safe for
// concurrent use.
type Servers struct {
	urls  map[peer.Server]string
	stops []func() error
}

// URL returns a server's address. The error says in a line why there is none.
func (s *Servers) URL(ctx context.Context, kind peer.Server) (url string, err error) {
	if url, ok := s.urls[kind]; ok {
		return url, nil
	}
	start := startRedis
	if kind == peer.PostgreSQL {
		start = func(context.Context) (string, func() error, error) { return roomstest.Find() } //nolint:contextcheck // it has time-outs
	}
	url, stop, err := start(ctx)
	if err != nil {
		return "", fmt.Errorf("it needs %s: %w", kind, err)
	}
	if s.urls == nil {
		s.urls = make(map[peer.Server]string)
	}
	s.urls[kind], s.stops = url, append(s.stops, stop)
	return url, nil
}

// Close ends those that were started.
func (s *Servers) Close() error {
	var faults []error
	for _, stop := range s.stops {
		faults = append(faults, stop())
	}
	return errors.Join(faults...)
}

// startRedis starts a Redis with the settings that the makers of queues advise.
func startRedis(ctx context.Context) (url string, stop func() error, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, errors.New("redis-server is not installed")
	}
	ports, err := private.Ports(1)
	if err != nil {
		return "", nil, err
	}
	g, err := NewGroup()
	if err != nil {
		return "", nil, err
	}
	number := strconv.Itoa(ports[0])
	p := g.Command("redis", func() *exec.Cmd {
		return exec.Command(path, "--bind", "127.0.0.1", "--port", number, "--dir", g.Dir, //nolint:noctx // found on the PATH; it outlives the call
			"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction")
	})
	p.Alive = func(ctx context.Context) error { return Listens(ctx, ports[0]) }
	return "redis://127.0.0.1:" + number + "/0", func() error { return g.Close(false) }, p.Start(ctx)
}

// Listens returns nil when something listens at a port of this machine.
func Listens(ctx context.Context, port int) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return c.Close()
}
