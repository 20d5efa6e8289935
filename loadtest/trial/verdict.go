package trial

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/machine"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/report"
)

// verdict reads the ledger, stops the system, accounts for every message, and
// writes down what that came to.
func (t *trial) verdict(ctx context.Context) (report.Run, error) {
	groups, err := t.groups(ctx)
	if err != nil {
		return report.Run{}, err
	}
	t.whenDrained(groups)
	if err := t.fleet.Stop(ctx); err != nil {
		t.note("the system did not stop cleanly: %v", err)
	}
	queued, left, err := t.account(ctx)
	if err != nil {
		return report.Run{}, err
	}
	totals, err := t.judge.Totals(ctx)
	if err != nil {
		return report.Run{}, err
	}
	if err := t.ask(ctx); err != nil {
		return report.Run{}, err
	}
	run := report.Run{Figures: report.Figures{Strategy: t.Strategy, Replicas: t.Plan.Replicas, Seconds: t.ran().Seconds()}}
	foreign, foreignRefused := t.otherCalls()
	c := t.since(totals)
	sent := c.Accepted - t.before.Accepted - sum(foreign)
	refused := c.Refused - t.before.Refused - sum(foreignRefused)
	run.Sent, run.Lost, run.Unexpected, run.Inversions = &sent, &c.Lost, &c.Unexpected, &c.Inversions
	run.Unexpected = new(c.Unexpected + c.Unidentified - sum(foreign))
	run.Duplicated = new(c.Duplicated + queued)
	if !t.Running {
		run.Dead = new(int64(t.dead.count()))
	}
	calls := c.Calls - t.before.Calls - sum(foreign)
	run.RefusedPerSent = ratio(float64(refused), float64(calls))
	run.CallsPerRecord = ratio(float64(calls+refused+c.Errors+c.Rejected-t.before.Errors-t.before.Rejected), float64(sent))
	t.quota(&run, foreign)
	t.latencies(&run, groups)
	t.rooms(&run, groups)
	t.costs(&run)
	t.drain(&run, groups)
	t.series(&run, groups)
	if !t.Running {
		run.Measures = append(run.Measures, report.Measure{Name: "left on queues", Value: new(float64(left))})
	}
	if t.Plan.Finish != nil {
		found := Found{Groups: groups, Tenths: make(map[string][]int64, len(groups)), Length: t.length}
		for name, g := range groups {
			found.Tenths[name] = t.tenths(g)
		}
		t.Plan.Finish(&run, found)
	}
	t.faults(&run)
	return run, nil
}

// groups are those of this run.
func (t *trial) groups(ctx context.Context) (map[string]judge.Group, error) {
	all, err := t.judge.Groups(ctx)
	if err != nil {
		return nil, err
	}
	own := make(map[string]judge.Group)
	for name, g := range all {
		if name, ok := strings.CutPrefix(name, group(t.id, "")); ok {
			own[name] = g
		}
	}
	return own, nil
}

// since returns the counts without what was wrong before this trial.
func (t *trial) since(c ledger.Counts) ledger.Counts {
	c.Lost -= t.earlier.Lost
	c.Duplicated -= t.earlier.Duplicated
	c.Unexpected -= t.earlier.Unexpected
	c.Unidentified -= t.earlier.Unidentified
	c.Inversions -= t.earlier.Inversions
	return c
}

func (t *trial) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// account looks at what is left and what is dead. Of what is left, queued were
// accepted all the same, or are there twice: they would be sent again.
func (t *trial) account(ctx context.Context) (queued, left int64, err error) {
	if t.Running {
		t.note("how many dispatchers a running system has is not known: replicas is what was said")
		t.note("a running system's queues were not looked at: what had not arrived in the end counts as lost, dead letters included")
		return 0, 0, nil
	}
	ids, err := t.leftovers(ctx)
	if err != nil {
		return 0, 0, err
	}
	t.dead.mu.Lock()
	dead, reasons, faults := slices.Clone(t.dead.ids), fmt.Sprint(t.dead.reasons), slices.Clone(t.dead.faults)
	t.dead.mu.Unlock()
	if _, err := t.judge.Excuse(ctx, dead...); err != nil {
		return 0, 0, err
	}
	if len(dead) > 0 {
		t.note("dead letters by reason: %s", strings.TrimPrefix(reasons, "map"))
	}
	for _, f := range faults[:min(len(faults), 3)] {
		t.note("%v", f)
	}
	awaited, err := t.judge.Excuse(ctx, ids...)
	return int64(len(ids) - awaited), int64(awaited), err
}

// otherCalls are other apps' calls by tenths of a second.
func (t *trial) otherCalls() (accepted, refused []int64) {
	for _, f := range t.foreign {
		a, r := f.counts()
		accepted, refused = add(accepted, a), add(refused, r)
	}
	return accepted, refused
}

// costs are what the machine and the broker say, from the begin of the load to
// its end, per message sent in that time.
func (t *trial) costs(run *report.Run) {
	sent := float64(*run.Sent)
	if t.started.Operations != nil && t.ended.Operations != nil {
		run.BrokerOpsPerSent = ratio(float64(*t.ended.Operations-*t.started.Operations), sent)
	}
	per := func(from, to *time.Duration) *float64 {
		if from == nil || to == nil {
			return nil
		}
		return ratio(float64((*to - *from).Microseconds()), sent)
	}
	run.CPUUSPerSent = per(t.started.All, t.ended.All)
	run.PeakMemoryBytes = t.ended.Memory
	if t.ended.Whole {
		return
	}
	run.CPU = &report.CPUSplit{
		Dispatchers: per(t.started.Dispatchers, t.ended.Dispatchers),
		Front:       per(t.started.Ingress, t.ended.Ingress),
		Broker:      per(t.started.Broker, t.ended.Broker), Fake: per(t.started.Fake, t.ended.Fake),
	}
}

// drain enters when all had arrived, where the plan waits for that. How long a
// part of the load took says nothing.
func (t *trial) drain(run *report.Run, groups map[string]judge.Group) {
	if t.Plan.Drain == 0 || t.stopped {
		return
	}
	switch g, ok := groups[Hot]; {
	case t.Plan.Ideal > 0:
		run.IdealDrainS = new(t.Plan.Ideal.Seconds())
	case ok: // as fast as the limit, and not before the last is due
		all := float64(g.Copies.TotalCount() + g.Waiting.TotalCount())
		run.IdealDrainS = new(max(t.length.Seconds(), all/(t.Plan.hotLimit()*float64(len(t.Plan.hot())))))
	}
	if t.arrived {
		run.DrainS = new(t.drained.Seconds())
	} else {
		t.note("not everything had arrived %v after the load", t.Plan.Drain)
	}
}

// whenDrained looks up when the last arrived: the ledger was read too seldom for
// that. It is not before the last was due.
func (t *trial) whenDrained(groups map[string]judge.Group) {
	if !t.arrived {
		return
	}
	t.drained = t.length
	for _, g := range groups {
		t.drained = max(t.drained, g.Last.Sub(t.controls.begin))
	}
}

// others is the share of the processors that other programs had while the load
// lasted; 0 where it is not known, and where the kernel counts other processors than
// this program's.
func (t *trial) others() float64 {
	if t.started.Machine == nil || t.ended.Machine == nil {
		return 0
	}
	all := (t.ended.Machine.All - t.started.Machine.All).Seconds()
	if passed := all / float64(runtime.NumCPU()); math.Abs(passed/t.measured.Seconds()-1) > .05 {
		return 0
	}
	return t.ended.Machine.OthersSince(*t.started.Machine)
}

// onTime is the share of the load that must be made within a second of when it
// was due for the run to count.
const onTime = 0.99

// faults are what makes the figures doubtful, and what else went wrong.
func (t *trial) faults(run *report.Run) {
	if doubts := t.doubts(); len(doubts) > 0 {
		run.Status, run.Reason = report.Inconclusive, strings.Join(doubts, "; ")
	}
	if t.hook != nil {
		if n := t.hook.undelivered.Load(); n > 0 {
			t.note("%d events were never taken by the webhook", n)
		}
	}
	for _, e := range t.fleet.Errors() {
		t.note("%s", e)
	}
	run.Notes = t.notes
}

// doubts are the reasons for which the run proves nothing.
func (t *trial) doubts() (reasons []string) {
	if share := t.tally.OnTime(); share < onTime {
		reasons = append(reasons, fmt.Sprintf("the generator was late: %.1f %% of the load was made within a second of when it was due (%.0f %% at least)", 100*share, 100*onTime))
	}
	reasons = append(reasons, t.late...)
	if share := t.others(); share > machine.MostOthers {
		reasons = append(reasons, fmt.Sprintf("other programs had %.0f %% of the processors (%.0f %% at most)", 100*share, 100*machine.MostOthers))
	}
	return reasons
}

// series is what each hot page saw against its limit, the first few of them,
// or all pages together where none is hot.
func (t *trial) series(run *report.Run, groups map[string]judge.Group) {
	if g, ok := groups[Hot]; ok && t.Plan.Fine {
		run.Series = append(run.Series, t.fine(g))
		return
	}
	for _, page := range t.Plan.shown() {
		run.Series = append(run.Series, t.coarse(page))
	}
}
