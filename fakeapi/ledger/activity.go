package ledger

import (
	"cmp"
	"slices"
	"time"
)

// Activity is the number of texts that a page accepted and refused in each of the last
// seconds. The second that still runs comes last. The form is made to be drawn.
type Activity struct {
	Page          string   `json:"page"`
	AcceptedTotal int64    `json:"accepted_total"` // since the last Reset, all classes
	RefusedTotal  int64    `json:"refused_total"`
	Accepted      []uint32 `json:"accepted"`
	Refused       []uint32 `json:"refused"`
}

// rankSeconds is the time over which pages are ranked. It is long enough that
// the order does not jump with every second's chance.
const rankSeconds = 10

// Busiest returns the activity of the n pages with the most calls in the last
// ten seconds, the busiest first. Pages with equally many are ranked by all of
// their calls. If the page `besides` has an account and is not among the n, it
// is added at the end. Busiest also returns how many pages there are. It does
// not read the awaited ids.
func (l *Ledger) Busiest(n, seconds int, besides string) (list []Activity, all int) {
	now := l.now()
	type rank struct {
		page        *Page
		recent, all int64
	}
	pages := l.accounts()
	ranks := make([]rank, 0, len(pages))
	for _, p := range pages {
		p.mu.Lock()
		r := rank{page: p, all: p.counts.Accepted + p.counts.Refused}
		for i := len(p.series) - 1; i >= 0 && p.series[i].Unix > now.Unix()-rankSeconds; i-- {
			s := &p.series[i]
			r.recent += int64(s.Text.Accepted) + int64(s.Text.Refused) + int64(s.Media.Accepted) + int64(s.Media.Refused)
		}
		p.mu.Unlock()
		ranks = append(ranks, r)
	}
	slices.SortStableFunc(ranks, func(a, b rank) int { // stable: the accounts are in order of their ids
		return cmp.Or(cmp.Compare(b.recent, a.recent), cmp.Compare(b.all, a.all))
	})
	for i, r := range ranks {
		if i < n || r.page.id == besides {
			list = append(list, r.page.activity(now, seconds))
		}
	}
	return list, len(pages)
}

func (p *Page) activity(now time.Time, seconds int) Activity {
	a := Activity{Page: p.id, Accepted: make([]uint32, seconds), Refused: make([]uint32, seconds)}
	first := now.Unix() - int64(seconds) + 1
	p.mu.Lock()
	defer p.mu.Unlock()
	a.AcceptedTotal, a.RefusedTotal = p.counts.Accepted, p.counts.Refused
	for i := len(p.series) - 1; i >= 0 && p.series[i].Unix >= first; i-- {
		// A second after now belongs to a call that read the clock after us.
		at := min(p.series[i].Unix-first, int64(seconds)-1)
		a.Accepted[at] += p.series[i].Text.Accepted
		a.Refused[at] += p.series[i].Text.Refused
	}
	return a
}
