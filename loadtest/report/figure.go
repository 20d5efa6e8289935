package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Figure is the name of one measured number. Behind a colon it may say of what it
// is, as in "goodput: step 2".
type Figure string

// Figures are the numbers of a run. Shares are from 0 to 1, and times are in seconds.
// A figure that a run cannot know is absent, and never 0. All latencies count from
// the moment a message was due until the platform accepts the call, which is before
// the platform's own latency.
type Figures map[Figure]float64

// The figures that several packages measure.
const (
	Quota         Figure = "quota used"          // share of what the limits allowed while there was something to send, in calls
	Refused       Figure = "refused per sent"    // calls that were answered with a throttle, per call accepted
	Lost          Figure = "lost"                // in the end neither accepted, nor left on a queue, nor dead-lettered
	Duplicated    Figure = "duplicated"          // accepted again
	Unexpected    Figure = "unexpected"          // accepted although nobody was to get them
	Overtaken     Figure = "overtaken"           // accepted after a newer one to the same recipient and of the same class
	Dead          Figure = "dead"                // dead-lettered with a reason
	Inversions    Figure = "inversions per sent" // overtaken ones, as a share
	ColdP50       Figure = "cold p50"            // pages that stay below their limit
	ColdP99       Figure = "cold p99"            //
	HotP50        Figure = "hot p50"             // pages that have more to send than their limit
	HotP99        Figure = "hot p99"             //
	CompleteRooms Figure = "complete rooms"      // share of the room messages whose every copy arrived in time
	Goodput       Figure = "goodput"             // share of the capacity that arrived in time, of one step
	Others        Figure = "others arrived"      // share of the copies for those that nothing is wrong with
	Wait          Figure = "wait"                // from publish to the begin of the call
	Silence       Figure = "longest silence"     // without an accepted call of a page that has some to send
	Back          Figure = "back after"          // from an event until a page is sent as before
	Settled       Figure = "settled after"       // from a fault's end until all that was due then had come
	Drained       Figure = "drained in"          // from the begin until the last had arrived
	Calls         Figure = "calls per message"   // refused ones included
	Operations    Figure = "broker operations"   // publishes, deliveries and acknowledgements, per message sent
	CPU           Figure = "CPU per sent"        // of this process, in µs: dispatchers, fake, webhook, core, and the broker in memory
	MachineCPU    Figure = "all CPU per sent"    // of all programs of the machine, in µs: this process, broker, Redis, peers, and all that runs beside
	Sent          Figure = "sent"                // messages accepted
	Left          Figure = "left on queues"      //
)

// kind says how a figure is shown and compared.
type kind struct {
	figure Figure
	unit   unit
	higher bool // the higher, the better
	fault  bool // it counts something wrong: the table leaves it out where it is 0 in every run, and of several runs the most counts
}

// kinds has the figures in the order in which they are shown. Packages with figures
// of their own show them behind these.
var kinds = []kind{
	{Quota, percent, true, false},
	{Refused, percent, false, false},
	{Goodput, percent, true, false},
	{Others, percent, true, false},
	{Silence, seconds, false, false},
	{Back, seconds, false, false},
	{Settled, seconds, false, false},
	{Lost, count, false, true},
	{Duplicated, count, false, true},
	{Unexpected, count, false, true},
	{Overtaken, count, false, true},
	{Dead, count, false, true},
	{CompleteRooms, percent, true, false},
	{Drained, seconds, false, false},
	{ColdP99, seconds, false, false},
	{HotP99, seconds, false, false},
	{Inversions, percent, false, false},
	{Operations, number, false, false},
	{CPU, micros, false, false},
	{MachineCPU, micros, false, false},
	{ColdP50, seconds, false, false},
	{HotP50, seconds, false, false},
	{Wait, seconds, false, false},
	{Calls, number, false, false},
	{Sent, count, false, false},
	{Left, count, false, false},
}

// kind returns how a figure is shown: its own, or that of what stands before a
// colon. One that is not in the table is a number.
func (f Figure) kind() kind {
	k := kind{unit: number}
	if i := f.place(); i < len(kinds) {
		k = kinds[i]
	}
	k.figure = f
	return k
}

// place is the figure's in the order of the table.
func (f Figure) place() int {
	base, _, _ := strings.Cut(string(f), ":")
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.figure == Figure(base) })
	if i < 0 {
		return len(kinds)
	}
	return i
}

// Names lists the figures that at least one of the maps knows, in the table's order.
func Names(all ...Figures) []Figure {
	known := make(map[Figure]bool)
	for _, f := range all {
		for name := range f {
			known[name] = true
		}
	}
	list := slices.Sorted(maps.Keys(known))
	slices.SortStableFunc(list, func(a, b Figure) int { return cmp.Compare(a.place(), b.place()) })
	return list
}

// Better compares two values of the figure: above 0 if the first is better.
func (f Figure) Better(a, b float64) int {
	if f.kind().higher {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(b, a)
}

// Text is a value of the figure as people read it.
func (f Figure) Text(v float64) string { return f.kind().unit(v) }

// Worst joins two runs' figures: the worse of what both know, and all that one knows.
func Worst(a, b Figures) Figures {
	w := maps.Clone(b)
	if w == nil {
		w = make(Figures)
	}
	for name, v := range a {
		if other, known := b[name]; !known || name.Better(v, other) < 0 {
			w[name] = v
		}
	}
	return w
}

// Bound is a limit of a figure.
type Bound struct {
	Figure Figure
	Least  bool // it may not be below; otherwise not above
	Value  float64
	Times  float64 // above 0: so many times the figure of the baseline, and Value
}

// AtLeast is a lower bound.
func AtLeast(f Figure, v float64) Bound { return Bound{Figure: f, Least: true, Value: v} }

// AtMost is an upper bound.
func AtMost(f Figure, v float64) Bound { return Bound{Figure: f, Value: v} }

// AtMostTimes is an upper bound of so many times the baseline's figure, and more.
func AtMostTimes(f Figure, times, more float64) Bound {
	return Bound{Figure: f, Times: times, Value: more}
}

// Check returns the bound as an expectation of what a run has measured beside a
// baseline. A figure that was not measured is neither met nor missed.
func (b Bound) Check(run, baseline Figures) Expectation {
	text := b.Figure.Text
	limit, why := b.Value, ""
	if base, known := baseline[b.Figure]; known && b.Times > 0 {
		limit += b.Times * base
		why = fmt.Sprintf(", which is %g × the %s of the baseline, and %s", b.Times, text(base), text(b.Value))
	} else if b.Times > 0 {
		return Expectation{Text: fmt.Sprintf("%s at most %g × the baseline's", b.Figure, b.Times), Got: "the baseline's is unknown"}
	}
	e := Expectation{Text: fmt.Sprintf("%s at most %s%s", b.Figure, text(limit), why), Got: "unknown"}
	if b.Least {
		e.Text = fmt.Sprintf("%s at least %s", b.Figure, text(limit))
	}
	if v, known := run[b.Figure]; known {
		e.Met, e.Got = new(b.Least && v >= limit || !b.Least && v <= limit), text(v)
	}
	return e
}

// Expect checks a bound of a complete run beside a complete baseline. Of another run
// nothing is met, because a generator that is late makes every bound easy to keep.
// What counts something wrong is missed all the same.
func (r *Run) Expect(b Bound, baseline *Run) Expectation {
	var base Figures
	status := r.Status
	if baseline != nil {
		base = baseline.Figures
		status = cmp.Or(status, baseline.Status)
	}
	e := b.Check(r.Figures, base)
	e.Of = r.Strategy
	if r.Label != "" {
		e.Text = strings.TrimPrefix(r.Label, r.Strategy+", ") + ": " + e.Text
	}
	if status == Complete || e.Met == nil || !*e.Met && b.Figure.kind().fault {
		return e
	}
	e.Met = nil
	e.Got += ", but the run proves nothing"
	return e
}
