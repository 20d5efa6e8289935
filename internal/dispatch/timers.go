package dispatch

import "time"

// timer is when to look again at a page, at a single item, or at what is deferred.
type timer struct {
	at   time.Time
	page *pageQueue // or
	item *item      // or neither
}

// timers is a heap of timers, the next on top.
type timers []timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, k int) bool { return h[i].at.Before(h[k].at) }
func (h timers) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

// Push implements heap.Interface.
func (h *timers) Push(x any) { *h = append(*h, x.(timer)) } //nolint:forcetypeassert // only timers are pushed

// Pop implements heap.Interface.
func (h *timers) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = timer{}
	*h = old[:len(old)-1]
	return t
}
