package cluster

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
)

// registry knows where each node listens for other nodes, as Erlang's port mapper
// (epmd) does. Every node has a mapper of its own, which sends it to another node
// by a link: so the network between two nodes can be made to fail.
type registry struct {
	way func(from, to string) string // the address of the link between two nodes; "" without one

	mu    sync.Mutex
	nodes map[string]alive // by name, while their connection to a mapper is open
}

// alive is what a node says of itself. Its fields are those of epmd's protocol
// (Erlang, "Distribution Protocol").
type alive struct {
	port            uint16
	kind, protocol  byte
	highest, lowest uint16
	extra           []byte
}

// Requests and answers of epmd's protocol.
const (
	aliveRequest    = 120 // a node says where it listens
	aliveAnswer     = 121
	aliveAnswerLong = 118 // with four bytes of creation, for nodes of version 6
	portRequest     = 122 // where does a node listen?
	portAnswer      = 119
	namesRequest    = 110 // which nodes are there?
	distribution6   = 6
)

// mapper is one node's.
type mapper struct {
	node string
	*registry
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newMapper(node string, r *registry) (*mapper, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return nil, fmt.Errorf("map ports of %s: %w", node, err)
	}
	m := &mapper{node: node, registry: r, listener: ln, conns: make(map[net.Conn]struct{})}
	m.serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			m.conns[c] = struct{}{}
			m.mu.Unlock()
			m.serving.Go(func() {
				_ = m.serve(c) // a client that hung up, or that speaks otherwise
				_ = c.Close()
				m.mu.Lock()
				delete(m.conns, c)
				m.mu.Unlock()
			})
		}
	})
	return m, nil
}

func (m *mapper) port() int { return m.listener.Addr().(*net.TCPAddr).Port }

func (m *mapper) close() {
	_ = m.listener.Close()
	m.mu.Lock()
	for c := range m.conns {
		_ = c.Close()
	}
	m.mu.Unlock()
	m.serving.Wait()
}

// serve answers one request. A registration lasts as long as its connection.
func (m *mapper) serve(c net.Conn) error {
	in := bufio.NewReader(c)
	var size [2]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return err
	}
	request := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(in, request); err != nil || len(request) == 0 {
		return err
	}
	switch body := request[1:]; request[0] {
	case aliveRequest:
		name, node, ok := parseAlive(body)
		if !ok || !m.register(name, node) {
			_, err := c.Write([]byte{aliveAnswer, 1, 0, 0})
			return err
		}
		defer m.forget(name)
		if _, err := c.Write(node.answer()); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, in)
		return err
	case portRequest:
		_, err := c.Write(m.where(string(body)))
		return err
	case namesRequest:
		_, err := c.Write(m.names())
		return err
	}
	return nil
}

// parseAlive reads a node's registration.
func parseAlive(b []byte) (name string, a alive, ok bool) {
	const fixed = 10 // up to the name's length
	if len(b) < fixed {
		return "", a, false
	}
	a = alive{
		port: binary.BigEndian.Uint16(b), kind: b[2], protocol: b[3],
		highest: binary.BigEndian.Uint16(b[4:]), lowest: binary.BigEndian.Uint16(b[6:]),
	}
	n := int(binary.BigEndian.Uint16(b[8:]))
	if len(b) < fixed+n+2 {
		return "", a, false
	}
	name, b = string(b[fixed:fixed+n]), b[fixed+n:]
	if n = int(binary.BigEndian.Uint16(b)); len(b) < 2+n {
		return "", a, false
	}
	a.extra = b[2 : 2+n]
	return name, a, true
}

// answer tells a node that it is registered, and a number of this life of it.
func (a alive) answer() []byte {
	creation := 4 + rand.Uint32N(1<<31) // 0 to 3 have a meaning of their own
	if a.highest >= distribution6 {
		return binary.BigEndian.AppendUint32([]byte{aliveAnswerLong, 0}, creation)
	}
	return []byte{aliveAnswer, 0, 0, byte(1 + creation%3)}
}

// register reports whether the name was free.
func (r *registry) register(name string, a alive) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.nodes[name]; taken {
		return false
	}
	r.nodes[name] = a
	return true
}

func (r *registry) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.nodes, name)
}

// where answers where a node listens for this one: behind their link.
func (m *mapper) where(name string) []byte {
	m.registry.mu.Lock()
	a, ok := m.nodes[name]
	m.registry.mu.Unlock()
	if !ok {
		return []byte{portAnswer, 1}
	}
	if address := m.way(m.node, name); address != "" {
		if a.port, ok = portOf(address); !ok {
			return []byte{portAnswer, 1}
		}
	}
	b := binary.BigEndian.AppendUint16([]byte{portAnswer, 0}, a.port)
	b = append(b, a.kind, a.protocol)
	b = binary.BigEndian.AppendUint16(b, a.highest)
	b = binary.BigEndian.AppendUint16(b, a.lowest)
	b = binary.BigEndian.AppendUint16(b, uint16(len(name))) //nolint:gosec // it came with a length of 16 bits
	b = append(b, name...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(a.extra))) //nolint:gosec // as before
	return append(b, a.extra...)
}

// names lists the nodes.
func (m *mapper) names() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(m.port())) //nolint:gosec // a port
	m.registry.mu.Lock()
	defer m.registry.mu.Unlock()
	for name, a := range m.nodes {
		b = fmt.Appendf(b, "name %s at port %d\n", name, a.port)
	}
	return b
}

func portOf(address string) (uint16, bool) {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return 0, false
	}
	return uint16(a.Port), true //nolint:gosec // a port
}
