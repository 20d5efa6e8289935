package fakeapi

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// idleTimeout is longer than any client keeps a connection that it means
	// to use again (net/http: 90 s).
	idleTimeout = 2 * time.Minute

	// closeAfter is for the answers being written when the server stops.
	closeAfter = 500 * time.Millisecond
	closePoll  = 10 * time.Millisecond
)

// connections are the open connections of one server, each with a goroutine.
// fasthttp's own pool of workers is not used, because a part of it lives on
// for 10 s after the server has stopped.
type connections struct {
	sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	ended bool
}

// accept serves every connection of ln until ln is closed. While Faults.Refuse
// is on, or before Faults.RefuseUntil, new connections are reset at once: the system accepts them first,
// because a listener cannot refuse and stay open.
func (a *API) accept(ln net.Listener, srv *fasthttp.Server, conns *connections) error {
	for {
		c, err := ln.Accept()
		switch {
		case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED):
			time.Sleep(closePoll) // it passes when another connection is closed
			continue
		case err != nil:
			return err
		}
		if a.live.Load().Faults.refusing(a.now()) || !conns.add(c) {
			reset(c)
			continue
		}
		conns.Go(func() {
			defer conns.remove(c)
			_ = srv.ServeConn(c) // its errors are clients that went away; it closes c
		})
	}
}

// add is false when the server has stopped.
func (s *connections) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.open[c] = struct{}{}
	return true
}

func (s *connections) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// each calls f with every open connection and returns how many there are.
func (s *connections) each(f func(net.Conn)) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for c := range s.open {
		f(c)
	}
	return len(s.open)
}

// end ends every connection: idle ones at once, those with an answer under way
// when it is written, at most after closeAfter. All goroutines have ended when
// it returns.
func (s *connections) end() {
	// The deadline ends the wait for a next request. It is set again and again
	// because fasthttp sets one of its own before each wait.
	for deadline := time.Now().Add(closeAfter); time.Now().Before(deadline); time.Sleep(closePoll) {
		if s.each(func(c net.Conn) { _ = c.SetReadDeadline(time.Unix(1, 0)) }) == 0 {
			break
		}
	}
	s.each(func(c net.Conn) { _ = c.Close() })
	s.Wait()
}

// reset closes a connection so that the other side reads "connection reset".
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // without it the other side reads an end of file: lost all the same
	}
	_ = c.Close() // nothing is left to do about it
}
