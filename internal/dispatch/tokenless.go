package dispatch

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
)

// Nothing can be sent for a page without a token, and anybody who publishes can name any
// number of such pages. So those of a partition share one line: it has one bound, one lane
// and no call. Its messages wait for the tokens, and are dead after some minutes.

const (
	// noToken is the page in the key of that line. A page's id has no white space.
	noToken = "pages without a token"
	// tokenPatience is the longest wait of a message for its page's token: the pages file
	// is often written after the page was connected.
	tokenPatience = 5 * time.Minute
	// sortEvery is the period of the look at what waits for tokens, unless a token is told.
	sortEvery = time.Second
	// mostDying is the largest number of messages of a partition on their way to other queues
	// while more of these die, and dyingEvery the period of the look for room. 8,000 at once kept
	// a busy broker from the other pages for seconds.
	mostDying  = 512
	dyingEvery = 200 * time.Millisecond
	// tokenlessLogged is the period of the log line about all pages without a token.
	tokenlessLogged = time.Minute
	// tokenlessNamed is the number of pages that a log line names.
	tokenlessNamed = 10
	// tokenlessKept is the time for which a page without a token is remembered after its
	// last message.
	tokenlessKept = time.Hour
	// mostTokenless bounds the pages that are remembered, in some 15 MB. Of more core is
	// not told, and what comes with their token may overtake what is in the lane.
	mostTokenless = 1 << 16
	// stoppedTold is the least time between two reports to core that a page has no token.
	stoppedTold = 10 * time.Second
)

// errNoToken is the cause of death of a message.
var errNoToken = errors.New("the page has no token in the pages file")

// tokenless knows the pages without a token that messages came of.
type tokenless struct {
	*run
	pages  map[string]*lacking
	lost   map[string]time.Time // pages that the file has lost, for tokenPatience
	since  time.Time            // of the tokens before nothing is known
	logged time.Time
	found  []string // pages that have a token again, to be logged
}

// lacking is a page without a token.
type lacking struct {
	keys  []excess.Key // that its messages would have with one
	since time.Time
	last  time.Time // when a message came or died
	told  time.Time // when core was told last; zero: never
}

func newTokenless(r *run) *tokenless {
	return &tokenless{run: r, pages: make(map[string]*lacking), lost: make(map[string]time.Time), since: r.Now()}
}

// sharedKey returns the key of the line that the partition's pages without a token share.
func (p *partition) sharedKey() excess.Key {
	return excess.Key{Page: noToken, Class: strconv.Itoa(p.index)}
}

// lacks reports whether a page's messages wait for its token. Those of a paused page wait
// for the end of the pause.
func (t *tokenless) lacks(page string, now time.Time) bool {
	if t.LacksToken == nil || page == noToken || !t.LacksToken(page) {
		return false
	}
	_, paused := t.orders.Page(page).Paused(now)
	return !paused
}

// isOver reports whether a message has waited for its page's token for as long as it may,
// and this replica knows of that time that there was none. Pauses do not count.
func (t *tokenless) isOver(m *held, now time.Time) bool {
	age := m.out.Age(now)
	if age <= tokenPatience || now.Sub(t.since) <= tokenPatience || now.Sub(t.lost[m.out.Page]) <= tokenPatience {
		return false
	}
	return age-t.orders.Page(m.out.Page).Held(now.Add(-age), now) > tokenPatience
}

// add remembers the page of a message.
func (t *tokenless) add(m *held, k excess.Key, now time.Time) {
	p := t.pages[m.out.Page]
	if p == nil {
		if len(t.pages) == mostTokenless {
			return
		}
		p = &lacking{since: now}
		t.pages[m.out.Page] = p
	}
	if p.last = now; !slices.Contains(p.keys, k) {
		p.keys = append(p.keys, k)
	}
}

// death is that of a message whose page has no token. Core is told once in a while, and
// tries the page again as late as messages wait.
func (t *tokenless) death(m *held, now time.Time) death {
	d := death{reason: message.ReasonPageStopped, err: errNoToken, at: now, until: now.Add(tokenPatience)}
	if p := t.pages[m.out.Page]; p != nil {
		if p.last = now; now.Sub(p.told) >= stoppedTold {
			p.told, d.tell = now, true
		}
	}
	return d
}

// list lists at most listLimit pages, the longest without a token first.
func (t *tokenless) list() []SuspendedPage {
	list := make([]SuspendedPage, 0, len(t.pages))
	for page, p := range t.pages {
		list = append(list, SuspendedPage{Page: page, Since: p.since})
	}
	return list
}

// forget forgets pages that another replica owns from now on.
func (t *tokenless) forget(isGone func(page string) bool) {
	maps.DeleteFunc(t.pages, func(page string, _ *lacking) bool { return isGone(page) })
}

// check logs once in a while how much waits for tokens, and forgets pages of which nothing
// came for long.
func (t *tokenless) check(now time.Time, p *pages) {
	if len(t.found) > 0 {
		t.Log.Info("pages have a token again", "pages", len(t.found), "first", t.found[:min(tokenlessNamed, len(t.found))])
		t.found = nil
	}
	if len(t.pages)+len(t.lost) == 0 || now.Sub(t.logged) < tokenlessLogged {
		return
	}
	maps.DeleteFunc(t.pages, func(_ string, l *lacking) bool { return now.Sub(l.last) > tokenlessKept })
	maps.DeleteFunc(t.lost, func(_ string, at time.Time) bool { return now.Sub(at) > tokenPatience })
	waiting := 0
	for _, l := range p.lines {
		if l.shared != nil {
			waiting += l.waiting
		}
	}
	if waiting == 0 {
		return
	}
	t.logged = now
	names := slices.Sorted(maps.Keys(t.pages))
	t.Log.Error("pages have no token in the pages file: their messages wait, and are dead after five minutes",
		"pages", len(names), "messages", waiting, "first", names[:min(tokenlessNamed, len(names))])
}

// assign says which line a message that has come belongs to: the one of the pages without a
// token, or its page's own. What came of the page before is there, too, and before it.
func (e *engine) assign(m *held, now time.Time) {
	if !e.tokenless.lacks(m.out.Page, now) {
		if e.tokenless.pages[m.out.Page] == nil {
			return
		}
		e.tellRegained(m.out.Page, now)
		if l := e.pages.lines[m.source.claim.partition.sharedKey()]; l != nil {
			e.sort(l, now)
		}
		return
	}
	k := m.key()
	if l := e.pages.lines[k]; l != nil {
		e.gather(l, now)
	}
	e.tokenless.add(m, k, now)
	m.noToken = true
}

// gather has what waits of a page that has no token any more wait with that of the others
// without one. Calls under way end as they do.
func (e *engine) gather(l *line, now time.Time) {
	list := l.remove(func(*held) bool { return true })
	l.movable = nil
	for _, m := range list {
		e.tokenless.add(m, l.key, now)
		m.noToken, m.due = true, time.Time{}
		with := e.pages.lineOf(m)
		e.pages.push(with, m)
		if l.spill != nil && with.spill == nil { // older ones may be there
			e.lanes.spillTo(with, l.spill.lane, now)
		}
		e.pages.mark(with)
		e.pages.mark(l)
	}
}

// sort goes through what waits of the pages without a token: what may go on, or has waited
// for too long, leaves the line. It dies no faster than the broker takes it.
func (e *engine) sort(l *line, now time.Time) {
	var list []*held
	actions := make(map[*held]action)
	for _, r := range l.recipients {
		for _, m := range r.msgs {
			if a := e.decide(l, m, now); a.do != wait {
				actions[m] = a
				list = append(list, m)
			}
		}
	}
	slices.SortFunc(list, bySeq)
	next, room := sortEvery, mostDying
	if c := l.shared.claim; c != nil {
		room -= c.count(movingOf)
	}
	for _, m := range list {
		if actions[m].do != bury {
			continue
		}
		if room--; room < 0 {
			delete(actions, m)
			next = dyingEvery
		}
	}
	list = l.remove(func(m *held) bool { return actions[m].do != wait })
	for _, m := range list {
		e.end(m, actions[m], now)
	}
	if len(list) > 0 {
		l.progress = now
		l.movable = slices.DeleteFunc(l.movable, func(m *held) bool { return !m.noToken })
		e.pages.mark(l)
	}
	if l.wakeAt = (time.Time{}); l.waiting > 0 {
		e.pages.wake(l, now, next)
	}
}

// release puts a message into its page's own line.
func (e *engine) release(m *held, now time.Time) {
	e.tellRegained(m.out.Page, now)
	m.noToken = false
	l := e.pages.lineOf(m)
	if m.out.Broadcast != "" && m.source.lane == nil {
		e.pages.standAside(l, m, now)
	} else {
		e.pages.push(l, m)
	}
	l.wakeAt = time.Time{}
	e.pages.mark(l)
}

// tellRegained is regain, and has core told if it was told before.
func (e *engine) tellRegained(page string, now time.Time) {
	if e.regain(page, now) {
		e.news.add(page, "", now)
	}
}

// regain forgets that a page had no token, and has what waits of it go to the page's own
// line before anything else. The lane in which more may be is that line's, too. It reports
// whether core was told that there is none, and there is one now.
func (e *engine) regain(page string, now time.Time) (told bool) {
	p := e.tokenless.pages[page]
	if p == nil {
		return false
	}
	delete(e.tokenless.pages, page)
	if l := e.pages.lines[e.claims.partitions[e.Broker.Topology().PartitionOf(page)].sharedKey()]; l != nil {
		l.wakeAt = time.Time{}
		e.pages.mark(l)
		for _, k := range p.keys {
			if l.spill == nil {
				break
			}
			if own := e.pages.line(k); own.spill == nil {
				e.lanes.spillTo(own, l.spill.lane, now)
			}
		}
	}
	if e.LacksToken(page) { // it is paused
		return false
	}
	e.tokenless.found = append(e.tokenless.found, page)
	return !p.told.IsZero()
}
