// Package cases has the table of load tests. A case has a demand, events that happen
// meanwhile, and bounds that this project's dispatcher must keep.
// Package trial plays it.
package cases

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/internal/queue"
	"chatclub/loadtest/load"
	"chatclub/loadtest/report"
)

// Case is a row of the table of load tests.
type Case struct {
	Name   string
	Title  string // one line
	Source string // where it comes from, one line

	Webhook bool // signed events go through the whole system; otherwise copies straight onto the queue
	Setting      // the defaults
	Parts   []Part
}

// Part is one run of each strategy.
type Part struct {
	Label    string // empty: the only one
	Baseline bool   // it is not compared, but what the others are measured against: only this project's strategy plays it
	Setting         // the case's, which With fills in

	// What is sent.
	Streams    []Stream
	Media      float64       // limit of audio and video as platform and dispatchers have it; 0: their defaults
	MessageTTL time.Duration // 0: an hour

	Steps  []Step         // what happens
	Bounds []report.Bound // what must hold beside what must hold of every run

	Deployed bool // it is played on a deployment that runs, of which dead letters count as lost

	InTime time.Duration // within which a copy must have arrived to count as goodput, or to make a room complete; 0: neither is measured
	Unfull bool          // there is not always something to send: the share of the quota says nothing
}

// Setting is the way in which a case is played. Zero values are filled in.
type Setting struct {
	Length   time.Duration // of the load; default 20 s
	Drain    time.Duration // how long to wait for the rest after the load; 0: what is left is counted, not awaited
	Replicas int           // dispatchers at the start; default 4
	Limit    float64       // messages per second and page that the platform takes, as the dispatchers are told; default 300
	Latency  string        // the platform's; default Messenger's own
	Room     int           // members of a room; 0: messages are single copies
}

// or fills in the values that are not set.
func (s Setting) or(d Setting) Setting {
	return Setting{
		Length: cmp.Or(s.Length, d.Length), Drain: cmp.Or(s.Drain, d.Drain),
		Replicas: cmp.Or(s.Replicas, d.Replicas), Limit: cmp.Or(s.Limit, d.Limit), Latency: cmp.Or(s.Latency, d.Latency),
		Room: cmp.Or(s.Room, d.Room),
	}
}

// usual are the defaults of cases that say nothing.
var usual = Setting{Length: 20 * time.Second, Replicas: 4, Limit: 300, Latency: "lognormal:700ms,1.9s"}

// Warm is the part of the load that the share of the quota used leaves out: a quarter in
// whole seconds, 5 s at most.
func (s Setting) Warm() time.Duration {
	return min(5*time.Second, (s.Length / 4).Round(time.Second))
}

// MostLength bounds the load: an hour. The judge's memory of a page is as long.
const MostLength = time.Hour

// With returns the case with all settings filled in. Flags come before the case's
// defaults. The error names every flag that is wrong.
func (c Case) With(flags Setting) (Case, error) {
	var faults []error
	bad := func(flag, format string, args ...any) {
		faults = append(faults, fmt.Errorf("-%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	s := flags.or(c.Setting).or(usual)
	if s.Length < time.Second || s.Length > MostLength {
		bad("duration", "%v must be 1s to %v", s.Length, MostLength)
	}
	if s.Replicas < 1 || s.Replicas > 256 {
		bad("replicas", "%d must be 1 to 256", s.Replicas)
	}
	if s.Limit < 1 || s.Limit > 1_000_000 {
		bad("limit", "%g must be 1 to 1000000", s.Limit)
	}
	if _, err := fakeapi.ParseLatency(s.Latency); err != nil {
		bad("latency", "%v", err)
	}
	if s.Room != 0 && (s.Room < 2 || s.Room > 100) {
		bad("room", "%d must be 2 to 100, or 0", s.Room)
	}
	c.Setting = s
	c.Parts = slices.Clone(c.Parts)
	for i := range c.Parts {
		c.Parts[i].Setting = s
	}
	return c, errors.Join(faults...)
}

// Groups of pages, by how they are judged. Streams may have others.
const (
	Hot  = "hot"  // pages with more to send than their limit
	Cold = "cold" // pages that stay below it
	Sick = "sick" // what cannot be sent, and so is judged with nothing else
)

// Stream is a demand on some pages, in open loop. Where the setting has rooms, the
// copies come as events in these.
type Stream struct {
	Group string
	Pages []Page

	Times    float64       // copies a second, as a multiple of each page's limit
	Rate     float64       // or copies a second of all pages together
	Burst    int           // copies that land at once
	Every    time.Duration // they land again and again; 0: once
	From, To float64       // begin and end as shares of the length; To 0: the end
	InTurn   bool          // one page after another; otherwise by their weights at random

	People  int       // who get the copies, of each page; default 2000
	Poisson bool      // at random times, as of independent users
	Audio   bool      // voice messages in place of texts; where the stream is hot, its pages' quota is of these
	Backlog bool      // it is there to be worked off: that it takes its time to be published is no fault
	Ill     *Sickness // what is wrong with the pages, from the begin of the load; nil: nothing
}

// Page is a page and its share of a stream.
type Page struct {
	ID     string
	Weight float64
}

// Sickness is the fate of calls for a stream's pages, or for some of their people.
// Copies to these belong to the group Sick, whatever the stream's is.
type Sickness struct {
	People int           // so many of each page, the first; 0: everybody
	Code   string        // of the fake's catalogue, that calls are answered with
	Hang   time.Duration // in place of a code: there is no answer for so long
}

// Action is something that happens during the load.
type Action string

// The actions.
const (
	Join    Action = "dispatchers join"
	Leave   Action = "dispatchers leave, the oldest first"
	Kill    Action = "dispatchers are killed, and one is left at least"
	Restart Action = "a dispatcher is stopped, and another starts"
	Limit   Action = "the platform's limit changes"
	// OtherApp takes a share of the limit from now on.
	OtherApp Action = "another app sends for the pages"
)

// Step is an action at a time, which is a share of the length.
type Step struct {
	At   float64
	Do   Action
	Size float64 // of the dispatchers at the start, or of the limit
}

// Schedule returns when the stream's copies are due in a setting.
func (s Stream) Schedule(set Setting) []load.Segment {
	share := func(x float64) time.Duration { return time.Duration(x * float64(set.Length)) }
	rate := s.Rate
	for _, p := range s.Pages {
		rate += s.Times * set.Limit * p.Weight
	}
	begin, length := share(s.From), share(cmp.Or(s.To, 1))-share(s.From)
	list := []load.Segment{{For: begin}}
	for s.Every > 0 && length >= 2*s.Every {
		list = append(list, load.Segment{Burst: s.Burst, Rate: rate, For: s.Every})
		length -= s.Every
	}
	return append(list, load.Segment{Burst: s.Burst, Rate: rate, For: length})
}

// inFlight is the bound of the doubled messages of a killed dispatcher: those in its
// calls. A saturated page has 240 calls at the platform's latency, 300/s × 0.8 s; twice
// as many are allowed for. Each carries some four messages.
const inFlight = 2 * 240 * 4

// Must returns all that must hold of a part's run. In every run nothing may be lost,
// misdirected, doubled or overtaken, except a killed dispatcher's calls. Messages die only
// of age or of a sickness.
func (p Part) Must() []report.Bound {
	kills := 0
	for _, s := range p.Steps {
		if s.Do == Kill {
			kills += p.Count(s)
		}
	}
	doubled := int64(kills * inFlight)
	list := []report.Bound{
		report.AtMost(report.Lost, 0), report.AtMost(report.Duplicated, float64(doubled)), report.AtMost(report.Unexpected, 0),
		report.AtMost(report.Overtaken, float64(ledger.MostOvertaken(kills > 0, doubled))),
	}
	mayDie := p.Deployed || p.MessageTTL > 0 || slices.ContainsFunc(p.Streams, func(s Stream) bool { return s.Ill != nil })
	if !mayDie {
		list = append(list, report.AtMost(report.Dead, 0))
	}
	return append(list, p.Bounds...)
}

// Count returns the number of dispatchers that a step is about, at least 1.
func (p Part) Count(s Step) int { return max(1, int(s.Size*float64(p.Replicas))) }

// Expect judges the runs of this project's strategy, in the order of the parts.
func (c Case) Expect(runs []report.Run) (list []report.Expectation) {
	var baseline *report.Run
	for i, p := range c.Parts {
		for _, b := range p.Must() {
			list = append(list, runs[i].Expect(b, baseline))
		}
		if p.Baseline && baseline == nil {
			baseline = &runs[i]
		}
	}
	return list
}

// Takes returns about how long the case takes with so many strategies: users who join,
// and a backlog that is waited for, come on top.
func (c Case) Takes(strategies int) (all time.Duration) {
	const around = 12 * time.Second // until the dispatchers have their places, and have stopped
	for _, p := range c.Parts {
		times := strategies
		if p.Baseline {
			times = 1
		}
		all += time.Duration(times) * (p.Length + around)
	}
	return all
}

// Deployable returns an error for a part that cannot be played on a deployment that runs
// already: with other settings of its dispatchers or its platform, or with dispatchers
// that come and go. To change the platform's limit is allowed.
func (p Part) Deployable() error {
	own := p.MessageTTL != 0 ||
		slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Do != Limit && s.Do != OtherApp }) ||
		slices.ContainsFunc(p.Streams, func(s Stream) bool { return s.Ill != nil || s.Audio })
	if own {
		return errors.New("not on a running deployment: the case needs a platform, dispatchers or users of its own, as only their operator can make them")
	}
	return nil
}

// On returns the part with its pages, in their order, replaced by others.
func (p Part) On(ids []string) (Part, error) {
	names := make(map[string]string)
	p.Streams = slices.Clone(p.Streams)
	for i := range p.Streams {
		pages := slices.Clone(p.Streams[i].Pages)
		for k, page := range pages {
			if _, ok := names[page.ID]; !ok && len(names) == len(ids) {
				return p, fmt.Errorf("the case needs more pages than the %d that there are", len(ids))
			} else if !ok {
				names[page.ID] = ids[len(names)]
			}
			pages[k].ID = names[page.ID]
		}
		p.Streams[i].Pages = pages
	}
	return p, nil
}

// Pages returns the ids of all pages, or of those of a group.
func (p Part) Pages(group string) (ids []string) {
	for _, s := range p.Streams {
		for _, page := range s.Pages {
			if group == "" || s.Group == group {
				ids = append(ids, page.ID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// pages are n pages of equal weight from first on.
func pages(first, n int) []Page {
	list := make([]Page, n)
	for i := range list {
		list[i] = Page{ID: strconv.Itoa(first + i), Weight: 1}
	}
	return list
}

// Partitions is the number of queues that share the messages to the dispatchers.
const Partitions = 64

// neighbour returns a page of another one's partition.
func neighbour(page string) []Page {
	t := queue.Topology{Partitions: Partitions}
	for n := firstCold; ; n++ {
		if id := strconv.Itoa(n); t.PartitionOf(id) == t.PartitionOf(page) {
			return []Page{{ID: id, Weight: 1}}
		}
	}
}

// Find returns the case of a name.
func Find(name string) (Case, bool) {
	i := slices.IndexFunc(All(), func(c Case) bool { return c.Name == name })
	if i < 0 {
		return Case{}, false
	}
	return All()[i], true
}
