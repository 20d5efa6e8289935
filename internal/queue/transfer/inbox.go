package transfer

import "sync"

// item is a transfer in the mover's hands.
type item struct {
	Transfer

	number   int  // of all transfers, in the order in which they were added
	finished bool // of the inbox's: counted as done
}

// inbox hands transfers to the mover, in order and without ever blocking the
// caller. What the broker lets a consumer hold bounds it. Make one with newInbox.
// Safe for concurrent use.
type inbox struct {
	mu       sync.Mutex
	items    []*item
	added    int // ever
	done     int // of them
	barriers []*barrier
	ending   bool
	more     chan struct{} // one place: set when there is something to see
}

// barrier is a function to call once all transfers up to a number are done.
type barrier struct {
	upTo int
	left int // of them, not done
	call func()
}

func newInbox() *inbox { return &inbox{more: make(chan struct{}, 1)} }

// Add has the mover make a transfer. It does not block.
func (b *inbox) Add(t Transfer) { b.add(&item{Transfer: t}) }

func (b *inbox) add(it *item) {
	b.mu.Lock()
	b.added++
	it.number = b.added
	b.items = append(b.items, it)
	b.mu.Unlock()
	b.signal()
}

// After calls f, which must not block, once all that was added before is done
// or waits for a blocked queue.
func (b *inbox) After(f func()) {
	b.mu.Lock()
	left := b.added - b.done
	if left > 0 {
		b.barriers = append(b.barriers, &barrier{b.added, left, f})
	}
	b.mu.Unlock()
	if left == 0 {
		f()
	}
}

// finish counts transfers that were taken as done, in whatever order. One that
// was counted before does not count again.
func (b *inbox) finish(items ...*item) {
	var calls []func()
	b.mu.Lock()
	for _, it := range items {
		if it.finished {
			continue
		}
		it.finished = true
		b.done++
		for _, a := range b.barriers {
			if it.number <= a.upTo {
				a.left--
			}
		}
	}
	waiting := b.barriers[:0]
	for _, a := range b.barriers {
		if a.left == 0 {
			calls = append(calls, a.call)
		} else {
			waiting = append(waiting, a)
		}
	}
	clear(b.barriers[len(waiting):])
	b.barriers = waiting
	b.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// End makes the mover's Run return once everything that was added is done.
func (b *inbox) End() {
	b.mu.Lock()
	b.ending = true
	b.mu.Unlock()
	b.signal()
}

func (b *inbox) signal() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// take returns at most limit transfers, waiting for at least one; nil at the end.
func (b *inbox) take(limit int) []*item {
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
