package fakeapi

import (
	"net"
	"sync"
	"time"
)

const (
	// closeAfter is for the answers being written when the server stops.
	closeAfter = 500 * time.Millisecond
	closePoll  = 10 * time.Millisecond
)

// connections are the open connections of one server, each with a goroutine. The
// pool of workers that fasthttp has is not used, because a part of it lives on
// for 10 s after the server has stopped. The zero value has none.
type connections struct {
	sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	ended bool
}

// add adds a connection. It returns false when the server has stopped.
func (s *connections) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	if s.open == nil {
		s.open = make(map[net.Conn]struct{})
	}
	s.open[c] = struct{}{}
	return true
}

func (s *connections) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// stop lets no more connections be added.
func (s *connections) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// each calls f with every open connection and returns how many there are.
func (s *connections) each(f func(net.Conn)) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		f(c)
	}
	return len(s.open)
}

// end ends every connection: idle ones at once, those with an answer under way
// when it is written, at most after closeAfter. All goroutines have ended when
// it returns.
func (s *connections) end() {
	s.stop()
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
		_ = t.SetLinger(0) // if it fails the other side reads an end of file: the answer is lost all the same
	}
	_ = c.Close() // nothing is left to do about an error
}
