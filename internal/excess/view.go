package excess

import (
	"cmp"
	"slices"
	"time"
)

// View is a page that is in excess or owned, as an operator sees it.
type View struct {
	Key
	Since    time.Time // in excess; zero: it is not
	Owned    bool
	Pace     float64 // messages per second, when owned
	InFlight int
	Refused  int // calls refused since it was last free
}

// Views returns at most limit pages in excess or owned, those with the most
// refusals first, then those in excess for longest.
func (m *Map) Views(limit int) []View {
	var out []View
	m.each(func(k Key, e *entry) {
		if !e.excess && e.pace == nil {
			return
		}
		v := View{Key: k, InFlight: e.inFlight, Refused: e.refused}
		if e.excess {
			v.Since = e.since
		}
		if e.pace != nil {
			v.Owned, v.Pace = true, e.pace.rate
		}
		out = append(out, v)
	})
	slices.SortFunc(out, func(a, b View) int {
		return cmp.Or(
			cmp.Compare(b.Refused, a.Refused), a.Since.Compare(b.Since),
			cmp.Compare(a.Page, b.Page), cmp.Compare(a.Class, b.Class),
		)
	})
	return out[:min(limit, len(out))]
}

// InExcess reports whether the page is in excess.
func (m *Map) InExcess(k Key) bool {
	s, _ := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.busy[k]
	return e != nil && e.excess
}

// Counts are the pages by state.
type Counts struct {
	Excess int // messages go to the lane
	Owned  int // this replica has a pace for it
}

// Counts counts the pages that are not simply free.
func (m *Map) Counts() Counts {
	var c Counts
	m.each(func(_ Key, e *entry) {
		if e.excess {
			c.Excess++
		}
		if e.pace != nil {
			c.Owned++
		}
	})
	return c
}

func (m *Map) each(f func(Key, *entry)) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for k, e := range s.busy {
			f(k, e)
		}
		s.mu.Unlock()
	}
}
