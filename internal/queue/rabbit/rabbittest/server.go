package rabbittest

import (
	"context"
	"errors"
	"os"
	"testing"
)

// Server is a broker that belongs to one test, for tests that stop, kill or
// upset it. It is found as others are, whatever AMQP_URL says.
type Server struct {
	URL string // the same after a restart

	t testing.TB
	i instance
}

// Start starts a server and removes it when the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	if reason := os.Getenv(NoBroker); reason != "" {
		t.Fatal(reason)
	}
	ctx, cancel := context.WithTimeout(context.Background(), findTimeout)
	defer cancel()
	i, err := launch(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeQuietly(i) })
	return &Server{URL: i.url(), t: t, i: i}
}

// Stop ends the server in order. Its queues are there again after Restart.
func (s *Server) Stop() {
	s.t.Helper()
	s.must("stop", s.i.stop)
}

// Kill ends the server at once, as a loss of power would.
func (s *Server) Kill() {
	s.t.Helper()
	s.must("kill", s.i.kill)
}

// Restart starts the server again, after Stop or Kill or without, and returns
// when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.must("stop", s.i.stop)
	s.must("start", s.i.start)
}

// Ctl runs rabbitmqctl and returns what it printed.
func (s *Server) Ctl(args ...string) string {
	s.t.Helper()
	var out string
	s.must("rabbitmqctl", func(ctx context.Context) (err error) {
		out, err = s.i.ctl(ctx, args...)
		return err
	})
	return out
}

func (s *Server) must(what string, do func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootTimeout)
	defer cancel()
	if err := do(ctx); err != nil && !errors.Is(err, errNotRunning) {
		s.t.Fatalf("%s the private broker: %v", what, err)
	}
}

// errNotRunning says that there is nothing to stop.
var errNotRunning = errors.New("not running")
