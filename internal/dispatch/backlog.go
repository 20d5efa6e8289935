package dispatch

import (
	"sync"

	"chatclub/internal/queue"
)

// move is a message that goes to another queue; done is called once it has.
type move struct {
	queue.Transfer
	done func()

	number   int  // of all moves, in the order in which they were added
	finished bool // of the backlog's: counted as done
}

// backlog hands moves from the engine to the mover, in order and without ever
// blocking the engine. It is bounded by what the broker lets a dispatcher hold.
// Make one with newBacklog. Safe for concurrent use.
type backlog struct {
	mu     sync.Mutex
	items  []*move
	added  int // ever
	done   int // of them
	afters []*after
	ending bool
	more   chan struct{} // one place: set when there is something to see
}

// after is what is called once all moves up to a number are done.
type after struct {
	upTo int
	left int // of them, not done
	call func()
}

func newBacklog() *backlog { return &backlog{more: make(chan struct{}, 1)} }

func (b *backlog) add(m *move) {
	b.mu.Lock()
	b.added++
	m.number = b.added
	b.items = append(b.items, m)
	b.mu.Unlock()
	b.signal()
}

// after calls f, which must not block, once all that was added before is done.
func (b *backlog) after(f func()) {
	b.mu.Lock()
	left := b.added - b.done
	if left > 0 {
		b.afters = append(b.afters, &after{b.added, left, f})
	}
	b.mu.Unlock()
	if left == 0 {
		f()
	}
}

// finish tells that moves that were taken are done, in whatever order; those
// of which it was told before do not count.
func (b *backlog) finish(moves ...*move) {
	var calls []func()
	b.mu.Lock()
	for _, m := range moves {
		if m.finished {
			continue
		}
		m.finished = true
		b.done++
		for _, a := range b.afters {
			if m.number <= a.upTo {
				a.left--
			}
		}
	}
	waiting := b.afters[:0]
	for _, a := range b.afters {
		if a.left == 0 {
			calls = append(calls, a.call)
		} else {
			waiting = append(waiting, a)
		}
	}
	clear(b.afters[len(waiting):])
	b.afters = waiting
	b.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// end makes take return nil once everything was taken.
func (b *backlog) end() {
	b.mu.Lock()
	b.ending = true
	b.mu.Unlock()
	b.signal()
}

func (b *backlog) signal() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// take returns at most limit moves, waiting for at least one; nil at the end.
func (b *backlog) take(limit int) []*move {
	for {
		b.mu.Lock()
		n := min(limit, len(b.items))
		items, ending := b.items[:n:n], b.ending
		if b.items = b.items[n:]; len(b.items) == 0 {
			b.items = nil
		}
		left := len(b.items) > 0
		b.mu.Unlock()
		if n > 0 {
			if left {
				b.signal()
			}
			return items
		}
		if ending {
			return nil
		}
		<-b.more
	}
}
