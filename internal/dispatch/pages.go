package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"chatclub/internal/circuit"
	"chatclub/internal/excess"
	"chatclub/internal/message"
)

// pages has a line for each page and class of which messages are held.
type pages struct {
	*run
	gate     *excess.Map
	circuits *circuit.Circuits
	settler  *settler

	tokenless *tokenless

	lines   map[excess.Key]*line
	traffic map[excess.Key]*traffic // kept for longer than the lines
	changed []*line                 // to be looked at before the next event
	seq     uint64                  // of arrivals and failures
	inHand  int                     // messages: waiting, in calls or on their way to other queues
}

func newPages(r *run, c *circuit.Circuits) *pages {
	return &pages{
		run: r, gate: excess.New(func(k excess.Key) float64 { return r.limitsOf(k.Page).Of(k.Class) }), circuits: c, settler: newSettler(r.Dispatcher, c),
		tokenless: newTokenless(r), lines: make(map[excess.Key]*line), traffic: make(map[excess.Key]*traffic),
	}
}

// line is the messages of one page and class, one recipient behind another. It
// exists while it holds any, or has a lane.
type line struct {
	key           excess.Key
	traffic       *traffic
	recipients    map[string]*recipient
	ready         recipients // those whose first message can be sent
	waiting       int        // messages in recipients' lists
	fromPartition int        // of them
	calling       int        // messages from the partition that are in calls
	progress      time.Time  // when a call began or ended last
	kept          time.Time  // when there was a reason to wait last
	answers       int        // of those the answers
	inFlight      int        // calls
	wakeAt        time.Time  // no use to try before; zero: none
	inTurn        bool       // it waits for a call to end
	aside         []*held    // broadcasts, which go when nothing else does
	asideWatched  bool       // expireAside is due
	movable       []*held    // those that may go to a lane, and others that have gone since
	spill         *spill     // nil: the page's messages are sent directly
	had           *lane      // that it had last
	changed       bool       // it is in pages.changed
	shared        *partition // whose pages without a token share the line; nil: it is one page's
}

// line returns a page's line.
func (p *pages) line(k excess.Key) *line {
	l := p.lines[k]
	if l == nil {
		t := p.traffic[k]
		if t == nil {
			t = new(traffic)
			if k.Page != noToken { // which nobody asks for
				p.traffic[k] = t
			}
		}
		l = &line{key: k, traffic: t, recipients: make(map[string]*recipient)}
		p.lines[k] = l
	}
	return l
}

// lineOf returns a message's line.
func (p *pages) lineOf(m *held) *line {
	l := p.line(m.key())
	if m.noToken {
		l.shared = m.source.claim.partition
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
				p.goOn(r)
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
	if m.source.free() <= 0 { // the broker could deliver nothing before
		m.source.came = p.Now()
	}
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
func (p *pages) push(l *line, m *held) {
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
		p.goOn(r)
		l.recipients[m.out.To] = r // goOn forgets a recipient of whom nothing waits
	}
	r.msgs = slices.Insert(r.msgs, i, m)
	if m.source.lane == nil && (m.out.Priority() != message.PriorityBroadcast || m.noToken) {
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

// countCall counts a message that is in a call (+1), or no longer (−1).
func (l *line) countCall(m *held, n int) {
	if m.source.lane == nil {
		l.calling += n
	}
}

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

// minMovable is the length of a line's movable up to which messages that have gone may stay.
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
