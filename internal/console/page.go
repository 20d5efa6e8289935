package console

import (
	"slices"
	"time"
)

// page is what is known of one page.
type page struct {
	Page

	counts  Counts // in all
	before  Counts // when the second that runs began
	heard   time.Time
	actedAt time.Time // its owner did something
}

// rank is how much a page needs to be seen.
func rank(p *page) int {
	switch p.State {
	case "excess", "suspended", "sick", "paused":
		return 1
	}
	return 0
}

// view is the page as it is shown.
func (p *page) view(dispatchers []Dispatcher) Page {
	v := p.Page
	v.Limit, v.Waiting = p.counts.Limit, int(p.counts.Waiting)
	if v.Limit > 0 {
		v.Wait = float64(v.Waiting) / float64(v.Limit)
	}
	if v.Arrival != nil && v.Waiting > 0 {
		v.Wait = v.Arrival.After
	}
	if v.State == "free" && v.Wait >= 1 { // nobody says so, but it is
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
func (h *History) add(second int64, p *page) {
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

// less is by how much c is more than o. What waits, and the limit, are those of c.
func (c Counts) less(o Counts) Counts {
	c.Asked -= o.Asked
	c.Sent -= o.Sent
	c.Refused -= o.Refused
	c.Copies -= o.Copies
	c.Delay -= o.Delay
	return c
}

// rate is how much a number grew in the last second that is over.
type rate struct {
	now, before, perSecond int64
	read                   int64 // what the replica told last
}

// count takes in what a replica tells; where that is less it has begun anew.
func (r *rate) count(told int64) {
	if told < r.read {
		r.read = 0
	}
	r.now += told - r.read
	r.read = told
}
