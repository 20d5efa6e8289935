package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// connections is how many sends are under way at a time.
const connections = 16

// server is a server process.
type server struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
	addr  string
	seq   atomic.Int64 // numbers the sends, so that no id comes twice
}

func start(ctx context.Context, name string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	s := &server{name: name, cmd: exec.CommandContext(ctx, self, "-serve", name)}
	s.cmd.Stderr = os.Stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start server %s: %w", name, err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start server %s: %w", name, err)
	}
	s.lines = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server %s: %w", name, err)
	}
	if s.addr, err = s.line(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// stop ends the process and waits for it. How it ended does not matter, because
// everything that it measured has been read.
func (s *server) stop() {
	_ = s.stdin.Close()
	_ = s.cmd.Wait()
}

func (s *server) line() (string, error) {
	line, err := s.lines.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read from server %s: %w", s.name, err)
	}
	return strings.TrimSpace(line), nil
}

// used returns the CPU time of the server so far, in µs.
func (s *server) used() (int64, error) {
	if _, err := io.WriteString(s.stdin, "\n"); err != nil {
		return 0, fmt.Errorf("ask server %s: %w", s.name, err)
	}
	line, err := s.line()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(line, 10, 64)
}

// load makes n accepted sends and returns the server's CPU time for one of them,
// in µs.
func (s *server) load(ctx context.Context, n int) (float64, error) {
	before, err := s.used()
	if err != nil {
		return 0, err
	}
	var left atomic.Int64
	left.Store(int64(n))
	senders, ctx := errgroup.WithContext(ctx)
	for range connections {
		senders.Go(func() error { return s.send(ctx, &left) })
	}
	if err := senders.Wait(); err != nil {
		return 0, fmt.Errorf("load server %s: %w", s.name, err)
	}
	after, err := s.used()
	return float64(after-before) / float64(n), err
}

// send makes one send after another on a connection of its own.
func (s *server) send(ctx context.Context, left *atomic.Int64) (err error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	answer := make([]byte, 4096)
	var body, out []byte
	for left.Add(-1) >= 0 {
		body = fmt.Appendf(body[:0],
			`{"recipient":{"id":"1000000000000000042"},"messaging_type":"UPDATE","message":{"text":"Hello everybody","metadata":"1/m_AAAAAAAAAAAAAAAAAAAAAAAAAA/%d"}}`,
			s.seq.Add(1))
		out = fmt.Appendf(out[:0],
			"POST /v23.0/1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(body), body)
		if _, err := c.Write(out); err != nil {
			return err
		}
		n, err := c.Read(answer) // the whole answer: one write of a few hundred bytes
		if err != nil {
			return err
		}
		if got := answer[:n]; !bytes.HasPrefix(got, []byte("HTTP/1.1 200")) || !bytes.Contains(got, []byte(`"message_id":"m_`)) {
			return fmt.Errorf("the send was not accepted: %.300q", got)
		}
	}
	return nil
}
