package flow

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// cell is the finest time that calls are counted by.
const cell = 100 * time.Millisecond

// book is what happened to every message of a run, finer in time than the
// judge's ledger, with which it is compared at the end. Make one with newBook.
// Safe for concurrent use.
type book struct {
	start time.Time

	mu       sync.Mutex
	messages []entry
	laned    int32 // messages that went to lanes
	pages    map[int]*pageBook
}

// entry is one message; its index is in its id.
type entry struct {
	page, to  int32
	published time.Duration // since start
	ideal     time.Duration // how long it waits at best
	accepted  bool
	answered  time.Duration // when the answer to the first acceptance comes
	times     uint8         // accepted
	lane      int32         // its place among all that went to lanes; 0: it did not
	inverted  bool          // accepted after a message to the same recipient that was published later
	overtaken bool          // accepted after one that came later to the lane
}

// pageBook counts calls of one page by cells.
type pageBook struct {
	accepted, refused  []int32
	latest, latestLane map[int32]int32 // recipient → latest message accepted: its index, its place in the lane
}

func newBook() *book { return &book{start: time.Now(), pages: make(map[int]*pageBook)} }

// enter opens an entry and returns the message's id. ideal is how long it must
// wait for its page's limit at best.
func (b *book) enter(page, to int, ideal time.Duration) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = append(b.messages, entry{
		page: int32(page), to: int32(to), published: time.Since(b.start), ideal: ideal,
	})
	return "m" + strconv.Itoa(len(b.messages)-1)
}

// index is the entry that an id names; ok is false for ids of others.
func index(id string) (i int, ok bool) {
	if len(id) < 2 || id[0] != 'm' {
		return 0, false
	}
	i, err := strconv.Atoi(id[1:])
	return i, err == nil
}

func (b *book) pageLocked(page int) *pageBook {
	p := b.pages[page]
	if p == nil {
		p = &pageBook{latest: make(map[int32]int32), latestLane: make(map[int32]int32)}
		b.pages[page] = p
	}
	return p
}

func count(cells []int32, at time.Duration) []int32 {
	i := int(at / cell)
	if i >= len(cells) {
		cells = append(cells, make([]int32, i+1-len(cells))...)
	}
	cells[i]++
	return cells
}

// accept tells that the platform took a message.
func (b *book) accept(id string) {
	i, ok := index(id)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &b.messages[i]
	p := b.pageLocked(int(e.page))
	now := time.Since(b.start)
	p.accepted = count(p.accepted, now)
	if e.times++; e.times > 1 {
		return
	}
	e.accepted, e.answered = true, now
	e.inverted = later(p.latest, e.to, int32(i))
	if e.lane > 0 {
		e.overtaken = later(p.latestLane, e.to, e.lane)
	}
}

// answer tells how long the answer to an acceptance takes.
func (b *book) answer(id string, delay time.Duration) {
	i, ok := index(id)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := &b.messages[i]; e.times == 1 {
		e.answered += delay
	}
}

// later tells whether a recipient's latest is beyond place, and otherwise makes
// place the latest.
func later(latest map[int32]int32, recipient, place int32) bool {
	if l, some := latest[recipient]; some && l > place {
		return true
	}
	latest[recipient] = place
	return false
}

// toLane tells that a message was published on a lane.
func (b *book) toLane(id string) {
	i, ok := index(id)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.laned++
	b.messages[i].lane = b.laned
}

// foreigner is the account of another app on a page.
func foreigner(page int) int { return -page }

// foreign tells that the platform took a message of another app.
func (b *book) foreign(page int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pageLocked(foreigner(page))
	p.accepted = count(p.accepted, time.Since(b.start))
}

// refuse tells that the platform refused a call.
func (b *book) refuse(page int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pageLocked(page)
	p.refused = count(p.refused, time.Since(b.start))
}

// window is a time of the run, since its start.
type window struct{ from, to time.Duration }

func (w window) seconds() float64 { return (w.to - w.from).Seconds() }

func sum(cells []int32, w window) (n int) {
	for i := int(w.from / cell); i < int(w.to/cell) && i < len(cells); i++ {
		n += int(cells[i])
	}
	return n
}

// calls counts the calls of one page in a window.
func (b *book) calls(page int, w window) (accepted, refused int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pageLocked(page)
	return sum(p.accepted, w), sum(p.refused, w)
}

// all counts the calls of all pages in a window.
func (b *book) all(w window) (accepted, refused int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for page, p := range b.pages {
		if page > 0 {
			accepted += sum(p.accepted, w)
			refused += sum(p.refused, w)
		}
	}
	return accepted, refused
}

// back is how long after from the page was sent at least rate a second again:
// the end of the last second, within the longest, in which it was less.
func (b *book) back(page int, from time.Duration, rate float64, longest time.Duration) (d time.Duration) {
	for at := time.Duration(0); at+time.Second <= longest; at += cell {
		if n, _ := b.calls(page, window{from + at, from + at + time.Second}); float64(n) < rate {
			d = at + time.Second
		}
	}
	return d
}

// delays are the times from publish to answer, beyond the ideal, of the messages
// that were published in the window and that are of interest, sorted. A message
// that was not accepted yet counts as answered now.
func (b *book) delays(w window, of func(page int) bool) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Since(b.start)
	var list []time.Duration
	for _, e := range b.messages {
		if e.published < w.from || e.published >= w.to || !of(int(e.page)) {
			continue
		}
		at := e.answered
		if !e.accepted {
			at = now
		}
		list = append(list, at-e.published-e.ideal)
	}
	slices.Sort(list)
	return list
}

// quantile of a sorted list; 0 of an empty one.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// verdict is what became of all messages.
type verdict struct {
	published, accepted int
	missing, doubled    int // missing: neither accepted nor on a queue; doubled: accepted, and again or still on a queue
	repeated            int // accepts after the first
	inversions          int // against the order of publishing
	overtaken           int // against the order of the lane
}

// judge compares the book with what is left on the queues.
func (b *book) judge(left []string) verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	queued := make(map[int]bool, len(left))
	for _, id := range left {
		if i, ok := index(id); ok {
			queued[i] = true
		}
	}
	v := verdict{published: len(b.messages)}
	for i, e := range b.messages {
		switch {
		case e.times == 0 && !queued[i]:
			v.missing++
		case e.times > 0:
			v.accepted++
			v.repeated += int(e.times) - 1
			v.doubled += int(e.times) - 1
			if queued[i] {
				v.doubled++
			}
		}
		if e.inverted {
			v.inversions++
		}
		if e.overtaken {
			v.overtaken++
		}
	}
	return v
}
