package ledger

import (
	"sync"
	"sync/atomic"
	"time"
)

// Expected is one id that must be accepted.
type Expected struct {
	ID        string
	Recipient string // must get it; empty: any recipient may, and its order is not judged
}

// Event is something that happened on a page, with the ids that must arrive
// because of it. Its poster reports when the system under test has taken it
// (Answered), or that the system did not (Withdraw).
type Event struct {
	ledger *Ledger
	page   *Page
	group  *group // nil: its latencies are not kept
	at     time.Time
	due    time.Time

	left       atomic.Int64 // ids that are awaited
	incomplete atomic.Bool  // one of its ids was excused

	begin    atomic.Uint64 // logical time before it was posted
	answered atomic.Uint64 // logical time at which the system had taken it, 0 before

	mu  sync.Mutex
	ids []uint64 // the ids that it announced, for Withdraw; nil once it is answered or withdrawn
}

// Announcement is an event that is to be announced.
type Announcement struct {
	Page  string
	Group string    // its latencies are kept under this name; empty: they are not kept
	Due   time.Time // when the event was meant to happen; zero: now
	IDs   []Expected
}

// Announce calls Enter for an event that happens now and is in no group.
func (l *Ledger) Announce(page string, ids ...Expected) *Event {
	return l.Enter(Announcement{Page: page, IDs: ids})
}

// Enter records that the ids must be accepted on the page from now on. An id
// that was announced before is not expected twice. An id that was accepted
// before it was announced is no longer unexpected.
func (l *Ledger) Enter(x Announcement) *Event {
	l.balance.RLock()
	defer l.balance.RUnlock()
	p := l.Page(x.Page)
	e := &Event{ledger: l, page: p, group: l.group(x.Group), at: l.now(), due: x.Due, ids: make([]uint64, 0, len(x.IDs))}
	if e.due.IsZero() {
		e.due = e.at
	}
	e.begin.Store(l.clock.Add(1))
	e.left.Store(int64(len(x.IDs))) // before the first id is awaited, because it may come at once
	e.group.announce(e.due)
	var expected, early int64
	for _, x := range x.IDs {
		h := l.hash(x.ID)
		s := l.shard(h)
		s.mu.Lock()
		_, twice := s.pending[h]
		in, excused := s.finished.find(h)
		switch {
		case twice || excused || in != nil && in.accepted[h]:
			e.left.Add(-1)
		case in != nil:
			e.left.Add(-1)
			in.accepted[h] = true
			expected++
			early++
		default:
			a := awaited{event: e}
			if x.Recipient != "" {
				a.recipient = l.recipient(p.id, x.Recipient)
			}
			s.pending[h] = a
			e.ids = append(e.ids, h)
			expected++
			l.pending.Add(1)
		}
		s.mu.Unlock()
	}
	p.countEvent(expected, early)
	return e
}

func (l *Ledger) recipient(page, id string) uint64 {
	return l.hash(page) ^ l.hash(id)*0x9e3779b97f4a7c15 // the odd factor gives another key when the two are swapped
}

// Posting records that the event is posted now and not when it was announced.
// It then follows all events that were answered in between.
func (e *Event) Posting() { e.begin.Store(e.ledger.clock.Add(1)) }

// Answered records that the system has taken the event. Every event posted
// after this call follows it, and copies to one recipient must keep that order.
func (e *Event) Answered() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids = nil
	e.answered.CompareAndSwap(0, e.ledger.clock.Add(1))
}

// Withdraw records that the system did not take the event. Its ids are no
// longer expected. One that arrives all the same, because the system took the
// event and only its answer was missing, is expected again.
func (e *Event) Withdraw() {
	e.mu.Lock()
	ids := e.ids
	e.ids = nil
	e.mu.Unlock()
	e.ledger.balance.RLock()
	defer e.ledger.balance.RUnlock()
	for _, h := range ids {
		e.ledger.excuse(h, always)
	}
}

// Excuse records that the ids need not come, because the system reported why it
// could not send them. It returns how many of them were awaited. One that comes
// all the same is expected again.
func (l *Ledger) Excuse(ids ...string) int {
	l.balance.RLock()
	defer l.balance.RUnlock()
	n := 0
	for _, id := range ids {
		if l.excuse(l.hash(id), always) {
			n++
		}
	}
	return n
}

func always(awaited) bool { return true }

// excuse ends the wait for an id, if the id is awaited and matches. It reports
// whether it did. The caller holds balance.
func (l *Ledger) excuse(h uint64, matches func(awaited) bool) bool {
	s := l.shard(h)
	s.mu.Lock()
	a, excused := s.pending[h]
	excused = excused && matches(a)
	if excused {
		delete(s.pending, h)
		s.finished.renew(l.now(), l.part)
		s.finished.parts[0].excused[h] = a
		l.pending.Add(-1)
		s.wakeLocked(h)
	}
	s.mu.Unlock()
	if excused {
		a.event.incomplete.Store(true)
		a.event.left.Add(-1)
		a.event.page.countExcused()
	}
	return excused
}
