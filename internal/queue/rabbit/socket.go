package rabbit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// dialTimeout bounds connecting and, separately, each read of the
	// handshake. A broker further away than this is of no use.
	dialTimeout = 5 * time.Second
	// writeTimeout bounds every write. A broker under a memory or disk alarm
	// stops reading; without the bound, publishing and closing would wait for
	// it for ever and heed no context.
	writeTimeout = 5 * time.Second
	// maxHeld bounds one write, at what gains nothing more.
	maxHeld = 64 << 10
)

// socket is a connection whose every write ends.
type socket struct {
	net.Conn

	// mu is held during a write: nothing else may come between what was held
	// back and what follows it.
	mu    sync.Mutex
	holds int // calls of together that run
	held  []byte
}

// Write implements net.Conn. While together runs it only takes p in.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds > 0 && len(s.held)+len(p) <= maxHeld {
		s.held = append(s.held, p...)
		return len(p), nil
	}
	if len(s.held) > 0 {
		if err := s.releaseLocked(); err != nil {
			return 0, err
		}
	}
	return s.writeLocked(p)
}

// releaseLocked writes what was held back. A failure ends the connection,
// because those who wrote it were told that all went well.
func (s *socket) releaseLocked() error {
	_, err := s.writeLocked(s.held)
	s.held = s.held[:0]
	if err != nil {
		_ = s.Close()
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func (s *socket) writeLocked(p []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, fmt.Errorf("set write deadline: %w", err)
	}
	return s.Conn.Write(p)
}

// together makes one write of all that f writes, and of what others write
// meanwhile: the AMQP library writes each frame by itself, and a system call
// costs more than the making of a frame. One within another ends with that.
func (s *socket) together(f func() error) error {
	s.mu.Lock()
	s.holds++
	s.mu.Unlock()
	err := f()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds--; s.holds > 0 || len(s.held) == 0 {
		return err
	}
	return errors.Join(err, s.releaseLocked())
}

// dial opens an AMQP connection and gives its socket beside it: closing the
// socket ends the connection at once, where closing the connection waits for
// the broker. It heeds ctx to the end of the handshake.
func dial(ctx context.Context, url, name string, heartbeat time.Duration) (*amqp.Connection, *socket, error) {
	uri, err := amqp.ParseURI(url)
	if err != nil {
		return nil, nil, fmt.Errorf("parse URL of %s: not valid", address(url))
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	tcp, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)))
	if err != nil {
		return nil, nil, fmt.Errorf("dial: %w", err)
	}
	raw := &socket{Conn: tcp}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	// Cleared by the library when the handshake is over.
	if err := raw.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		_ = raw.Close()
		return nil, nil, fmt.Errorf("set handshake deadline: %w", err)
	}
	properties := amqp.NewConnectionProperties()
	properties["connection_name"] = name
	conn, err := amqp.DialConfig(url, amqp.Config{
		Heartbeat:  heartbeat,
		Properties: properties,
		Dial:       func(string, string) (net.Conn, error) { return raw, nil },
	})
	if err != nil {
		_ = raw.Close() // the library leaves it open when the handshake fails
		return nil, nil, fmt.Errorf("handshake: %w", explain(err))
	}
	if err := checkVersion(conn.Properties); err != nil {
		_ = conn.CloseDeadline(time.Now().Add(closeTimeout)) // it is of no use either way
		return nil, nil, err
	}
	return conn, raw, nil
}
