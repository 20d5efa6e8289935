package console

import (
	"slices"
	"time"

	"chatclub/internal/dispatch"
)

// pageCounts is a page as it is shown, and the counts behind it.
type pageCounts struct {
	Page

	counts  Counts // in all
	before  Counts // when the second that runs began
	heard   time.Time
	actedAt time.Time // its owner did something

	explained int // messages that wait for Reason
}

// isStopped reports whether nothing is sent for the page.
func (p *Page) isStopped() bool {
	return p.State == "suspended" || p.State == "paused" || p.State == "sick" || p.Reason == dispatch.WaitsForHint ||
		p.Reason != "" && !p.Reason.Explain().Alone
}

// waitsForLimit reports whether messages wait for the page's limit, or for a moment.
func (p *Page) waitsForLimit() bool {
	switch p.Reason { //nolint:exhaustive // the others take longer
	case "", dispatch.WaitsForLimit, dispatch.WaitsForAnswer, dispatch.WaitsForPerson:
		return true
	}
	return false
}

// explain takes what a dispatcher says of one class: what most messages wait for counts.
func (p *pageCounts) explain(s *dispatch.PageStatus) {
	p.Oldest = max(p.Oldest, s.Oldest)
	if s.Waiting <= p.explained || s.Reason == "" {
		return
	}
	p.explained, p.Reason, p.Short, p.Waits, p.Ends = s.Waiting, s.Reason, s.Reason.Explain().Short, s.Reason.Sentence(s.Until), nil
	if !s.Until.IsZero() && s.Reason != dispatch.WaitsForLimit {
		p.Ends = &s.Until
	}
}

// rank returns the urgency of showing a page.
func rank(p *pageCounts) int {
	switch p.State {
	case "excess", "suspended", "sick", "paused":
		return 1
	}
	return 0
}

// view is the page as it is shown.
func (p *pageCounts) view(dispatchers []Dispatcher) Page {
	v := p.Page
	v.Limit, v.Waiting = p.counts.Limit, int(p.counts.Waiting)
	switch {
	case v.isStopped(): // nobody knows for how long
		v.Wait, v.Arrival = 0, nil
	case v.Arrival != nil && v.Waiting > 0:
		v.Wait = v.Arrival.After
	case v.Limit > 0:
		v.Wait = float64(v.Waiting) / float64(v.Limit)
	}
	if v.State == "free" && (v.Wait >= 1 || v.Waiting > 0 && v.isStopped()) { // nobody says so, but it is
		v.State = "excess"
	}
	if !slices.ContainsFunc(dispatchers, func(d Dispatcher) bool { return d.Name == v.Owner }) {
		v.Owner = ""
	}
	h := &v.History
	for _, list := range []*[]int{&h.Sent, &h.Refused, &h.Asked, &h.Limit, &h.Waiting, &h.Delay} {
		*list = append([]int{}, *list...) // the readers of a State have it for themselves
	}
	return v
}

// add enters a second; those that were missed are like it.
func (h *History) add(second int64, p *pageCounts) {
	for n := min(second-h.End, HistorySeconds); n > 0; n-- {
		for _, v := range []struct {
			to    *[]int
			value int
		}{
			{&h.Sent, p.Sent},
			{&h.Refused, p.Refused},
			{&h.Asked, p.Asked},
			{&h.Limit, p.counts.Limit},
			{&h.Waiting, int(p.counts.Waiting)},
			{&h.Delay, int(1000 * p.Delay)},
		} {
			if *v.to = append(*v.to, v.value); len(*v.to) > HistorySeconds {
				*v.to = slices.Delete(*v.to, 0, 1)
			}
		}
	}
	h.End = second
}

func (c *Counts) add(o Counts) {
	c.Asked += o.Asked
	c.Sent += o.Sent
	c.Refused += o.Refused
	c.Copies += o.Copies
	c.Delay += o.Delay
}

// less returns the difference of c and o. Waiting and Limit are those of c.
func (c Counts) less(o Counts) Counts {
	c.Asked -= o.Asked
	c.Sent -= o.Sent
	c.Refused -= o.Refused
	c.Copies -= o.Copies
	c.Delay -= o.Delay
	return c
}

// rate is the growth of a number in the last full second.
type rate struct {
	now, before, perSecond int64
	read                   int64 // the replica's last number
}

// count adds the growth of a replica's number. A smaller one has begun again.
func (r *rate) count(told int64) {
	if told < r.read {
		r.read = 0
	}
	r.now += told - r.read
	r.read = told
}
