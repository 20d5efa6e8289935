// Package excess is the excess map: it answers whether a message of a page may
// be sent now, from nothing but the refusals that this replica saw itself.
//
// Algorithm. A page that is not in the map is free: its messages are sent at
// once. A refusal puts the page into the map with a counter of its refused and
// not yet sent messages. While the page is in the map no further message of it
// may be sent: the caller gives them back to the queue. The refused messages
// themselves are tried again, each after a short pause, until the API takes
// them; each that leaves counts the page down, and at zero the page leaves the
// map and is free again. This is the algorithm that ChatClub published; every
// replica runs it alone, and the limit itself is never configured.
//
// Counters cannot leak: Enter returns a Pass, the Pass holds at most one
// count, and Leave, which may be called any number of times, gives it back.
// An entry exists only while its counter is above zero, so an idle page costs
// nothing.
//
// What it does not bound: calls in flight when the first refusal arrives are
// refused too, and each of them becomes a prober of its own.
package excess

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Pause is the mean time between a refusal and the next try of the same
// message: short against the one-second window of the published limit, long
// against a call's round trip, so that one refused message costs at most ten
// more refusals per window.
const Pause = 100 * time.Millisecond

// Key names what the platform counts sends by: a page and a quota class.
type Key struct {
	Page  string
	Class string
}

// Map is the pages in excess. Make one with New. Safe for concurrent use.
type Map struct {
	random func() float64 // [0, 1)

	mu    sync.Mutex
	pages map[Key]int // refused and not yet sent; never zero
}

// New returns an empty map. random spreads the pauses of messages that were
// refused together; nil means math/rand. It must be safe for concurrent use.
func New(random func() float64) *Map {
	if random == nil {
		random = rand.Float64
	}
	return &Map{random: random, pages: make(map[Key]int)}
}

// Enter asks whether a message of k may be sent now. When it may, the caller
// must Leave the returned Pass once the message is settled; when not, the
// Pass is nil and the message is to be given back.
func (m *Map) Enter(k Key) (*Pass, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pages[k] > 0 {
		return nil, false
	}
	return &Pass{m: m, key: k}, true
}

// Len is the number of pages in excess.
func (m *Map) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pages)
}

// Pass is the leave to send one message, as often as it is refused. The zero
// value is not useful. Safe for concurrent use.
type Pass struct {
	m   *Map
	key Key

	counted bool // guarded by m.mu
	left    bool // guarded by m.mu
}

// Refused tells that the API refused the message: the page is in excess. It
// returns how long to wait before the next try: Pause ± 50 %.
func (p *Pass) Refused() time.Duration {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if !p.counted && !p.left {
		p.counted = true
		p.m.pages[p.key]++
	}
	return time.Duration((0.5 + p.m.random()) * float64(Pause))
}

// Leave ends the pass: the message was sent or settled another way.
func (p *Pass) Leave() {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.left {
		return
	}
	p.left = true
	if !p.counted {
		return
	}
	if p.m.pages[p.key]--; p.m.pages[p.key] == 0 {
		delete(p.m.pages, p.key)
	}
}
