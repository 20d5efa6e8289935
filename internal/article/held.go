package article

import (
	"container/heap"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// job is one delivery on its way.
type job struct {
	delivery *queue.Delivery
	out      message.Outbound
	page     *pageQueue
	seq      uint64 // its place among all that arrived
	retry    bool   // it was refused and kept
}

// pageQueue is what is held of one page and class.
type pageQueue struct {
	key     Key
	ready   jobs      // one message for each recipient
	held    int       // ready, in lines, delayed or in calls
	flying  int       // of them in calls
	gated   bool      // the strategy said to wait
	wakeAt  time.Time // no use to try before; zero: none
	waiting bool      // for a call to end
}

func (p *pageQueue) push(j *job) { heap.Push(&p.ready, j) }

func (p *pageQueue) pop() *job { return heap.Pop(&p.ready).(*job) } //nolint:forcetypeassert // only jobs are pushed

// jobs is a heap, the first that arrived on top.
type jobs []*job

func (h jobs) Len() int           { return len(h) }
func (h jobs) Less(i, k int) bool { return h[i].seq < h[k].seq }
func (h jobs) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

// Push implements heap.Interface.
func (h *jobs) Push(x any) { *h = append(*h, x.(*job)) } //nolint:forcetypeassert // only jobs are pushed

// Pop implements heap.Interface.
func (h *jobs) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return j
}

// recipient is whom a message is for.
type recipient struct{ page, to string }

// held is everything that a worker holds. Of one recipient at most one message
// is on its way; the others wait in a line behind it.
type held struct {
	n       int
	seq     uint64
	pages   map[Key]*pageQueue
	lines   map[recipient][]*job // an entry exists while one message is on its way
	waiting []*pageQueue         // for a call to end, in turn
}

func newHeld() held {
	return held{pages: make(map[Key]*pageQueue), lines: make(map[recipient][]*job)}
}

// add takes a message, and reports whether it is the first of its line.
func (h *held) add(j *job) bool {
	h.n++
	h.seq++
	j.seq = h.seq
	k := Key{j.out.Page, string(j.out.Class)}
	p := h.pages[k]
	if p == nil {
		p = &pageQueue{key: k}
		h.pages[k] = p
	}
	j.page = p
	p.held++
	r := recipient{j.out.Page, j.out.To}
	line, busy := h.lines[r]
	if busy {
		h.lines[r] = append(line, j)
		return false
	}
	h.lines[r] = nil
	return true
}

// remove lets go of a message, and returns the next of its line, nil without.
func (h *held) remove(j *job) *job {
	h.n--
	j.page.held--
	r := recipient{j.out.Page, j.out.To}
	line := h.lines[r]
	if j.page.held == 0 {
		delete(h.pages, j.page.key)
	}
	if len(line) == 0 {
		delete(h.lines, r)
		return nil
	}
	h.lines[r] = line[1:]
	return line[0]
}

// await puts a page among those that wait for a call to end.
func (h *held) await(p *pageQueue) {
	if !p.waiting {
		p.waiting = true
		h.waiting = append(h.waiting, p)
	}
}

// next takes the first page that waits, nil without.
func (h *held) next() *pageQueue {
	if len(h.waiting) == 0 {
		return nil
	}
	p := h.waiting[0]
	h.waiting[0] = nil
	h.waiting = h.waiting[1:]
	p.waiting = false
	return p
}

// timer is something to do.
type timer struct {
	at time.Time
	do func()
}

// timers is a heap, the next on top.
type timers []timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, k int) bool { return h[i].at.Before(h[k].at) }
func (h timers) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

// Push implements heap.Interface.
func (h *timers) Push(x any) { *h = append(*h, x.(timer)) } //nolint:forcetypeassert // only timers are pushed

// Pop implements heap.Interface.
func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = timer{}
	*h = (*h)[:last]
	return t
}

func (h *timers) add(at time.Time, do func()) { heap.Push(h, timer{at, do}) }

// next is how long until something is due.
func (h *timers) next(now time.Time) time.Duration {
	if len(*h) == 0 {
		return time.Hour
	}
	return max(0, (*h)[0].at.Sub(now))
}

// pop takes what is due, nil without.
func (h *timers) pop(now time.Time) func() {
	if len(*h) == 0 || (*h)[0].at.After(now) {
		return nil
	}
	return heap.Pop(h).(timer).do //nolint:forcetypeassert // only timers are pushed
}
