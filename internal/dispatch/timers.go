package dispatch

import (
	"container/heap"
	"time"
)

// timer is something to do.
type timer struct {
	at time.Time
	do func()
}

// timers is a heap of timers, the next on top. The zero value is empty.
type timers []timer

// next returns the time until the next timer, at most lookEvery.
func (h timers) next(now time.Time) time.Duration {
	if len(h) == 0 {
		return lookEvery
	}
	return min(lookEvery, max(0, h[0].at.Sub(now)))
}

func (h *timers) add(at time.Time, do func()) { heap.Push(h, timer{at, do}) }

// run does what is due.
func (h *timers) run(now time.Time) {
	for len(*h) > 0 && !(*h)[0].at.After(now) {
		heap.Pop(h).(timer).do() //nolint:forcetypeassert // only timers are pushed
	}
}

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, k int) bool { return h[i].at.Before(h[k].at) }
func (h timers) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

func (h *timers) Push(x any) { *h = append(*h, x.(timer)) } //nolint:forcetypeassert // only timers are pushed

func (h *timers) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = timer{}
	*h = old[:len(old)-1]
	return t
}
