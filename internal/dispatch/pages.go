package dispatch

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"

	"chatclub/internal/circuit"
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
	death    *message.Death // it is dead already, and waits for the dead-letter queue
	state    state
	tried    bool      // it was in a call: it stays before what came behind it
	single   bool      // it was refused as part of a joined message, and goes alone
	due      time.Time // when its page's pace allows a call, where it had to wait for that
	since    time.Time
	calledAt int64 // when its last call ended, if it is traced; Unix, in nanoseconds
	prev     *held // in the source's list
	next     *held
}

// state is where a message in the dispatcher's hands is.
type state int

const (
	isWaiting state = iota
	isCalling       // in a call
	isMoving        // on its way to another queue
	isGone          // settled, or another's
)

func (m *held) key() excess.Key { return excess.Key{Page: m.out.Page, Class: string(m.out.Class)} }

// pages has a line for each page and class of which messages are held.
type pages struct {
	*run
	gate     *excess.Map
	circuits *circuit.Circuits
	settler  *settler

	lines   map[excess.Key]*line
	traffic map[excess.Key]*traffic // kept for longer than the lines
	changed []*line                 // to be looked at before the next event
	seq     uint64                  // of arrivals and failures
	inHand  int                     // messages, in calls or waiting
}

func newPages(r *run, c *circuit.Circuits) *pages {
	return &pages{
		run: r, gate: excess.New(func(k excess.Key) float64 { return r.limitsOf(k.Page).Of(k.Class) }), circuits: c, settler: newSettler(r.Dispatcher, c),
		lines: make(map[excess.Key]*line), traffic: make(map[excess.Key]*traffic),
	}
}

// line is the messages of one page and class, one recipient behind another. It
// exists while it holds any, or has a lane.
type line struct {
	key           excess.Key
	traffic       *traffic
	recipients    map[string]*recipient
	ready         recipients // those whose first message can be sent
	waiting       int        // messages in no call
	fromPartition int        // of them
	answers       int        // of those the answers
	inFlight      int        // calls
	wakeAt        time.Time  // no use to try before; zero: none
	inTurn        bool       // it waits for a call to end
	aside         []*held    // broadcasts, which go when nothing else does
	movable       []*held    // those that may go to a lane, and others that have gone since
	spill         *spill     // nil: the page's messages are sent directly
	had           *lane      // that it had last
	changed       bool       // it is in pages.changed
}

// recipient is one person's messages of a line, in order.
type recipient struct {
	line      *line
	to        string
	msgs      []*held
	busy      bool      // a call is on its way, or its next try must wait
	awaits    time.Time // until then it is busy, because an earlier message is in a retry queue; zero: none is
	throttled int       // in a row
	index     int       // in ready
	// place is where it stands in ready: as its first message arrived, or, with an
	// answer, before those with copies, at 0. first is that message's number. Both
	// are kept, because messages are far apart in memory.
	place, first uint64
	behind       uint64 // its place after a call that failed
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

// wake has the engine look at a line after d.
func (p *pages) wake(l *line, now time.Time, d time.Duration) {
	at := now.Add(min(d, lookEvery))
	l.wakeAt = at
	p.timers.add(at, func() {
		if l.wakeAt.Equal(at) {
			l.wakeAt = time.Time{}
			p.mark(l)
		}
	})
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

// forget has nobody wait for a message in a retry queue, which comes back to another
// replica.
func (p *pages) forget(isGone func(page string) bool) {
	for _, l := range p.lines {
		if isGone(l.key.Page) {
			for _, r := range l.recipients {
				r.goOn()
			}
			p.mark(l)
			p.tidy(l)
		}
	}
}

// letGo ends what is known of a message: it is settled, or another's.
func (p *pages) letGo(m *held) {
	if m.state == isGone {
		return
	}
	m.state = isGone
	p.inHand--
	m.source.drop(m)
}

// takeWaiting takes out of their lines the messages that wait of a source and match,
// in the order in which they came.
func (p *pages) takeWaiting(s *source, match func(*held) bool) (list []*held) {
	seen := make(map[*line]bool)
	for m := s.first; m != nil; m = m.next {
		if l := p.lines[m.key()]; l != nil && !seen[l] {
			seen[l] = true
			list = append(list, l.remove(func(m *held) bool { return m.source == s && match(m) })...)
			p.mark(l)
		}
	}
	slices.SortFunc(list, bySeq)
	return list
}

// tidy forgets a line that holds nothing. A timer may still have a line that was
// forgotten before: its page can have another one now.
func (p *pages) tidy(l *line) {
	if len(l.recipients) == 0 && len(l.aside) == 0 && l.spill == nil && p.lines[l.key] == l {
		delete(p.lines, l.key)
	}
}

// push puts a message behind those of its recipient that have its priority, or a
// higher one, or were tried. One from a lane is older than those from the partition, and
// one that comes back from a retry queue goes before those that waited for it.
func (l *line) push(m *held) {
	r := l.recipients[m.out.To]
	if r == nil {
		r = &recipient{line: l, to: m.out.To, index: -1}
		l.recipients[m.out.To] = r
	}
	i := len(r.msgs)
	for i > 0 && r.msgs[i-1].isBehind(m) {
		i--
	}
	if m.tried {
		r.goOn()
		l.recipients[m.out.To] = r // goOn forgets a recipient of whom nothing waits
	}
	r.msgs = slices.Insert(r.msgs, i, m)
	if m.source.lane == nil && m.out.Priority() != message.PriorityBroadcast {
		l.movable = append(l.movable, m)
	}
	l.count(m, +1)
	r.fix()
}

// count counts a message that waits (+1), or does no longer (−1).
func (l *line) count(m *held, n int) {
	l.waiting += n
	if m.source.lane == nil {
		l.fromPartition += n
		if m.isAnswer() {
			l.answers += n
		}
	}
}

// mayMove reports whether a message of the partition may still go behind others.
func (m *held) mayMove() bool { return m.state == isWaiting && !m.tried }

// firstMovable returns the first message that may go to a lane and matches, nil if there is
// none.
func (l *line) firstMovable(match func(*held) bool) *held {
	for len(l.movable) > 0 && !l.movable[0].mayMove() {
		l.movable[0] = nil
		l.movable = l.movable[1:]
	}
	if len(l.movable) > 2*l.fromPartition+minMovable {
		l.movable = slices.DeleteFunc(l.movable, func(m *held) bool { return !m.mayMove() })
	}
	for _, m := range l.movable {
		if m.mayMove() && match(m) {
			return m
		}
	}
	return nil
}

// minMovable is how many that have gone since may stay in a line's movable.
const minMovable = 64

// takeMovable takes those out that may go to a lane and match, in the order of their
// arrival.
func (l *line) takeMovable(match func(*held) bool) (out []*held) {
	var kept []*held
	for _, m := range l.movable {
		switch {
		case !m.mayMove():
		case match(m):
			l.recipients[m.out.To].removeOne(m)
			out = append(out, m)
		default:
			kept = append(kept, m)
		}
	}
	l.movable = kept
	return out
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

// isBehind reports whether a message that waits is sent after one that has come later:
// one that was tried goes before all that were not.
func (m *held) isBehind(later *held) bool {
	if later.tried {
		return !m.tried || m.out.Time > later.out.Time
	}
	mine, its := m.out.Priority(), later.out.Priority()
	return !m.tried && (mine < its || mine == its && m.source.lane == nil && later.source.lane != nil)
}

// goOn ends the wait for a message in a retry queue.
func (r *recipient) goOn() {
	if !r.awaits.IsZero() {
		r.awaits = time.Time{}
		r.proceed()
	}
}

// goBehind puts the recipient behind all that have arrived or failed before, so that
// others are tried where one call at a time finds out whether any can be made.
func (r *recipient) goBehind(p *pages) {
	p.seq++
	r.behind = p.seq
}

// proceed says that the recipient's next message need not wait.
func (r *recipient) proceed() {
	r.busy = false
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
