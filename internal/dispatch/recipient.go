package dispatch

import (
	"container/heap"
	"slices"
	"time"
)

// recipient is one person's messages of a line, in order.
type recipient struct {
	line      *line
	to        string
	msgs      []*held
	busy      bool      // a call is on its way, or its next try must wait
	calling   bool      // a call is
	next      time.Time // its next try; zero: it waits for none
	awaits    time.Time // until then it is busy, because an earlier message is in a retry queue; zero: none is
	notBefore time.Time // the limit for one person allows no call before
	throttled int       // in a row
	index     int       // in ready
	// place is its position in ready: the number of its first message, with an answer 0,
	// but behind at least. first is that message's number. Both are kept, because
	// messages are far apart in memory.
	place, first uint64
	behind       uint64 // its place after a call that failed
}

// removeOne takes one of the recipient's waiting messages out. Mostly it is the last.
func (r *recipient) removeOne(m *held) {
	for i, o := range slices.Backward(r.msgs) {
		if o == m {
			r.msgs = slices.Delete(r.msgs, i, i+1)
			r.line.count(m, -1)
			break
		}
	}
	r.fix()
}

// take takes the recipient's first n messages out of the line, for a call.
func (r *recipient) take(n int) []*held {
	msgs := r.msgs[:n:n]
	if r.msgs = r.msgs[n:]; len(r.msgs) == 0 {
		r.msgs = nil
	}
	for _, m := range msgs {
		r.line.count(m, -1)
	}
	r.fix()
	return msgs
}

// putBack puts messages before all others of the recipient.
func (r *recipient) putBack(msgs []*held) {
	r.msgs = append(slices.Clone(msgs), r.msgs...)
	for _, m := range msgs {
		r.line.count(m, +1)
	}
	r.fix()
}

// goOn ends the wait for a message in a retry queue. The limit for one person holds.
func (p *pages) goOn(r *recipient) {
	if !r.awaits.IsZero() {
		r.awaits = time.Time{}
		p.proceedAt(r, r.notBefore)
	}
}

// proceedAt lets the next message to a recipient go at a time.
func (p *pages) proceedAt(r *recipient, at time.Time) {
	if !at.After(p.Now()) {
		r.proceed()
		return
	}
	r.next = at
	p.timers.add(at, func() {
		r.proceed()
		p.mark(r.line)
	})
}

// goBehind puts the recipient behind all that have arrived or failed before, so that
// others are tried where one call at a time finds out whether any can be made.
func (r *recipient) goBehind(p *pages) {
	p.seq++
	r.behind = p.seq
}

// proceed says that the recipient's next message need not wait.
func (r *recipient) proceed() {
	r.busy, r.next = false, time.Time{}
	r.fix()
}

// fix brings the recipient to its place in ready, or forgets it.
func (r *recipient) fix() {
	l := r.line
	can := !r.busy && len(r.msgs) > 0
	if can {
		r.first, r.place = r.msgs[0].seq, r.behind
		if !r.msgs[0].isAnswer() {
			r.place = max(r.behind, r.first)
		}
	}
	switch {
	case can && r.index < 0:
		heap.Push(&l.ready, r)
	case can:
		heap.Fix(&l.ready, r.index)
	case r.index >= 0:
		heap.Remove(&l.ready, r.index)
	}
	if !r.busy && len(r.msgs) == 0 {
		delete(l.recipients, r.to)
	}
}

// remove takes those of the recipient's waiting messages out that match.
func (r *recipient) remove(match func(*held) bool) []*held {
	out, kept := split(r.msgs, match)
	if len(out) == 0 {
		return nil
	}
	for _, m := range out {
		r.line.count(m, -1)
	}
	r.msgs = kept
	r.fix()
	return out
}

// recipients is a heap, the one whose first message arrived first on top. Those
// with an answer come earlier, and who failed later.
type recipients []*recipient

func (h recipients) Len() int { return len(h) }

func (h recipients) Less(i, k int) bool {
	a, b := h[i], h[k]
	return a.place < b.place || a.place == 0 && b.place == 0 && a.first < b.first
}

func (h recipients) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].index, h[k].index = i, k
}

func (h *recipients) Push(x any) {
	r := x.(*recipient) //nolint:forcetypeassert // only recipients are pushed
	r.index = len(*h)
	*h = append(*h, r)
}

func (h *recipients) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	r.index = -1
	return r
}
