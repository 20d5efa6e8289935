package console

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"chatclub/internal/dispatch"
)

const (
	// chooseEvery is the period of choosing the pages that are shown, where there are
	// more than fit.
	chooseEvery = 5 * time.Second
	// forgetAfter is the time for which a page is kept that no replica tells of.
	forgetAfter = 5 * time.Minute
)

// merger makes one view of several replicas' answers. It belongs to one goroutine.
type merger struct {
	pages   map[string]*pageCounts
	last    map[source]Counts // the latest of each source
	calls   map[string]*rate  // of each replica
	states  map[string]Replica
	second  int64 // the second that runs
	shown   []string
	chosen  time.Time
	nextCol int
}

// source is one replica's numbers of a page and class.
type source struct{ replica, page, class string }

func newMerger() *merger {
	return &merger{
		pages: make(map[string]*pageCounts), last: make(map[source]Counts),
		calls: make(map[string]*rate), states: make(map[string]Replica),
	}
}

// merge returns the pages and dispatchers as they are. judged are the counts of a
// judge, which are better than the dispatchers' own; nil: there is none. shown are the
// pages to show; nil: those with the most to do.
func (m *merger) merge(now time.Time, answers []answer, judged map[string]Counts, shown []string, name func(string) string) ([]Page, int, []Dispatcher) {
	for _, id := range shown {
		m.page(now, id, name)
	}
	for _, p := range m.pages {
		p.State, p.Why, p.Since, p.Pace, p.InFlight, p.Arrival = "free", "", nil, 0, 0, nil
		p.Oldest, p.Reason, p.Short, p.Waits, p.Ends, p.explained = 0, "", "", "", nil, 0
		if judged == nil {
			p.counts.Waiting = 0
		}
	}
	dispatchers := make([]Dispatcher, 0, len(answers))
	for i := range answers {
		dispatchers = append(dispatchers, m.replica(now, &answers[i], judged == nil, name))
	}
	for id, c := range judged {
		if p := m.pages[id]; p != nil {
			c.Limit = cmp.Or(c.Limit, p.counts.Limit)
			p.counts, p.heard = c, now
		}
	}
	for i := range answers {
		if s := answers[i].status; s != nil {
			m.pause(now, s.Paused, name)
		}
	}
	m.closeSecond(now)
	m.forget(now, answers)
	m.choose(now, shown)
	list := make([]Page, 0, len(m.shown))
	for _, id := range m.shown {
		if p := m.pages[id]; p != nil {
			list = append(list, p.view(dispatchers))
		}
	}
	for i := range dispatchers {
		d := &dispatchers[i]
		d.Calls = int(m.calls[d.Name].perSecond)
		for _, p := range list {
			if p.Owner == d.Name {
				d.Pages = append(d.Pages, p.ID)
			}
		}
	}
	return list, len(m.pages), dispatchers
}

// pause marks the pages that operators have paused. That the API stopped one says more.
func (m *merger) pause(now time.Time, list []dispatch.PausedPage, name func(string) string) {
	for i := range list {
		p := m.page(now, list[i].Page, name)
		p.heard = now
		if p.State == "suspended" {
			continue
		}
		p.State, p.Why, p.Ends = "paused", cmp.Or(list[i].Reason, "by order"), list[i].Until
		if until := list[i].Until; until != nil {
			p.Why += ", until " + until.UTC().Format("2006-01-02 15:04:05") + " UTC"
		}
	}
}

func (m *merger) page(now time.Time, id string, name func(string) string) *pageCounts {
	p := m.pages[id]
	if p == nil {
		p = &pageCounts{Page: Page{ID: id, Name: name(id), Color: m.nextCol % 8, State: "free"}, heard: now}
		m.nextCol++
		m.pages[id] = p
	}
	return p
}

// replica takes one replica's answer in.
func (m *merger) replica(now time.Time, a *answer, count bool, name func(string) string) Dispatcher {
	d := Dispatcher{Name: a.Name, Partitions: []int{}, Pages: []string{}, Excess: []InExcess{}}
	if a.State == "" {
		a.State = "running"
		if a.err != nil {
			a.State, d.Error = "lost", a.err.Error()
		}
	}
	known, seen := m.states[a.Name]
	switch {
	case !a.Since.IsZero():
		known = a.Replica
	case !seen || known.State != a.State:
		known = a.Replica
		known.Since = now
	}
	m.states[a.Name] = known
	d.State, d.Since = a.State, known.Since
	r := m.calls[a.Name]
	if r == nil {
		r = new(rate)
		m.calls[a.Name] = r
	}
	if a.status == nil {
		if a.URL == "" {
			r.count(a.Calls)
			d.InFlight = a.InFlight
		}
		if a.URL == "" && a.State == "running" { // it sends for all, or for none
			for _, p := range m.pages {
				if p.Owner == a.Name {
					p.Owner = ""
				}
			}
		}
		return d
	}
	d.InFlight, d.Limit, d.APIDown, d.Partitions = a.status.InFlight, a.status.Limit, a.status.APIDown, a.status.Partitions
	for i := range a.status.Pages {
		s := &a.status.Pages[i]
		p := m.page(now, s.Page, name)
		p.heard = now
		grown := m.grown(source{a.Name, s.Page, s.Class}, s)
		r.now += grown.Sent + grown.Refused
		if grown != (Counts{}) || s.InFlight > 0 || s.Since != nil {
			if p.Owner != a.Name && p.Owner != "" && p.actedAt.Equal(now) && grown.Sent == 0 {
				continue // it is another's by now, which has just sent
			}
			p.Owner, p.actedAt = a.Name, now
		}
		if count {
			p.counts.add(grown)
			p.counts.Waiting += int64(s.Waiting)
		}
		if s.Class == "text" {
			p.counts.Limit, p.Arrival = int(s.Limit), s.Arrival
		}
		p.InFlight += s.InFlight
		p.explain(s)
		if s.Sick && (s.InFlight > 0 || s.Waiting > 0) {
			p.State = "sick"
		}
		if s.HintUntil != nil && p.Why == "" {
			p.Why = "waits until " + s.HintUntil.UTC().Format("15:04:05") + " UTC, as the platform asked"
		}
		if s.Since != nil {
			p.Since, p.Pace = s.Since, s.Pace
			if p.State == "free" {
				p.State = "excess"
			}
			d.Excess = append(d.Excess, InExcess{
				Page: s.Page, Class: s.Class, Pace: s.Pace, Waiting: s.Waiting, InFlight: s.InFlight, Refused: int(s.Refused), Lanes: s.Lanes,
			})
		}
	}
	for _, s := range a.status.Suspended {
		p := m.page(now, s.Page, name)
		p.State, p.Why, p.heard = "suspended", cmp.Or(s.Code, "no token"), now
		if !s.ProbeAt.IsZero() {
			p.Ends = &s.ProbeAt
		}
	}
	return d
}

// grown returns the growth of a source's numbers. They begin again when the replica
// forgot the page.
func (m *merger) grown(of source, s *dispatch.PageStatus) Counts {
	now := Counts{
		Asked: s.Arrived, Sent: s.Calls, Refused: s.Refused, Copies: s.Sent,
		Delay: time.Duration(s.Waited * float64(time.Second)),
	}
	last, seen := m.last[of]
	m.last[of] = now
	switch {
	case !seen:
		return Counts{} // counts from before the first look are not shown
	case now.Asked < last.Asked || now.Sent < last.Sent || now.Refused < last.Refused:
		last = Counts{}
	}
	return now.less(last)
}

// closeSecond enters a second that is over into the histories.
func (m *merger) closeSecond(now time.Time) {
	second := now.Unix()
	if second == m.second {
		return
	}
	first, over, took := m.second == 0, second-1, max(1, second-m.second) // a look may have come late
	m.second = second
	for _, r := range m.calls {
		r.perSecond, r.before = (r.now-r.before)/took, r.now
	}
	for _, p := range m.pages {
		if first || p.History.End == 0 { // a part of a second would look like a drop
			p.before, p.History.End = p.counts, over
			continue
		}
		grown := p.counts.less(p.before)
		p.before = p.counts
		p.Asked, p.Sent, p.Refused, p.Delay = int(grown.Asked/took), int(grown.Sent/took), int(grown.Refused/took), 0
		if grown.Copies > 0 {
			p.Delay = grown.Delay.Seconds() / float64(grown.Copies)
		}
		p.History.add(over, p)
	}
}

// forget drops pages and sources that no replica told of for long.
func (m *merger) forget(now time.Time, answers []answer) {
	for id, p := range m.pages {
		if now.Sub(p.heard) > forgetAfter {
			delete(m.pages, id)
			maps.DeleteFunc(m.last, func(s source, _ Counts) bool { return s.page == id })
		}
	}
	if len(m.states) > len(answers) {
		gone := func(replica string) bool {
			return !slices.ContainsFunc(answers, func(a answer) bool { return a.Name == replica })
		}
		maps.DeleteFunc(m.states, func(name string, _ Replica) bool { return gone(name) })
		maps.DeleteFunc(m.calls, func(name string, _ *rate) bool { return gone(name) })
		maps.DeleteFunc(m.last, func(s source, _ Counts) bool { return gone(s.replica) })
	}
}

// choose says which pages are shown.
func (m *merger) choose(now time.Time, shown []string) {
	if shown != nil {
		m.shown = shown[:min(len(shown), MaxPages)]
		return
	}
	if now.Sub(m.chosen) < chooseEvery && len(m.shown) == min(len(m.pages), MaxPages) {
		return
	}
	m.chosen = now
	list := slices.SortedFunc(maps.Values(m.pages), func(a, b *pageCounts) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(b.Asked+b.Sent, a.Asked+a.Sent), cmp.Compare(a.ID, b.ID))
	})
	m.shown = nil
	for _, p := range list[:min(len(list), MaxPages)] {
		m.shown = append(m.shown, p.ID)
	}
	slices.Sort(m.shown)
}
