package articles

import (
	"math"
	"math/rand/v2"
	"time"

	"chatclub/internal/core"
	"chatclub/loadtest/report"
)

const (
	capacity = 300                     // copies a second that the server, which is a page's limit, takes
	members  = 20                      // copies of a message to a room
	deadline = 5 * time.Second         // after which nobody waits for a message any more
	fresh    = 1800 * time.Millisecond // FRESH_WITHIN, as in the test through core
)

// post is a message to a room, or to one person.
type post struct {
	written            time.Time
	number, room, size int
	crowd              bool // it is of the class that may wait
	served, inTime     int  // copies
	ages               []float64
}

// copied is one copy of a post.
type copied struct {
	*post
	to int
}

// way is a way against overload. The zero value takes everything, first in, first out.
type way struct {
	name  string
	admit func(s *server, p *post) bool  // whether a post is taken, before it is copied
	drop  func(s *server, m copied) bool // whether a copy is dropped when its turn comes
	last  bool                           // the newest copy is served first
	aside bool                           // the crowd stands aside, and gets what conversations leave
}

// server serves copies one after another. To shed costs it nothing.
type server struct {
	*clock
	way
	src      *rand.Rand
	queue    [2][]copied // conversations, and the crowd that stands aside
	busy     bool
	worked   time.Duration
	empty    time.Time // when nothing waited last
	posts    []*post
	newest   map[[2]int]int // of each room's member, the newest post served
	overtook float64        // share of the copies
	onServed func(copied)
	backlog  *core.Backlog // what core knows
	told     int           // copies that waited when core was told last
	toldAt   time.Time

	asks, accepts float64 // of SRE's throttle, fading
	faded         time.Time
}

func newServer(length time.Duration, seed uint64, w way) *server {
	c := newClock(length)
	s := &server{clock: c, way: w, src: random(seed), newest: make(map[[2]int]int), backlog: core.NewBacklog(), empty: c.now, faded: c.now}
	s.onServed = func(copied) {}
	s.every(always(4), steady, s.tell)
	return s
}

// tell tells core what waits, as a dispatcher does: once a second while it waits for half a
// second or more, sooner when it has doubled, and when it does so no longer.
func (s *server) tell() {
	n := len(s.queue[0])
	if n < capacity/2 {
		n = 0
	}
	if n == 0 || n >= 2*s.told || s.now.Sub(s.toldAt) >= time.Second {
		s.backlog.Tell(s.now, s.now, hot, n, capacity)
		s.told, s.toldAt = n, s.now
	}
}

// enter has a post come.
func (s *server) enter(p *post) {
	p.written, p.number, p.room = s.now, len(s.posts), s.src.IntN(30)
	s.posts = append(s.posts, p)
	if s.admit != nil && !s.admit(s, p) {
		return
	}
	q := &s.queue[0]
	if s.aside && p.crowd {
		q = &s.queue[1]
	}
	for i := range p.size {
		*q = append(*q, copied{p, i})
	}
	s.serve()
}

// serve serves the next copy that is not dropped, unless one is being served.
func (s *server) serve() {
	const each = time.Second / capacity
	for !s.busy {
		q := &s.queue[0]
		if len(*q) == 0 {
			q = &s.queue[1]
		}
		n := len(*q) - 1
		if n < 0 {
			s.empty = s.now
			return
		}
		m := (*q)[0]
		if s.last {
			m, *q = (*q)[n], (*q)[:n]
		} else {
			*q = (*q)[1:]
		}
		if s.drop != nil && s.drop(s, m) {
			continue
		}
		s.busy = true
		s.after(each, func() {
			if s.busy = false; s.runs() {
				s.worked += each
			}
			s.settle(m)
			s.serve()
		})
	}
}

// settle notes a copy that was served.
func (s *server) settle(m copied) {
	m.served++
	m.ages = append(m.ages, s.now.Sub(m.written).Seconds())
	if !isLate(s, m) {
		m.inTime++
	}
	key := [2]int{m.room, m.to}
	if s.newest[key] > m.number {
		s.overtook++
	}
	s.newest[key] = max(s.newest[key], m.number)
	s.onServed(m)
}

func isLate(s *server, m copied) bool { return s.now.Sub(m.written) > deadline }

func fifo() way { return way{name: "first in, first out"} }
func ttl() way  { return way{name: "dropped when late", drop: isLate} }
func lifo() way { return way{name: "last in, first out", last: true, drop: isLate} }

// ours is FRESH_WITHIN: core's own rule, which is told what waits.
func ours() way {
	return way{
		name: report.Own, aside: true,
		drop: func(s *server, m copied) bool { return !m.crowd && isLate(s, m) },
		admit: func(s *server, p *post) bool {
			if p.crowd {
				return true
			}
			if s.backlog.IsLate(s.now, p.written, hot, p.size, fresh) {
				return false
			}
			s.backlog.Add(s.now, hot, p.size)
			return true
		},
	}
}

// codel is the form that Facebook published in "Fail at Scale": a copy may wait for long,
// but briefly while the queue has not been empty for long. Its 100 and 5 ms are 20 times as
// long here, where a room alone takes 67 ms.
func codel() way {
	const long, brief = 2 * time.Second, 100 * time.Millisecond
	return way{name: "CoDel", drop: func(s *server, m copied) bool {
		most := long
		if s.now.Sub(s.empty) > long {
			most = brief
		}
		return s.now.Sub(m.written) > most
	}}
}

// sre is the adaptive throttling of the SRE book's chapter 21: a client refuses itself, the
// more often the more the server refuses, which takes a second's work at most. The book's
// two minutes are ten seconds here.
func sre() way {
	const k, window = 2, 10
	return way{name: "SRE, K = 2", admit: func(s *server, _ *post) bool {
		fade := math.Exp(-s.now.Sub(s.faded).Seconds() / window)
		s.asks, s.accepts, s.faded = s.asks*fade, s.accepts*fade, s.now
		refused := (s.asks - k*s.accepts) / (s.asks + 1)
		s.asks++
		if s.src.Float64() < refused || len(s.queue[0]) >= capacity {
			return false
		}
		s.accepts++
		return true
	}}
}

// netflix sheds by priority: a class by the share to which the queue is full between its
// bounds, the crowd from a tenth of a second's work on, conversations from two seconds' on.
func netflix() way {
	return way{name: "Netflix, by priority", drop: isLate, admit: func(s *server, p *post) bool {
		from, to := 2., 4.
		if p.crowd {
			from, to = .1, .5
		}
		return s.src.Float64() >= (float64(len(s.queue[0]))/capacity-from)/(to-from)
	}}
}
