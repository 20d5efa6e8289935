package link_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"chatclub/loadtest/faults/link"
)

// patience bounds what must happen; a busy machine may take long.
const patience = 30 * time.Second

// peer is a server that answers each line by the same line, and reports when a
// connection of it has ended.
type peer struct {
	net.Listener
	ended chan struct{}
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{ln, make(chan struct{}, 100)}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
				p.ended <- struct{}{}
			}()
		}
	}()
	return p
}

func newLink(t *testing.T, to string) *link.Link {
	t.Helper()
	l, err := link.NewProxies().New(t.Name(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func dial(t *testing.T, l *link.Link) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// echo says a line and waits so long for the answer.
func echo(c net.Conn, wait time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && line != "hello\n" {
		err = errors.New("another answer: " + line)
	}
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A connection that is half open says nothing, and nobody hears that the other
// has hung up, until it heals.
func TestHalfOpenLosesEverything(t *testing.T) {
	p := newPeer(t)
	l := newLink(t, p.Addr().String())
	c := dial(t, l)
	must(t, echo(c, patience))
	must(t, l.HalfOpen())
	const quiet = 300 * time.Millisecond
	for _, c := range []net.Conn{c, dial(t, l)} {
		if err := echo(c, quiet); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("echo on a half-open link = %v, want no answer", err)
		}
		must(t, c.Close())
	}
	select {
	case <-p.ended:
		t.Error("the server heard that a client hung up, want it to hear nothing")
	case <-time.After(quiet):
	}
	must(t, l.Heal())
	for range 2 {
		select {
		case <-p.ended:
		case <-time.After(patience):
			t.Fatal("the server still has a connection after the link healed")
		}
	}
	must(t, echo(dial(t, l), patience))
}

// A cut link ends connections and takes none; one that was reset takes new ones
// at once.
func TestCutAndReset(t *testing.T) {
	l := newLink(t, newPeer(t).Addr().String())
	c := dial(t, l)
	must(t, echo(c, patience))
	must(t, l.Reset())
	if err := echo(c, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("echo on a connection that was reset = %v, want its end", err)
	}
	c = dial(t, l)
	must(t, echo(c, patience))
	must(t, l.Cut())
	if err := echo(c, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("echo on a connection that was cut = %v, want its end", err)
	}
	if c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr()); err == nil {
		c.Close()
		t.Error("a cut link takes connections")
	}
	must(t, l.Heal())
	must(t, echo(dial(t, l), patience))
}

// A slow link takes the time that its rate says, and a late one its delay.
func TestSlowAndDelay(t *testing.T) {
	l := newLink(t, newPeer(t).Addr().String())
	c := dial(t, l)
	must(t, echo(c, patience))
	began := time.Now()
	must(t, l.Delay(100*time.Millisecond, 0))
	must(t, echo(c, patience))
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("there and back took %v, want 200ms at least", took)
	}
	must(t, l.Heal())
	must(t, l.Slow(1))
	began = time.Now()
	for range 50 { // of 6 bytes
		must(t, echo(c, patience))
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("300 bytes there and back took %v, want 300ms at least", took)
	}
}
