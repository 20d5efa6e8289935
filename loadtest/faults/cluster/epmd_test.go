package cluster

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"testing"
)

// request sends one of epmd's requests and returns the connection.
func request(t *testing.T, m *mapper, body []byte) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", m.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask returns the whole answer to a request that epmd ends.
func ask(t *testing.T, m *mapper, body string) []byte {
	t.Helper()
	b, err := io.ReadAll(request(t, m, []byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// newMappers are of two nodes with a link from a to b.
func newMappers(t *testing.T) (a, b *mapper) {
	t.Helper()
	r := &registry{nodes: make(map[string]alive), way: func(from, to string) string {
		if from == "a" && to == "b" {
			return "127.0.0.1:4001"
		}
		return ""
	}}
	var err error
	if a, err = newMapper("a", r); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	if b, err = newMapper("b", r); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return a, b
}

// aliveB is node b's registration: port 4000, a node of version 6, nothing extra.
var aliveB = []byte{120, 0x0f, 0xa0, 77, 0, 0, 6, 0, 5, 0, 1, 'b', 0, 0}

// A node that has registered is found where it listens, and by the others behind
// their link. When its connection has ended it is gone.
func TestMapperSendsByTheLink(t *testing.T) {
	t.Parallel()
	a, b := newMappers(t)
	if got := ask(t, a, "zb"); !bytes.Equal(got, []byte{119, 1}) {
		t.Errorf("port of a node that is not there = %v, want 119 1", got)
	}
	c := request(t, b, aliveB)
	var answer [6]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil || answer[0] != 118 || answer[1] != 0 {
		t.Fatalf("answer to a registration = %v, %v, want 118 0 and a creation", answer, err)
	}
	if creation := binary.BigEndian.Uint32(answer[2:]); creation < 4 {
		t.Errorf("creation = %d, want 4 at least", creation)
	}
	for m, port := range map[*mapper]uint16{a: 4001, b: 4000} {
		got := ask(t, m, "zb")
		want := append(binary.BigEndian.AppendUint16([]byte{119, 0}, port), 77, 0, 0, 6, 0, 5, 0, 1, 'b', 0, 0)
		if !bytes.Equal(got, want) {
			t.Errorf("port of b for %s = %v, want %v", m.node, got, want)
		}
	}
	names := append(binary.BigEndian.AppendUint32(nil, uint32(a.port())), "name b at port 4000\n"...)
	if got := ask(t, a, "n"); !bytes.Equal(got, names) {
		t.Errorf("names = %q, want %q", got, names)
	}
	second := request(t, a, aliveB)
	if _, err := io.ReadFull(second, answer[:4]); err != nil || answer[0] != 121 || answer[1] == 0 {
		t.Errorf("answer to a second node of the name = %v, %v, want 121 and an error", answer[:4], err)
	}
	c.Close()
	for len(ask(t, a, "zb")) != 2 { // until the mapper has seen it
		t.Context()
	}
}

// A node of an earlier version is told a creation of two bytes.
func TestMapperKnowsOldNodes(t *testing.T) {
	t.Parallel()
	_, b := newMappers(t)
	old := bytes.Clone(aliveB)
	old[6] = 5
	var answer [4]byte
	if _, err := io.ReadFull(request(t, b, old), answer[:]); err != nil || answer[0] != 121 || answer[1] != 0 {
		t.Errorf("answer = %v, %v, want 121 0 and a creation", answer, err)
	}
}

// What is no registration is refused, and nothing panics.
func FuzzParseAlive(f *testing.F) {
	f.Add(aliveB[1:])
	f.Fuzz(func(t *testing.T, b []byte) {
		name, a, ok := parseAlive(b)
		if ok && (len(name)+len(a.extra)+12 > len(b)) {
			t.Errorf("parseAlive(%v) = %q, %+v: more than there was", b, name, a)
		}
	})
}

// The version is read out of a server's first frame; what is none is an error.
func TestHello(t *testing.T) {
	t.Parallel()
	field := "\x07versionS\x00\x00\x00\x063.10.8"
	for text, want := range map[string]string{
		"\x00\x0a\x00\x0a" + field + "\x00":       "3.10.8",
		"\x00\x0a\x07versionS\x00\x00\xff\xff3.1": "",
		"nothing": "",
	} {
		ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer ln.Close()
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.ReadFull(c, make([]byte, 8))
			_, _ = c.Write(append(binary.BigEndian.AppendUint32([]byte{1, 0, 0}, uint32(len(text))), text...))
		}()
		got, err := hello(t.Context(), ln.Addr().String())
		if got != want || (err == nil) != (want != "") {
			t.Errorf("hello(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	if port, ok := portOf("127.0.0.1:" + strconv.Itoa(5672)); port != 5672 || !ok {
		t.Errorf("portOf = %d, %v, want 5672", port, ok)
	}
}
