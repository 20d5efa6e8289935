package fleet

import (
	"sync"
	"time"
)

// wire is the network and the broker's processor: it runs functions at set
// times, one after another on one goroutine. Those of the same time run in the
// order in which they were given. They must not block. Make one with newWire,
// and stop it. Safe for concurrent use.
type wire struct {
	wake  chan struct{} // the earliest entry changed
	quit  chan struct{}
	ended chan struct{}

	mu   sync.Mutex
	heap []entry
	seq  uint64
}

type entry struct {
	at  time.Time
	seq uint64
	do  func()
}

func (e entry) before(o entry) bool {
	if e.at.Equal(o.at) {
		return e.seq < o.seq
	}
	return e.at.Before(o.at)
}

func newWire() *wire {
	w := &wire{wake: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{})}
	go w.run()
	return w
}

// stop ends the wire. What has not run by now never does. Call it once.
func (w *wire) stop() {
	close(w.quit)
	<-w.ended
}

// after runs do when d has passed.
func (w *wire) after(d time.Duration, do func()) { w.at(time.Now().Add(d), do) }

// at runs do at a time, or at once when it is over.
func (w *wire) at(t time.Time, do func()) {
	w.mu.Lock()
	w.seq++
	e := entry{t, w.seq, do}
	w.heap = append(w.heap, e)
	i := len(w.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(w.heap[up]) {
			break
		}
		w.heap[i] = w.heap[up]
		i = up
	}
	w.heap[i] = e
	w.mu.Unlock()
	if i > 0 {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// next removes the earliest entry if it is due. Otherwise it returns how long
// that takes, or a negative time without any entry.
func (w *wire) next() (do func(), wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.heap) == 0 {
		return nil, -1
	}
	first := w.heap[0]
	if wait := time.Until(first.at); wait > 0 {
		return nil, wait
	}
	last := len(w.heap) - 1
	e := w.heap[last]
	w.heap[last] = entry{}
	w.heap = w.heap[:last]
	if last == 0 {
		return first.do, 0
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && w.heap[down+1].before(w.heap[down]) {
			down++
		}
		if !w.heap[down].before(e) {
			break
		}
		w.heap[i] = w.heap[down]
		i = down
	}
	w.heap[i] = e
	return first.do, 0
}

func (w *wire) run() {
	defer close(w.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		do, wait := w.next()
		if do != nil {
			do()
			continue
		}
		if wait < 0 {
			select {
			case <-w.wake:
			case <-w.quit:
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.quit:
			return
		}
	}
}
