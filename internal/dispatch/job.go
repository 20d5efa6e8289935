package dispatch

import (
	"container/heap"
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// noLane is the lane of what came from `outbound` or `outbound.bulk`.
const noLane = -1

// job is one delivery on its way.
type job struct {
	delivery *queue.Delivery
	out      message.Outbound
	fault    error // why the body is none of ours
	lane     int
	page     *pageQueue // once it is in the engine's hands: stays while it holds j
	term     int        // of the lane, when it was taken
	seq      uint64     // its place among all that arrived
	attempts int        // calls that failed and count as attempts, in this process and before
	lastCode string     // of the last of them
	called   int64      // when its latest call began, Unix milliseconds
	again    bool       // it was refused and the gate said to keep it
	probe    bool       // the one message of a stopped page that is let through
	due      time.Time  // when its page's pace lets it go; zero: it did not have to wait
}

func (j *job) key() excess.Key { return excess.Key{Page: j.out.Page, Class: string(j.out.Class)} }

// jobs is a heap of jobs, the first that arrived on top.
type jobs []*job

func (h jobs) Len() int           { return len(h) }
func (h jobs) Less(i, k int) bool { return h[i].seq < h[k].seq }
func (h jobs) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

// Push implements heap.Interface.
func (h *jobs) Push(x any) { *h = append(*h, x.(*job)) } //nolint:forcetypeassert // only jobs are pushed

// Pop implements heap.Interface.
func (h *jobs) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return j
}

// pageID names a pageQueue: what a page has on a lane is apart from what it has
// on `outbound`.
type pageID struct {
	excess.Key
	lane int
}

// pageQueue is the messages of a page that could be sent: one per recipient,
// others of the same recipient wait in lines. It exists while it holds any.
type pageQueue struct {
	id       pageID
	heap     jobs
	held     int       // in the heap, in lines, delayed or in flight
	inFlight int       // of them in calls
	gated    bool      // the gate said to wait
	park     int       // how many may, as it said
	wakeAt   time.Time // no use to try before; zero: none
	ready    bool      // it is in the engine's list of those that wait for a call to end
}

// waiting is how many messages of the page are here and in no call.
func (q *pageQueue) waiting() int { return q.held - q.inFlight }

// hung is how many of those cannot be sent for a reason of their own: they wait
// for their next try, or behind another to the same recipient.
func (q *pageQueue) hung() int { return q.waiting() - len(q.heap) }

func (q *pageQueue) push(j *job) { heap.Push(&q.heap, j) }

func (q *pageQueue) pop() *job { return heap.Pop(&q.heap).(*job) } //nolint:forcetypeassert // only jobs are pushed

// recipient is whom a job is for. The same person has another PSID on every page.
type recipient struct{ page, to string }

// lines keeps at most one job per recipient on its way, the others in a line
// behind it, so that a later message never overtakes an earlier one. A
// recipient without jobs costs nothing. The zero value is not useful. Not safe
// for concurrent use.
type lines struct {
	wait map[recipient][]*job // an entry exists while one job is on its way
}

func newLines() *lines { return &lines{wait: make(map[recipient][]*job)} }

// join puts j into its line and tells whether it is first.
func (l *lines) join(j *job) bool {
	r := recipient{j.out.Page, j.out.To}
	line, busy := l.wait[r]
	if !busy {
		l.wait[r] = nil
		return true
	}
	l.wait[r] = append(line, j)
	return false
}

// next ends j's turn and returns the job behind it, nil when there is none.
func (l *lines) next(j *job) *job {
	r := recipient{j.out.Page, j.out.To}
	line := l.wait[r]
	if len(line) == 0 {
		delete(l.wait, r)
		return nil
	}
	next := line[0]
	line[0] = nil
	l.wait[r] = line[1:]
	return next
}

// alarm is a page or a single job to look at again.
type alarm struct {
	at   time.Time
	page *pageQueue // or
	job  *job
}

// alarms is a heap of alarms, the next on top.
type alarms []alarm

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, k int) bool { return h[i].at.Before(h[k].at) }
func (h alarms) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

// Push implements heap.Interface.
func (h *alarms) Push(x any) { *h = append(*h, x.(alarm)) } //nolint:forcetypeassert // only alarms are pushed

// Pop implements heap.Interface.
func (h *alarms) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = alarm{}
	*h = old[:len(old)-1]
	return a
}
