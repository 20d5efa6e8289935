package flow

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// cell is the finest time that calls are counted by.
const cell = 100 * time.Millisecond

// record is what happened to every message of a run. It knows when each was
// answered, and in which order messages came to their lane, which the judge's
// ledger does not know. For what both know they are compared at the end. Make
// one with newRecord. Safe for concurrent use.
type record struct {
	start time.Time

	mu       sync.Mutex
	messages []entry
	laned    int32 // messages that went to lanes
	pages    map[int]*pageRecord
}

// entry is one message; its index is in its id.
type entry struct {
	page, to  int32
	published time.Duration // since start
	ideal     time.Duration // how long it waits at best
	accepted  bool
	answered  time.Duration // when the answer to the first acceptance came; until then when it was accepted
	times     uint8         // accepted
	lane      int32         // its place among all that went to lanes; 0: it did not
	inverted  bool          // accepted after a message to the same recipient that was published later
	overtaken bool          // accepted after one that came later to the lane
}

// pageRecord counts acceptances of one page by cells.
type pageRecord struct {
	accepted           []int32
	latest, latestLane map[int32]int32 // recipient → latest message accepted: its index, its place in the lane
}

func newRecord() *record { return &record{start: time.Now(), pages: make(map[int]*pageRecord)} }

// enter opens an entry and returns the message's id. ideal is how long it must
// wait for its page's limit at best.
func (r *record) enter(page, to int, ideal time.Duration) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, entry{
		page: int32(page), to: int32(to), published: time.Since(r.start), ideal: ideal,
	})
	return "m" + strconv.Itoa(len(r.messages)-1)
}

// index returns the entry that an id names. ok is false for ids of others.
func index(id string) (i int, ok bool) {
	if len(id) < 2 || id[0] != 'm' {
		return 0, false
	}
	i, err := strconv.Atoi(id[1:])
	return i, err == nil
}

func (r *record) pageLocked(page int) *pageRecord {
	p := r.pages[page]
	if p == nil {
		p = &pageRecord{latest: make(map[int32]int32), latestLane: make(map[int32]int32)}
		r.pages[page] = p
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

// accept enters that the platform took a message.
func (r *record) accept(id string) {
	i, ok := index(id)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &r.messages[i]
	p := r.pageLocked(int(e.page))
	now := time.Since(r.start)
	p.accepted = count(p.accepted, now)
	if e.times++; e.times > 1 {
		return
	}
	e.accepted, e.answered = true, now
	e.inverted = pass(p.latest, e.to, int32(i))
	if e.lane > 0 {
		e.overtaken = pass(p.latestLane, e.to, e.lane)
	}
}

// answer enters that the answer to an acceptance has come.
func (r *record) answer(id string) {
	i, ok := index(id)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := &r.messages[i]; e.times == 1 {
		e.answered = time.Since(r.start)
	}
}

// pass reports whether a recipient's latest is beyond place. Otherwise it makes
// place the latest.
func pass(latest map[int32]int32, recipient, place int32) bool {
	if l, some := latest[recipient]; some && l > place {
		return true
	}
	latest[recipient] = place
	return false
}

// toLane enters that a message was published on a lane.
func (r *record) toLane(id string) {
	i, ok := index(id)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.laned++
	r.messages[i].lane = r.laned
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

// accepted counts the acceptances of one page in a window.
func (r *record) accepted(page int, w window) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sum(r.pageLocked(page).accepted, w)
}

// back returns how long after from at least rate messages of the page were sent
// a second again. That is the end of the last second, within the longest, in
// which it was less.
func (r *record) back(page int, from time.Duration, rate float64, longest time.Duration) (d time.Duration) {
	for at := time.Duration(0); at+time.Second <= longest; at += cell {
		if n := r.accepted(page, window{from + at, from + at + time.Second}); float64(n) < rate {
			d = at + time.Second
		}
	}
	return d
}

// delays are the times from publish to answer, beyond the ideal, of the messages
// that were published in the window and that are of interest, sorted. A message
// that was not accepted yet counts as answered now.
func (r *record) delays(w window, of func(page int) bool) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.start)
	var list []time.Duration
	for _, e := range r.messages {
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

// judge compares the record with what is left on the queues.
func (r *record) judge(left []string) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	queued := make(map[int]bool, len(left))
	for _, id := range left {
		if i, ok := index(id); ok {
			queued[i] = true
		}
	}
	v := verdict{published: len(r.messages)}
	for i, e := range r.messages {
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
