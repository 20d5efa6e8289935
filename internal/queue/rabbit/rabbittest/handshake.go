package rabbittest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// Handshake returns the URL of something that answers what begins and ends a connection
// of AMQP 0-9-1, as a RabbitMQ of a version does, and nothing else.
func Handshake(t testing.TB, version string) (amqpURL string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	clients.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			clients.Go(func() {
				shakeHands(c, version)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		clients.Wait()
	})
	return "amqp://guest:guest@" + l.Addr().String() + "/"
}

// shakeHands talks to one client until it leaves.
func shakeHands(c net.Conn, version string) {
	long := func(s string) string { return string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s } //nolint:gosec // some bytes
	say := func(method byte, arguments string) {
		frame := "\x01\x00\x00" + long("\x00\x0a\x00"+string(method)+arguments) + "\xce"
		_, _ = io.WriteString(c, frame) // the next read fails, too
	}
	const start, startOK, tune, open, openOK, closing, closeOK = 10, 11, 30, 40, 41, 50, 51
	var protocol [8]byte
	if _, err := io.ReadFull(c, protocol[:]); err != nil {
		return
	}
	say(start, "\x00\x09"+long("\x07versionS"+long(version))+long("PLAIN")+long("en_US"))
	for {
		var head [7]byte // type, channel, size
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1) // and the frame's end
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		switch {
		case len(payload) < 4 || payload[1] != 10: // no word about the connection
		case payload[3] == startOK:
			say(tune, "\x07\xff\x00\x02\x00\x00\x00\x00") // channels, size of a frame, heartbeat
		case payload[3] == open:
			say(openOK, "\x00")
		case payload[3] == closing:
			say(closeOK, "")
			return
		}
	}
}
