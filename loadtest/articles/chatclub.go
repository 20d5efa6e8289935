package articles

import (
	"fmt"
	"slices"
	"time"

	"chatclub/fakeapi"
	"chatclub/internal/article"
	"chatclub/internal/excess"
	"chatclub/loadtest/report"
)

// cold begins the ids of pages that stay below their limits.
const cold = "2"

// chatclub is the experiments of ChatClub's article.
func chatclub() []Experiment {
	return []Experiment{
		{"chatclub-chart", "ChatClub: its chart of calls that pass a little above the limit", lenient},
		{"chatclub-starvation", "ChatClub: refused messages starve without a counter", starvation},
		{"chatclub-threads", "ChatClub: threads that pages in excess block, and more dispatchers", threads},
		{"chatclub-block", "ChatClub: Facebook blocks an app with many errors", block},
	}
}

// moveTime is the time in which a thread moves a message of a page in excess to the tail: a
// publish with its confirm, and an acknowledgement. It sleeps for so long, too, where there
// is nothing to send.
const moveTime = 5 * time.Millisecond

// text is a message on its way.
type text struct {
	page         string
	due, refused time.Time // refused is the time of its first refusal; zero: none
}

// room is the world of ChatClub's article: a queue, dispatchers, and the platform.
type room struct {
	*clock
	*platform
	queue   []*text
	sent    []float64 // when, in seconds
	calm    []float64 // waits of the calm pages' messages, until they are taken
	starved []float64 // waits of refused messages, from the first refusal on
	refused int
	holding int     // threads that wait with a refused message
	blocked float64 // when the app was, in seconds; 0: it was not
}

// roomTime is the length of each experiment with a room.
const roomTime = 30 * time.Second

func newRoom(seed uint64, perSecond int, change func(*fakeapi.Settings)) *room {
	c := newClock(roomTime)
	return &room{clock: c, platform: newPlatform(c, seed, perSecond, "fixed:40ms", change)}
}

// offer has messages for a page come.
func (r *room) offer(page string, perSecond float64, gap func() float64) {
	r.every(always(perSecond), gap, func() { r.queue = append(r.queue, &text{page: page, due: r.now}) })
}

// try calls the platform with a message, and notes what came of it.
func (r *room) try(m *text) (excess.Result, time.Duration) {
	got, latency := r.call(m.page)
	switch got {
	case excess.Accepted:
		r.sent = append(r.sent, r.since())
		if m.page[:1] == cold {
			r.calm = append(r.calm, r.now.Sub(m.due).Seconds())
		}
		if !m.refused.IsZero() {
			r.starved = append(r.starved, r.now.Sub(m.refused).Seconds())
		}
	case excess.Refused:
		if r.refused++; m.refused.IsZero() {
			m.refused = r.now
		}
	case excess.Other:
		if r.blocked == 0 { // what comes after it is the same with all
			r.blocked, r.end = r.since(), r.now
		}
	}
	return got, latency
}

// dispatcher is one whose threads share a gate.
type dispatcher struct {
	*room
	article.Gate
	again []*text // refused ones whose pause is over
	keeps bool    // a thread waits with a refused message until that is taken; otherwise it goes on
}

// fleet starts dispatchers.
func (r *room) fleet(n, threads int, keeps bool, gate func(seed uint64) article.Gate) {
	for i := range n {
		d := &dispatcher{room: r, Gate: gate(uint64(i)), keeps: keeps}
		for range threads {
			r.spawn(d.thread)
		}
	}
}

// thread sends as the gate says, one message at a time.
func (d *dispatcher) thread(sleep func(time.Duration)) {
	for d.runs() {
		from := &d.again
		if len(*from) == 0 {
			from = &d.queue
		}
		if len(*from) == 0 {
			sleep(moveTime)
			continue
		}
		m := (*from)[0]
		*from = (*from)[1:]
		k := excess.Key{Page: m.page, Class: "text"}
		if d.Offer(d.now, k, !m.refused.IsZero()).Action != article.Send {
			sleep(moveTime)
			d.queue = append(d.queue, m)
			continue
		}
		for d.runs() {
			retry := !m.refused.IsZero()
			got, latency := d.try(m)
			sleep(latency)
			pause := d.Done(d.now, k, retry, got)
			if got == excess.Accepted {
				break
			}
			if !d.keeps {
				d.after(pause, func() { d.again = append(d.again, m) })
				break
			}
			d.holding++
			sleep(pause)
			d.holding--
		}
	}
}

// ours is chatclub's way: a page has one sender, which asks the excess map, and what waits
// is in the page's own line.
func (r *room) ours(limit float64) {
	m := excess.New(func(excess.Key) float64 { return limit })
	lines, pages := make(map[string][]*text), []string(nil)
	r.every(always(1000), steady, func() {
		for _, t := range r.queue {
			if lines[t.page] == nil {
				pages = append(pages, t.page)
			}
			lines[t.page] = append(lines[t.page], t)
		}
		r.queue = nil
		for _, page := range pages {
			for len(lines[page]) > 0 {
				wait, permit := m.Offer(r.now, excess.Key{Page: page, Class: "text"}, time.Time{})
				if wait > 0 {
					break
				}
				first := lines[page][0]
				lines[page] = lines[page][1:]
				got, latency := r.try(first)
				r.after(latency, func() {
					if m.Done(r.now, permit, got); got != excess.Accepted {
						lines[page] = slices.Insert(lines[page], 0, first)
					}
				})
			}
		}
	})
}

// uncounted is the article's map without its counter: the first refused message that is
// taken frees its page, and the others wait beside new ones.
type uncounted struct {
	article.Gate
	in map[excess.Key]bool
}

func (g *uncounted) Done(now time.Time, k excess.Key, _ bool, r excess.Result) time.Duration {
	if known := g.in[k]; known != (r == excess.Refused) {
		g.in[k] = !known
		return g.Gate.Done(now, k, known, r)
	}
	return article.Pause(func() float64 { return .5 })
}

func counted(seed uint64) article.Gate { return article.New(random(seed).Float64) }

func notCounted(seed uint64) article.Gate {
	return &uncounted{counted(seed), make(map[excess.Key]bool)}
}

// lenient: a page has twice its limit to send, and in three of ten seconds the platform
// lets a tenth more pass.
func lenient(seed uint64) (res Result) {
	const limit, length = 300, 30
	chart := report.Chart{Title: "calls that the platform takes of a page", X: "seconds", Y: "a second", Steps: true}
	for _, row := range []struct {
		name, most, few string
		begin           func(*room)
		bounds          [4]float64
	}{
		{"article", "a little above 300", "few", func(r *room) { r.fleet(4, 10, false, counted) }, [4]float64{301, 330, .05, 1}},
		{report.Own, "", "", func(r *room) { r.ours(limit) }, [4]float64{290, 300, 0, .01}},
	} {
		r := newRoom(seed, limit, func(s *fakeapi.Settings) { s.Text.LenientSeconds, s.Text.LenientExtra = .3, .1 })
		r.offer(hot, 2*limit, steady)
		row.begin(r)
		r.run()
		l := course(row.name, r.sent, 1, length)
		chart.Lines = append(chart.Lines, l)
		res.Rows = append(res.Rows,
			Row{"most that is taken in a second, " + row.name, row.most, slices.Max(l.Y), "", row.bounds[0], row.bounds[1]},
			Row{"refused calls for each taken, " + row.name, row.few, float64(r.refused) / float64(len(r.sent)), "%", row.bounds[2], row.bounds[3]})
	}
	chart.Lines = append(chart.Lines, report.Line{Name: "limit", X: []float64{0, length - 1}, Y: []float64{limit, limit}})
	res.Charts = []report.Chart{chart}
	return res
}

// starvation: a page has twice its limit of 100 a second to send.
func starvation(seed uint64) (res Result) {
	chart := report.Chart{Title: "refused messages by how long they wait to be taken", X: "share of them", Y: "seconds"}
	for _, row := range []struct {
		name, says  string
		gate        func(uint64) article.Gate
		least, most float64
	}{
		{"without the counter", "they starve", notCounted, 4, 30},
		{"with it", "they do not", counted, 0, 3},
	} {
		r := newRoom(seed, 100, func(*fakeapi.Settings) {})
		r.offer(hot, 200, steady)
		r.fleet(4, 25, false, row.gate)
		r.run()
		chart.Lines = append(chart.Lines, spread(row.name, r.starved))
		res.Rows = append(res.Rows, Row{"p99 of a refused message's wait, " + row.name, row.says, quantile(r.starved, .99), "s", row.least, row.most})
	}
	res.Charts = []report.Chart{chart}
	return res
}

// threads: some pages have a fifth more to send than their limit of 10 a second, and 100
// others a message a second each. A refused message blocks its thread.
func threads(seed uint64) (res Result) {
	chart := report.Chart{Title: "messages of calm pages by how long they wait", X: "share of them", Y: "seconds"}
	for _, row := range []struct {
		inExcess, dispatchers, threads int // without dispatchers: ours
		says                           string
		bounds                         [4]float64
	}{
		{5, 4, 10, "few threads block", [4]float64{10, 25, 0, 3}},
		{20, 4, 10, "more block", [4]float64{15, 40, 3, 15}},
		{20, 12, 10, "fewer, with more dispatchers", [4]float64{50, 120, 1, 15}},
		{20, 4, 30, "", [4]float64{50, 120, 1, 15}},
		{20, 0, 0, "", [4]float64{0, 0, 0, .1}},
	} {
		r, src := newRoom(seed, 10, func(*fakeapi.Settings) {}), random(seed)
		for i := range 100 {
			r.offer(cold+fmt.Sprint(i), 1, src.ExpFloat64)
			if i < row.inExcess {
				r.offer(hot+fmt.Sprint(i), 12, src.ExpFloat64)
			}
		}
		var held []float64
		r.every(always(10), steady, func() { held = append(held, float64(r.holding)) })
		name := fmt.Sprintf("%d in excess, ", row.inExcess) + report.Own
		if row.dispatchers == 0 {
			r.ours(10)
		} else {
			r.fleet(row.dispatchers, row.threads, true, counted)
			name = fmt.Sprintf("%d in excess, %d × %d threads", row.inExcess, row.dispatchers, row.threads)
		}
		r.run()
		chart.Lines = append(chart.Lines, spread(name, r.calm))
		res.Rows = append(res.Rows,
			Row{"threads that are blocked, " + name, row.says, mean(held), "", row.bounds[0], row.bounds[1]},
			Row{"p99 wait on calm pages, " + name, "", quantile(r.calm, .99), "s", row.bounds[2], row.bounds[3]})
	}
	res.Charts = []report.Chart{chart}
	res.Notes = []string{"The opposite of the article: each page in excess blocks a thread of every dispatcher, so more dispatchers have more that are blocked, and help the calm pages little."}
	return res
}

// block: a page has twice its limit to send for 30 s, and the platform blocks an app of
// whose calls in 10 s more than a share fails.
func block(seed uint64) (res Result) {
	for _, row := range []struct {
		name  string
		begin func(*room)
		when  [3]float64 // the app is blocked by then, at each share; 0: it is not
	}{
		{"naive", func(r *room) { r.fleet(4, 50, false, naive) }, [3]float64{3, 1, 1}},
		{"article", func(r *room) { r.fleet(4, 10, false, counted) }, [3]float64{0, 1, 1}},
		{report.Own, func(r *room) { r.ours(300) }, [3]float64{0, 0, 0}},
	} {
		for i, share := range []float64{.5, .1, .02} {
			r := newRoom(seed, 300, func(s *fakeapi.Settings) {
				s.Block = fakeapi.Block{ErrorRatio: share, MinCalls: 100, Window: fakeapi.Duration(10 * time.Second)}
			})
			r.offer(hot, 600, steady)
			row.begin(r)
			r.run()
			res.Rows = append(res.Rows, Row{fmt.Sprintf("%s blocked after, where %g %% of calls may fail (0: never)", row.name, 100*share), "", r.blocked, "s", min(.01, row.when[i]), row.when[i]})
		}
	}
	return res
}
