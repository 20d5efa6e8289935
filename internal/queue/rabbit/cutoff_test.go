package rabbit_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// minority is a way to a broker that can behave as a node which is cut off from the
// others: it answers heartbeats, and questions about the state of a queue, but
// basic.get gets no answer, because most nodes of the queue must agree on it.
type minority struct {
	url        string
	cutOff     atomic.Bool
	unanswered atomic.Int64 // basic.get that were not answered
	ways       sync.WaitGroup
}

func newMinority(t *testing.T, amqpURL string) *minority {
	t.Helper()
	u, err := url.Parse(amqpURL)
	if err != nil {
		t.Fatal("the broker's address is not a URL")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	u.Host = l.Addr().String()
	m := &minority{url: u.String()}
	m.ways.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			m.ways.Go(func() { m.serve(client, server) })
		}
	})
	t.Cleanup(func() { // the broker, which was opened later, has closed its connections
		_ = l.Close()
		m.ways.Wait()
	})
	return m
}

// serve passes on what both sides of a connection say, until either ends it.
func (m *minority) serve(client net.Conn, server string) {
	defer client.Close()
	conn, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer conn.Close()
	m.ways.Go(func() {
		defer client.Close()
		_, _ = io.Copy(client, conn)
	})
	_ = m.pass(conn, client)
}

// pass passes on what the client says, frame by frame, but for its basic.get while
// the node is cut off.
func (m *minority) pass(to io.Writer, from io.Reader) error {
	if _, err := io.CopyN(to, from, int64(len("AMQP")+4)); err != nil { // the protocol's header
		return err
	}
	const methodFrame, basicClass, getMethod = 1, 60, 70
	for {
		head := make([]byte, 7) // type, channel, size
		if _, err := io.ReadFull(from, head); err != nil {
			return err
		}
		frame := make([]byte, len(head)+int(binary.BigEndian.Uint32(head[3:]))+1) // and the frame's end
		copy(frame, head)
		payload := frame[len(head):]
		if _, err := io.ReadFull(from, payload); err != nil {
			return err
		}
		isGet := head[0] == methodFrame && len(payload) > 4 &&
			binary.BigEndian.Uint16(payload) == basicClass && binary.BigEndian.Uint16(payload[2:]) == getMethod
		if isGet && m.cutOff.Load() {
			m.unanswered.Add(1)
			continue
		}
		if _, err := to.Write(frame); err != nil {
			return err
		}
	}
}

// A node that is cut off from the others is silent, although it answers whatever
// needs no majority, such as a passive declare.
func TestCutOffNodeIsSilent(t *testing.T) {
	t.Parallel()
	node := newMinority(t, rabbittest.URL(t))
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 1}
	b := open(t, rabbit.Config{URLs: []string{node.url}, Topology: top})
	awaitReady(t, b)
	if b.IsSilent() {
		t.Error("IsSilent() = true of a node that answers all, want false")
	}
	node.cutOff.Store(true)
	eventually(t, "the node is silent, and the broker not ready", func() (string, bool) {
		if err := b.Ready(); err == nil || !b.IsSilent() {
			return "it is ready, or not silent", false
		}
		return "", true
	})
	if node.unanswered.Load() == 0 {
		t.Error("no basic.get was left without an answer: nothing is tested")
	}
	node.cutOff.Store(false)
	awaitReady(t, b)
}
