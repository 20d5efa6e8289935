package dispatch

import (
	"container/heap"
	"time"

	"chatclub/internal/excess"
)

// pageID names a pageQueue. A page's messages on a lane are apart from those on
// `outbound`.
type pageID struct {
	excess.Key
	lane int
}

// pageQueue is the messages of a page that could be sent, one per recipient. The
// others wait in the recipient order. It exists while it holds any.
type pageQueue struct {
	id         pageID
	heap       items
	held       int       // in the heap, behind others, delayed or in flight
	inFlight   int       // of them in calls
	gated      bool      // the gate said to wait
	maxWaiting int       // how many may, as it said
	wakeAt     time.Time // no use to try before; zero: none
	ready      bool      // it is in the engine's list of those that wait for a call to end
}

// waiting returns how many messages of the page are here and in no call.
func (q *pageQueue) waiting() int { return q.held - q.inFlight }

// hung returns how many of those cannot be sent for a reason of their own. They
// wait for their next try, or behind another to the same recipient.
func (q *pageQueue) hung() int { return q.waiting() - len(q.heap) }

func (q *pageQueue) push(m *item) { heap.Push(&q.heap, m) }

func (q *pageQueue) pop() *item { return heap.Pop(&q.heap).(*item) } //nolint:forcetypeassert // only items are pushed
