package ledger

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	tenth = 100 * time.Millisecond

	// Kept is the time for which a group's acceptances are kept by tenths of a second.
	// A group that lasts a whole day takes 3.5 MB for them.
	Kept = 24 * time.Hour
)

// group holds the latencies of the events that were announced under one name.
// They count from when an event was due, so that a late poster does not make
// the system look fast.
type group struct {
	name string

	mu     sync.Mutex
	events int64 // announced
	began  time.Time
	last   time.Time // the latest acceptance of an awaited id
	copies histogram // from due to the acceptance of an id
	whole  histogram // from due to the acceptance of an event's last id
	tenths []uint32  // awaited ids accepted, by tenths of a second since began
}

// GroupReport is a group at one moment.
type GroupReport struct {
	Group     string    `json:"group"`
	Events    int64     `json:"events"`        // announced
	Copies    []Bin     `json:"copies"`        // from due to each id's acceptance
	Whole     []Bin     `json:"whole"`         // from due to the acceptance of an event's last id; events of which an id was excused are left out
	Began     time.Time `json:"began"`         // when the first event was due
	Last      time.Time `json:"last,omitzero"` // the latest acceptance
	Tenths    []uint32  `json:"tenths"`        // acceptances by tenths of a second since began, for a day
	Accepted  int64     `json:"accepted"`      // ids; the count of copies
	Waiting   []Bin     `json:"waiting"`       // from due to now of each id that is awaited
	Completed int64     `json:"completed"`     // events; the count of whole
}

func (l *Ledger) group(name string) *group {
	if name == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[name]
	if g == nil {
		g = &group{name: name}
		l.groups[name] = g
	}
	return g
}

// announce counts an event. g may be nil, for an event in no group.
func (g *group) announce(due time.Time) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events++
	if g.began.IsZero() || due.Before(g.began) && len(g.tenths) == 0 {
		g.began = due
	}
}

// accept enters the first acceptance of one of the event's ids. g may be nil.
func (g *group) accept(now time.Time, e *Event) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.copies.record(now.Sub(e.due))
	if now.After(g.last) {
		g.last = now
	}
	if i := int(max(0, now.Sub(g.began)) / tenth); i < int(Kept/tenth) {
		if i >= len(g.tenths) {
			g.tenths = append(g.tenths, make([]uint32, i+1-len(g.tenths))...)
		}
		g.tenths[i]++
	}
	if e.left.Add(-1) == 0 && !e.incomplete.Load() {
		g.whole.record(now.Sub(e.due))
	}
}

// report returns the group's state. waiting holds how long its awaited ids have
// been due.
func (g *group) report(waiting *histogram) GroupReport {
	g.mu.Lock()
	defer g.mu.Unlock()
	if waiting == nil {
		waiting = &histogram{}
	}
	return GroupReport{
		Group: g.name, Events: g.events, Began: g.began, Last: g.last, Tenths: slices.Clone(g.tenths),
		Accepted: g.copies.total, Completed: g.whole.total,
		Copies: g.copies.bins(), Whole: g.whole.bins(), Waiting: waiting.bins(),
	}
}

// waiting returns how long the awaited ids have been due, by group.
func (l *Ledger) waiting() map[*group]*histogram {
	now := l.now()
	list := make(map[*group]*histogram)
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, a := range s.pending {
			g := a.event.group
			if g == nil {
				continue
			}
			if list[g] == nil {
				list[g] = &histogram{}
			}
			list[g].record(now.Sub(a.event.due))
		}
		s.mu.Unlock()
	}
	return list
}

// Groups reports every group, in order of their names. It reads every awaited
// id once, as Report does.
func (l *Ledger) Groups() []GroupReport {
	l.mu.RLock()
	groups := make([]*group, 0, len(l.groups))
	for _, g := range l.groups {
		groups = append(groups, g)
	}
	l.mu.RUnlock()
	slices.SortFunc(groups, func(a, b *group) int { return cmp.Compare(a.name, b.name) })
	waiting := l.waiting()
	list := make([]GroupReport, 0, len(groups))
	for _, g := range groups {
		list = append(list, g.report(waiting[g]))
	}
	return list
}
