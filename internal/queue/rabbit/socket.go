package rabbit

import (
	"context"
	"fmt"
	"net"
	"strconv"
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
)

// socket is a connection whose every write ends.
type socket struct{ net.Conn }

func (s socket) Write(p []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, fmt.Errorf("set write deadline: %w", err)
	}
	return s.Conn.Write(p)
}

// dial opens an AMQP connection and gives its socket beside it: closing the
// socket ends the connection at once, where closing the connection waits for
// the broker. It heeds ctx to the end of the handshake.
func dial(ctx context.Context, url, name string, heartbeat time.Duration) (*amqp.Connection, net.Conn, error) {
	uri, err := amqp.ParseURI(url)
	if err != nil {
		return nil, nil, fmt.Errorf("parse URL of %s: not valid", address(url))
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	raw, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)))
	if err != nil {
		return nil, nil, fmt.Errorf("dial: %w", err)
	}
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
		Dial:       func(string, string) (net.Conn, error) { return socket{raw}, nil },
	})
	if err != nil {
		_ = raw.Close() // the library leaves it open when the handshake fails
		return nil, nil, fmt.Errorf("handshake: %w", err)
	}
	return conn, raw, nil
}
