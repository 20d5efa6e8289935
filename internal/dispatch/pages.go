package dispatch

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// held is one message in the dispatcher's hands.
type held struct {
	delivery *queue.Delivery
	out      message.Outbound
	err      error // why the body is none of ours
	source   *source
	seq      uint64         // its place among all that arrived
	token    bool           // it is a lane's token or marker, and no message
	death    *message.Death // it is dead already, and waits for the dead-letter queue
	gone     bool           // it is settled, or another's
	calling  bool           // it is in a call
	moving   bool           // it is on its way to another queue
	tried    bool           // it was in a call: it stays before what came behind it
	single   bool           // it was refused as part of a joined message, and goes alone
	probe    bool           // the one message of a suspended page that is let through
	due      time.Time      // when its page's pace allows a call, where it had to wait for that
	since    time.Time
	calledAt int64 // when its last call ended, if it is traced; Unix, in nanoseconds
	prev     *held // in the source's list
	next     *held
}

func (m *held) key() excess.Key { return excess.Key{Page: m.out.Page, Class: string(m.out.Class)} }

// pages has a line for each page and class of which messages are held.
type pages struct {
	lines   map[excess.Key]*line
	traffic map[excess.Key]*traffic // kept for longer than the lines
	changed []*line                 // to be looked at before the next event
	seq     uint64
	held    int // messages in hand, in calls or waiting
}

func newPages() pages {
	return pages{lines: make(map[excess.Key]*line), traffic: make(map[excess.Key]*traffic)}
}

// line is the messages of one page and class, one recipient behind another. It
// exists while it holds any, or has a lane.
type line struct {
	key        excess.Key
	traffic    *traffic
	recipients map[string]*recipient
	ready      recipients // those whose first message can be sent
	waiting    int        // messages in no call
	direct     int        // of them from the partition
	answers    int        // of those the answers
	inFlight   int        // calls
	wakeAt     time.Time  // no use to try before; zero: none
	rotating   bool       // it waits for a call to end
	aside      []*held    // broadcasts, which go when nothing else does
	toldBusy   time.Time  // when core was last told that they wait
	lane       *lane      // nil: none, but for those that are retired
	noLane     time.Time  // until when none is made, because that failed
	changed    bool       // it is in pages.changed
	latest     *held      // the message that has just arrived
	goBehind   bool       // what waits goes to the lane, whether or not it could be sent
}

// recipient is one person's messages of a line, in order.
type recipient struct {
	line  *line
	to    string
	msgs  []*held
	busy  bool // a call is on its way, or its next try must wait
	index int  // in ready
	// place is where it stands in ready: as its first message arrived, or, with an
	// answer, before those with copies, at 0. first is that message's number. Both
	// are kept, because messages are far apart in memory.
	place, first uint64
	// behind is the number of the last message that had arrived when a call
	// failed. The recipient goes behind all these, so that others are tried
	// where one call at a time finds out whether any can be made.
	behind uint64
}

// line returns a page's line.
func (p *pages) line(k excess.Key) *line {
	l := p.lines[k]
	if l == nil {
		t := p.traffic[k]
		if t == nil {
			t = new(traffic)
			p.traffic[k] = t
		}
		l = &line{key: k, traffic: t, recipients: make(map[string]*recipient)}
		p.lines[k] = l
	}
	return l
}

// mark has the engine look at a line before the next event.
func (p *pages) mark(l *line) {
	if !l.changed {
		l.changed = true
		p.changed = append(p.changed, l)
	}
}

// wakeAll has the engine look at every line, because what they waited for has
// changed. The order is always the same, so that a run in virtual time is.
func (p *pages) wakeAll() {
	lines := slices.Collect(maps.Values(p.lines))
	slices.SortFunc(lines, func(a, b *line) int {
		return cmp.Or(cmp.Compare(a.key.Page, b.key.Page), cmp.Compare(a.key.Class, b.key.Class))
	})
	for _, l := range lines {
		l.wakeAt = time.Time{}
		p.mark(l)
	}
}

// tidy forgets a line that holds nothing. A timer may still have a line that was
// forgotten before: its page can have another one now.
func (p *pages) tidy(l *line) {
	if len(l.recipients) == 0 && len(l.aside) == 0 && l.lane == nil && p.lines[l.key] == l {
		delete(p.lines, l.key)
	}
}

// push puts a message behind those of its recipient that have its priority, or a
// higher one, or were tried.
func (l *line) push(m *held) {
	r := l.recipients[m.out.To]
	if r == nil {
		r = &recipient{line: l, to: m.out.To, index: -1}
		l.recipients[m.out.To] = r
	}
	i := len(r.msgs)
	for i > 0 && !r.msgs[i-1].tried && r.msgs[i-1].out.Priority() < m.out.Priority() {
		i--
	}
	r.msgs = slices.Insert(r.msgs, i, m)
	l.count(m, +1)
	r.fix()
}

// count counts a message that waits (+1), or does no longer (−1).
func (l *line) count(m *held, n int) {
	l.waiting += n
	if m.source.lane == nil {
		l.direct += n
		if m.isAnswer() {
			l.answers += n
		}
	}
}

// isAnswer reports whether a message passes copies.
func (m *held) isAnswer() bool { return m.out.Priority() == message.PriorityAnswer }

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

// setBusy says whether the recipient's next message must wait.
func (r *recipient) setBusy(busy bool) {
	r.busy = busy
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

// remove takes those waiting messages out that match, and returns them in the
// order of their arrival.
func (l *line) remove(match func(*held) bool) []*held {
	var out []*held
	out, l.aside = split(l.aside, match)
	for _, r := range l.recipients {
		out = append(out, r.remove(match)...)
	}
	slices.SortFunc(out, bySeq)
	return out
}

// split takes those out of a list that match.
func split(list []*held, match func(*held) bool) (out, kept []*held) {
	kept = list[:0]
	for _, m := range list {
		if match(m) {
			out = append(out, m)
		} else {
			kept = append(kept, m)
		}
	}
	clear(list[len(kept):])
	return out, kept
}

func bySeq(a, b *held) int { return cmp.Compare(a.seq, b.seq) }

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
