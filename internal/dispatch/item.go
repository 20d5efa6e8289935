package dispatch

import (
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// noLane is the lane of what came from `outbound` or `outbound.bulk`.
const noLane = -1

// item is one delivery on its way, with the message in it.
type item struct {
	delivery *queue.Delivery
	out      message.Outbound
	fault    error // why the body cannot be decoded
	lane     int
	page     *pageQueue // set once it is in the engine's hands
	term     int        // of the lane, when it was taken
	seq      uint64     // its place among all that arrived
	attempts int        // calls that failed and count as attempts, in this process and before
	lastCode string     // of the last of them
	called   int64      // when its latest call began, Unix milliseconds
	retry    bool       // it was refused and the gate said to keep it
	probe    bool       // the one message of a suspended page that is let through
	due      time.Time  // when its page's pace lets it go; zero: it did not have to wait
}

func (m *item) key() excess.Key { return excess.Key{Page: m.out.Page, Class: string(m.out.Class)} }

// items is a heap of items, the first that arrived on top.
type items []*item

func (h items) Len() int           { return len(h) }
func (h items) Less(i, k int) bool { return h[i].seq < h[k].seq }
func (h items) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

// Push implements heap.Interface.
func (h *items) Push(x any) { *h = append(*h, x.(*item)) } //nolint:forcetypeassert // only items are pushed

// Pop implements heap.Interface.
func (h *items) Pop() any {
	old := *h
	m := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return m
}
