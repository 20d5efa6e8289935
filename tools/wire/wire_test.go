package wire_test

import (
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chatclub/tools/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is the address of a server that repeats its input.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// answers says something on a connection, and returns how long the echo took; 0: none
// came within a second.
func answers(c net.Conn) time.Duration {
	began := time.Now()
	if c == nil || c.SetDeadline(began.Add(time.Second)) != nil {
		return 0
	}
	_, _ = c.Write([]byte("x"))
	var b [1]byte
	if n, _ := c.Read(b[:]); n == 0 {
		return 0
	}
	return time.Since(began)
}

// A wire's fault shows on a new connection and on an old one; healed it
// is whole, and a connection that was half open has ended.
func TestWire(t *testing.T) {
	t.Parallel()
	w, err := wire.New("127.0.0.1:0", "tcp", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", w.Addr)
		if err != nil {
			return nil
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	heal := func() {
		if err := w.Heal(); err != nil {
			t.Fatal(err)
		}
	}
	const late = 100 * time.Millisecond
	before := dial()
	for _, tc := range []struct {
		name     string
		do       func()
		new, old bool // whether an echo comes on a new connection, and on that of before
		least    time.Duration
	}{
		{"untouched", func() {}, true, true, 0},
		{"late", func() { w.SetDelay(late) }, true, true, 2 * late},
		{"in time", heal, true, true, 0},
		{"half open", func() { w.SetDeaf(true) }, false, false, 0},
		{"healed", heal, true, false, 0},
		{"down", w.Down, false, false, 0},
		{"up", heal, true, false, 0},
	} {
		tc.do()
		if got := answers(dial()); got > 0 != tc.new || got > 0 && got < tc.least {
			t.Errorf("%s: an echo on a new connection after %v, want one: %t, after %v at least", tc.name, got, tc.new, tc.least)
		}
		if got := answers(before); got > 0 != tc.old {
			t.Errorf("%s: an echo on a connection of before after %v, want one: %t", tc.name, got, tc.old)
		}
	}
}

// A port that a program still holds, which is just being started, is waited for.
func TestHeldPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = l.Close() })
	w, err := wire.New(l.Addr().String(), "tcp", echo(t))
	if err != nil {
		t.Fatalf("New() = %v, want nil once the port is free", err)
	}
	w.Close()
}
