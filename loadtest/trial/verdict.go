package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/machine"
	"chatclub/loadtest/cases"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/report"
)

// tenth is the finest time that calls are counted by.
const tenth = 100 * time.Millisecond

// verdict reads the ledger, stops the system, accounts for every message, and
// writes down what that came to.
func (t *trial) verdict(ctx context.Context) (run report.Run, err error) {
	groups, err := t.groups(ctx)
	if err != nil {
		return run, err
	}
	t.drained = t.length // the last is not before it was due
	for _, g := range groups {
		t.drained = max(t.drained, g.Last.Sub(t.began))
	}
	if t.fleet != nil {
		if err := t.fleet.Stop(); err != nil {
			t.note("the system did not stop cleanly: %v", err)
		}
	}
	queued, left, err := t.account(ctx)
	if err != nil {
		return run, err
	}
	c, err := t.judge.Totals(ctx)
	if err != nil {
		return run, err
	}
	seconds, err := t.seconds(ctx)
	if err != nil {
		return run, err
	}
	run = report.Run{Strategy: t.Strategy, Replicas: t.Part.Replicas, Figures: make(report.Figures)}
	sent, calls, refused := c.Accepted-t.before.Accepted, c.Calls-t.before.Calls, c.Refused-t.before.Refused
	set := func(name report.Figure, v float64) { run.Figures[name] = v }
	set(report.Sent, float64(sent))
	set(report.Lost, float64(c.Lost-t.earlier.Lost))
	set(report.Duplicated, float64(c.Duplicated-t.earlier.Duplicated+queued))
	set(report.Unexpected, float64(c.Unexpected-t.earlier.Unexpected+c.Unidentified-t.earlier.Unidentified))
	overtaken := float64(c.Inversions - t.earlier.Inversions)
	set(report.Overtaken, overtaken)
	ratio(&run, report.Inversions, overtaken, float64(sent))
	ratio(&run, report.Refused, float64(refused), float64(calls))
	ratio(&run, report.Calls, float64(calls+refused+c.Errors+c.Rejected-t.before.Errors-t.before.Rejected), float64(sent))
	if t.Deployed == nil {
		set(report.Dead, float64(t.dead))
		set(report.Left, float64(left))
	}
	t.costs(&run, float64(sent))
	t.quota(&run, groups, seconds)
	t.latencies(&run, groups)
	t.inTime(&run, groups)
	t.beside(&run, groups)
	t.series(&run, seconds)
	t.doubts(&run)
	return run, nil
}

// ratio enters a / b, unless b is nothing.
func ratio(run *report.Run, name report.Figure, a, b float64) {
	if b > 0 {
		run.Figures[name] = a / b
	}
}

// groups are those of this run.
func (t *trial) groups(ctx context.Context) (map[string]ledger.GroupReport, error) {
	all, err := t.judge.Groups(ctx)
	if err != nil {
		return nil, err
	}
	own := make(map[string]ledger.GroupReport)
	for name, g := range all {
		if name, ok := strings.CutPrefix(name, group(t.id, "")); ok {
			own[name] = g
		}
	}
	return own, nil
}

// mostFollowed bounds the hot pages that are asked for one by one.
const mostFollowed = 100

// seconds reads what the hot pages saw, one by one where they are not too many, and
// all pages together.
func (t *trial) seconds(ctx context.Context) (map[string][]ledger.Second, error) {
	ids := t.Part.Pages(cases.Hot)
	if len(ids) > mostFollowed {
		ids = nil
	}
	n := int(t.ran()/time.Second) + 1
	all := make(map[string][]ledger.Second)
	for _, id := range append(ids, "") {
		list, err := t.judge.Seconds(ctx, id, n+10) // clocks may be apart by seconds
		if err != nil {
			return nil, err
		}
		all[id] = make([]ledger.Second, n)
		for _, s := range list {
			if i := s.Unix - t.began.Unix(); i >= 0 && i < int64(n) {
				all[id][i] = s
			}
		}
	}
	return all, nil
}

// judged returns the calls by which a page is judged in a second: all of them, or those
// with audio where the part is about these.
func (t *trial) judged(s ledger.Second) (accepted, refused int64) {
	if t.hotAudio() {
		return int64(s.Media.Accepted), int64(s.Media.Refused)
	}
	return int64(s.Media.Accepted) + int64(s.Text.Accepted), int64(s.Media.Refused) + int64(s.Text.Refused)
}

// quota is the share of what the limits let pass on the hot pages that was used, from
// the end of the warm-up to the end of the load, without what another app takes. It
// counts calls: one may carry several messages. Measured are whole seconds, which are
// as many of the platform's windows: of a part of one the share says nothing, because
// whoever retries has all of it at the window's begin.
func (t *trial) quota(run *report.Run, groups map[string]ledger.GroupReport, seconds map[string][]ledger.Second) {
	pages := t.Part.Pages(cases.Hot)
	from, to := int(t.Part.Warm()/time.Second), int(t.length/time.Second)
	if t.Part.Unfull || len(pages) == 0 || len(pages) > mostFollowed || to <= from {
		return
	}
	used, allowed := 0., 0.
	for i := from; i < to; i++ {
		for _, p := range pages {
			if i < len(seconds[p]) {
				accepted, _ := t.judged(seconds[p][i])
				used += float64(accepted)
			}
			allowed += t.limitIn(i)
		}
	}
	ratio(run, report.Quota, used, allowed)
	// Joined texts may leave a deployment too little to send.
	if alone := float64(groups[cases.Hot].Accepted) / (t.Part.Limit * float64(len(pages))); t.Deployed != nil && t.arrived && t.drained.Seconds() < alone {
		t.note("the quota used was %.1f %%, and counts as full: all arrived within %.1f s, and by single calls the limit alone takes %.1f s", 100*run.Figures[report.Quota], t.drained.Seconds(), alone)
		run.Figures[report.Quota] = 1
	}
}

// limitIn is the platform's limit of one page in the i-th second of the run: that in
// its middle, because what is changed at a second's begin is changed a little later.
func (t *trial) limitIn(i int) (l float64) {
	for _, c := range t.limits {
		if c.at <= time.Duration(i)*time.Second+time.Second/2 {
			l = c.limit
		}
	}
	return l
}

// latencies are those of the groups. A message that has not arrived counts with how
// long it has waited: a system that leaves the slow ones is not fast.
func (t *trial) latencies(run *report.Run, groups map[string]ledger.GroupReport) {
	for _, of := range []struct {
		group    string
		p50, p99 report.Figure
	}{{cases.Cold, report.ColdP50, report.ColdP99}, {cases.Hot, report.HotP50, report.HotP99}} {
		g, ok := groups[of.group]
		if !ok {
			continue
		}
		if all := judge.Merge(g.Copies, g.Waiting); len(all) > 0 {
			run.Figures[of.p50], run.Figures[of.p99] = all.Quantile(.5).Seconds(), all.Quantile(.99).Seconds()
		}
	}
}

// inTime counts the rooms whose every copy arrived in time, or else of each stream the
// copies that did, as a share of the capacity.
func (t *trial) inTime(run *report.Run, groups map[string]ledger.GroupReport) {
	if t.Part.InTime == 0 {
		return
	}
	within := func(list []ledger.Bin) float64 { return float64(judge.Latencies(list).Within(t.Part.InTime)) }
	if t.Part.Room > 0 {
		var rooms, complete float64
		for _, g := range groups {
			rooms, complete = rooms+float64(g.Events), complete+within(g.Whole)
		}
		ratio(run, report.CompleteRooms, complete, rooms)
		return
	}
	for _, s := range t.Part.Streams {
		if g, ok := groups[s.Group]; ok {
			span := (s.To - s.From) * t.Part.Length.Seconds()
			ratio(run, report.Goodput+report.Figure(": "+s.Group), within(g.Copies), t.Part.Limit*span)
		}
	}
}

// beside enters what became of those that nothing is wrong with, where something is, and
// the longest silence of a hot page, where dispatchers are restarted.
func (t *trial) beside(run *report.Run, groups map[string]ledger.GroupReport) {
	if slices.ContainsFunc(t.Part.Streams, func(s cases.Stream) bool { return s.Ill != nil }) {
		var arrived, waiting float64
		for name, g := range groups {
			if name != cases.Sick {
				arrived, waiting = arrived+float64(g.Accepted), waiting+float64(judge.Latencies(g.Waiting).Within(time.Hour))
			}
		}
		ratio(run, report.Others, arrived, arrived+waiting)
	}
	if slices.ContainsFunc(t.Part.Steps, func(s cases.Step) bool { return s.Do == cases.Restart }) {
		longest, now, begun := 0, 0, false
		tenths := t.tenths(groups[cases.Hot])
		for _, n := range tenths[:min(len(tenths), int(t.length/tenth))] {
			begun = begun || n > 0
			if now++; n > 0 || !begun {
				now = 0
			}
			longest = max(longest, now)
		}
		if begun {
			run.Figures[report.Silence] = float64(longest) / 10
		}
	}
}

// tenths are a group's acceptances by tenths of a second of the run.
func (t *trial) tenths(g ledger.GroupReport) []int64 {
	before := int(max(0, g.Began.Sub(t.began)) / tenth)
	cells := make([]int64, before+len(g.Tenths))
	for i, n := range g.Tenths {
		cells[before+i] = int64(n)
	}
	return cells
}

// series enters the calls of the first hot page by seconds, against its limit, or those of
// all pages together where none is hot.
func (t *trial) series(run *report.Run, seconds map[string][]ledger.Second) {
	page, name := "", "all pages"
	if pages := t.Part.Pages(cases.Hot); len(pages) > 0 {
		page, name = pages[0], "page "+pages[0]
	}
	n := int(max(t.length, t.drained)/time.Second) + 1
	s := report.Series{Name: name, StepMS: 1000, Sent: make([]int64, n), Refused: make([]int64, n)}
	for i, sec := range seconds[page][:min(n, len(seconds[page]))] {
		s.Sent[i], s.Refused[i] = t.judged(sec)
	}
	for i := 0; i < n && page != ""; i++ {
		s.Limit = append(s.Limit, t.limitIn(i))
	}
	run.Series = []report.Series{s}
}

// costs enters the costs that this process and the broker tell of, from the begin of the load
// to its end, per message sent in that time; and the time of the last arrival, where the
// setting waits for that.
func (t *trial) costs(run *report.Run, sent float64) {
	if t.ended.cpu > 0 {
		ratio(run, report.Operations, float64(t.ended.operations-t.started.operations), sent)
		ratio(run, report.CPU, float64((t.ended.cpu - t.started.cpu).Microseconds()), sent)
	}
	if from, to := t.started, t.ended; from.machine != nil && to.machine != nil && !t.isAlone() {
		ratio(run, report.MachineCPU, float64((to.machine.Busy - from.machine.Busy).Microseconds()), sent)
	}
	switch {
	case t.Part.Drain == 0 || t.stopped: // how long a part of the load took says nothing
	case t.arrived:
		run.Figures[report.Drained] = t.drained.Seconds()
	default:
		t.note("not everything had arrived %v after the load", t.Part.Drain)
	}
}

// onTime is the share of the load that must be made within a second of when it
// was due for the run to count.
const onTime = 0.99

// doubts enters the reasons for which the run proves nothing, and the notes.
func (t *trial) doubts(run *report.Run) {
	var reasons []string
	if share := t.tally.OnTime(); share < onTime {
		reasons = append(reasons, fmt.Sprintf("the generator was late: %.1f %% of the load was made within a second of when it was due (%.0f %% at least)", 100*share, 100*onTime))
	}
	if share := t.ended.othersSince(t.started); t.isAlone() && share > machine.MostOthers {
		reasons = append(reasons, fmt.Sprintf("other programs had %.0f %% of the processors (%.0f %% at most)", 100*share, 100*machine.MostOthers))
	}
	if t.meter.Starved() {
		reasons = append(reasons, t.meter.String())
	}
	if len(reasons) > 0 {
		run.Status, run.Reason = report.Inconclusive, strings.Join(reasons, "; ")
	}
	if t.users != nil && t.users.Undelivered() > 0 {
		t.note("%d events were never taken by the webhook", t.users.Undelivered())
	}
	if t.fleet != nil {
		t.notes = append(t.notes, t.fleet.Errors()...)
	}
	run.Notes = t.notes
}
