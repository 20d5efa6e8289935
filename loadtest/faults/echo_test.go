package faults

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// echo is a server that says again whatever it is told.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); conns.Wait() })
	return ln.Addr().String()
}

// answers reports whether the server answers on a new connection.
func answers(t *testing.T, addr string) bool {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte("x"))
	var b [1]byte
	n, _ := c.Read(b[:])
	return n == 1
}
