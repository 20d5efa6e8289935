// Package trial runs one scenario with one way of sharing the limits, and
// writes down what the judge found. A trial announces every message to the
// judge before it is published, counts latencies from the time that a message
// was due, stops the dispatchers at the end and looks at every queue: what was
// neither accepted nor is left, nor dead-lettered with a reason, is lost.
// Nothing of the verdict comes from the system under test.
package trial

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"chatclub/loadtest/fleet"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/load"
	"chatclub/loadtest/report"
)

// Groups of pages, by how they are judged.
const (
	Hot  = "hot"  // pages with more to send than their limit
	Cold = "cold" // pages that stay below it
	Sick = "sick" // what cannot be sent, and so is judged with nothing else
)

// Plan is what a scenario does.
type Plan struct {
	Platform  map[string]any // laid over the fake's settings
	Algorithm string         // of the limiter, where the scenario sets it; what else it is, is in Platform
	Limit     float64        // messages per second and page that the platform takes at the start; with the same told to the dispatchers
	Media     float64        // the same of audio and video; 0: what the platform and the dispatchers do by themselves
	Streams   []Stream
	Length    time.Duration // of the load
	Warm      time.Duration // of it that the share of the quota used leaves out
	Script    []Step        // in order of time
	Foreign   []Foreign
	Options   fleet.Options // LatencyTarget, MessageTTL and MaxInFlight are used
	Replicas  int           // dispatchers at the start

	Room   int           // members of a room; 0: messages are single copies
	InTime time.Duration // within which every copy of a room message must have arrived; 0: rooms are not judged
	Drain  time.Duration // how long to wait for the rest after the load; 0: what is left is counted, not awaited
	Ideal  time.Duration // how long the limits alone would take for all; 0: hot messages by their limit
	Fine   bool          // the series is of tenths of a second

	// Finish adds what only this scenario has. nil: nothing.
	Finish func(run *report.Run, found Found)
}

// around is what a trial needs beside its load, roughly: a second or two until it
// begins, a second of grace and another until the dispatchers have stopped.
const around = 4 * time.Second

// Takes returns about how long a trial of the plan takes. Users who join, and a
// backlog that is waited for longer than the limits alone would take, come on top.
func (p Plan) Takes() time.Duration { return max(p.Length, p.Ideal) + around }

// Found is what the judge has of a run, by groups.
type Found struct {
	Groups map[string]judge.Group
	Tenths map[string][]int64 // acceptances of each group by tenths of a second of the run
	Length time.Duration      // of the load that ran
}

// Stream is a demand on some pages, in open loop.
type Stream struct {
	Group    string
	Pages    []Page
	Segments []load.Segment // of copies; where Room is set they come in rooms
	People   int            // who get the copies, of each page; default 2000
	Poisson  bool           // at random times, as of independent users
	Audio    bool           // voice messages in place of texts; where the stream is hot, its pages' quota is of these
	Sickness *Sickness      // what is wrong with the pages, from the begin of the load; nil: nothing
	Backlog  bool           // it is there to be worked off: that it takes its time to be published is no fault
}

// Sickness is what becomes of calls for a stream's pages, or for some of their
// people. Copies to these belong to the group Sick, whatever the stream's is.
type Sickness struct {
	People int           // so many of each page, the first; 0: everybody
	Code   string        // of the fake's catalogue, that calls are answered with
	Hang   time.Duration // in place of a code: there is no answer for so long
}

// Page is a page and its share of a stream.
type Page struct {
	ID     string
	Weight float64
}

// Pages are n pages of equal weight from first on.
func Pages(first, n int) []Page {
	list := make([]Page, n)
	for i := range list {
		list[i] = Page{ID: strconv.Itoa(first + i), Weight: 1}
	}
	return list
}

// pages are the ids of all pages.
func (p Plan) pages() (ids []string) {
	for _, s := range p.Streams {
		for _, page := range s.Pages {
			ids = append(ids, page.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// on returns the plan with its pages, in their order, replaced by others.
func (p Plan) on(ids []string) (Plan, error) {
	names := make(map[string]string)
	name := func(id string) string {
		if _, ok := names[id]; !ok && len(names) < len(ids) {
			names[id] = ids[len(names)]
		} else if !ok {
			names[id] = ""
		}
		return names[id]
	}
	p.Streams = slices.Clone(p.Streams)
	for i, s := range p.Streams {
		s.Pages = slices.Clone(s.Pages)
		for k := range s.Pages {
			s.Pages[k].ID = name(s.Pages[k].ID)
		}
		p.Streams[i] = s
	}
	p.Foreign = slices.Clone(p.Foreign)
	for i := range p.Foreign {
		p.Foreign[i].Page = name(p.Foreign[i].Page)
	}
	if len(names) > len(ids) {
		return p, fmt.Errorf("the scenario needs %d pages, there are %d", len(names), len(ids))
	}
	return p, nil
}

// Step is something that happens during the load.
type Step struct {
	At   time.Duration
	Name string
	Do   func(ctx context.Context, s *Controls) error
}

// Foreign is another app's calls on a page.
type Foreign struct {
	Page     string
	Segments []load.Segment
}

// Controls is what a Step may change.
type Controls struct {
	fleet     fleet.Fleet
	judge     *judge.Judge
	begin     time.Time
	limits    []limitChange
	changed   bool // the limit, or it may be
	rehearsal bool // nothing is changed; what needs an own system is an error
}

type limitChange struct {
	at    time.Duration
	limit float64
}

// SetLimit changes the platform's limit; the dispatchers are not told.
func (s *Controls) SetLimit(ctx context.Context, perSecond float64) error {
	if s.rehearsal {
		return nil
	}
	s.changed = true
	err := s.judge.Control(ctx, map[string]any{"text": map[string]any{"per_second": int(perSecond)}})
	if err == nil {
		s.limits = append(s.limits, limitChange{time.Since(s.begin), perSecond})
	}
	return err
}

// Kill kills n dispatchers.
func (s *Controls) Kill(ctx context.Context, n int) error { return s.times(ctx, n, fleet.Fleet.Kill) }

// Join starts n more.
func (s *Controls) Join(ctx context.Context, n int) error { return s.times(ctx, n, fleet.Fleet.Join) }

// Leave stops n cleanly.
func (s *Controls) Leave(ctx context.Context, n int) error { return s.times(ctx, n, fleet.Fleet.Leave) }

// Restart stops the oldest dispatcher cleanly and starts another in its place.
func (s *Controls) Restart(ctx context.Context) error {
	if err := s.times(ctx, 1, fleet.Fleet.Retire); err != nil {
		return err
	}
	return s.Join(ctx, 1)
}

func (s *Controls) times(ctx context.Context, n int, do func(fleet.Fleet, context.Context) error) error {
	if s.rehearsal {
		return errOperator
	}
	for range n {
		if err := do(s.fleet, ctx); err != nil {
			return err
		}
	}
	return nil
}
