package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Turn is one run of a strategy that runs several times.
type Turn struct {
	Run  Run
	Seed uint64 // of its load
}

// Fold makes one run of a strategy's turns, which are in the order in which they
// ran and of which so many sound ones were wanted. There must be one turn at
// least; one that was the only one wanted is returned as it is.
//
// The figures are the medians of the sound turns, which are its Rounds. What is
// counted as a fault (lost, duplicated, unexpected, dead) is the most of any turn,
// also of one that the machine disturbed: that excuses how fast it was, and not
// what it lost. A figure that one of the rounds does not know is not known. Series,
// latency and curve are those of the round that is nearest to the median in the first
// figure that all know.
//
// A turn that the machine disturbed is none of the rounds. The run is Inconclusive,
// Interrupted or Failed where fewer turns were sound than were wanted.
func Fold(turns []Turn, wanted int) Run {
	last := turns[len(turns)-1].Run
	if wanted == 1 && len(turns) == 1 {
		return last
	}
	sound := slices.Clone(turns)
	sound = slices.DeleteFunc(sound, func(t Turn) bool { return t.Run.Status != Complete })
	folded := last
	if len(sound) > 0 {
		folded = median(sound)
	}
	folded.worst(turns)
	folded.Notes = nil
	for _, t := range turns {
		if t.Run.Status == Inconclusive {
			t.Run.Notes = append(slices.Clone(t.Run.Notes), "left out: "+t.Run.Reason)
		}
		for _, n := range t.Run.Notes {
			if !slices.Contains(folded.Notes, n) {
				folded.Notes = append(folded.Notes, n)
			}
		}
	}
	if len(sound) < wanted {
		folded.cutShort(last, len(sound), len(turns), wanted)
	}
	return folded
}

// cutShort says why there are fewer rounds than were wanted.
func (r *Run) cutShort(last Run, sound, ran, wanted int) {
	r.Status, r.Reason = last.Status, fmt.Sprintf("%d of %d runs are sound", sound, wanted)
	if last.Reason != "" {
		r.Reason += "; the last: " + last.Reason
	}
	switch {
	case last.Status == Complete && ran == wanted:
		r.Status = Inconclusive
	case last.Status == Complete: // others are still to run
		r.Status = Interrupted
	}
}

// worst enters the most of what any turn counted as a fault. It is not known
// where one does not know it, unless another has seen one.
func (r *Run) worst(turns []Turn) {
	for _, of := range []func(*Run) **int64{
		func(r *Run) **int64 { return &r.Lost }, func(r *Run) **int64 { return &r.Duplicated },
		func(r *Run) **int64 { return &r.Unexpected }, func(r *Run) **int64 { return &r.Dead },
	} {
		known, most := true, int64(0)
		for _, t := range turns {
			if n := *of(&t.Run); n != nil {
				most = max(most, *n)
			} else if t.Run.Status != Failed {
				known = false
			}
		}
		if *of(r) = nil; known || most > 0 {
			*of(r) = &most
		}
	}
}

// median is the run with the median of each figure.
func median(turns []Turn) Run {
	rounds := make([]Round, len(turns))
	for i, t := range turns {
		rounds[i] = Round{t.Run.Figures, t.Run.Extras, t.Seed}
	}
	r := turns[nearest(rounds)].Run
	r.Rounds = rounds
	r.CPU, r.Measures = medianCPU(rounds), medianMeasures(rounds)
	for i, to := range floats64(&r.Figures, &r.Extras) {
		*to = medianOf(rounds, func(o *Round) *float64 { return *floats64(&o.Figures, &o.Extras)[i] })
	}
	for i, to := range ints64(&r.Figures, &r.Extras) {
		m := medianOf(rounds, func(o *Round) *float64 { return float(*ints64(&o.Figures, &o.Extras)[i]) })
		if *to = nil; m != nil {
			*to = new(int64(math.Round(*m)))
		}
	}
	r.Seconds = *medianOf(rounds, func(o *Round) *float64 { return &o.Seconds })
	return r
}

// floats64 are the figures that are numbers, those that say most first.
func floats64(f *Figures, e *Extras) []**float64 {
	return []**float64{
		&f.QuotaUse, &f.HotP99MS, &f.ColdP99MS, &e.DrainS, &e.GoodputPerS, &f.RefusedPerSent, &f.ColdP50MS, &e.HotP50MS,
		&f.BrokerOpsPerSent, &f.CPUUSPerSent, &e.IdealDrainS, &e.CallsPerRecord,
	}
}

// ints64 are those that are counts.
func ints64(f *Figures, e *Extras) []**int64 {
	return []**int64{
		&f.Sent, &f.Inversions, &f.Lost, &f.Duplicated, &f.Unexpected, &f.Dead, &e.Rooms, &e.CompleteRooms, &e.PeakMemoryBytes,
	}
}

// nearest returns the round that is nearest to the median of the first figure
// that all know; the first round where there is none.
func nearest(rounds []Round) (at int) {
	for i := range floats64(&rounds[0].Figures, &rounds[0].Extras) {
		figure := func(o *Round) *float64 { return *floats64(&o.Figures, &o.Extras)[i] }
		m := medianOf(rounds, figure)
		if m == nil {
			continue
		}
		least := math.Inf(1)
		for k := range rounds {
			if d := math.Abs(*figure(&rounds[k]) - *m); d < least {
				at, least = k, d
			}
		}
		return at
	}
	return 0
}

// medianOf is nil unless every round knows the figure.
func medianOf(rounds []Round, figure func(*Round) *float64) *float64 {
	list := make([]float64, 0, len(rounds))
	for i := range rounds {
		v := figure(&rounds[i])
		if v == nil {
			return nil
		}
		list = append(list, *v)
	}
	slices.Sort(list)
	n := len(list)
	return new((list[(n-1)/2] + list[n/2]) / 2)
}

func medianCPU(rounds []Round) *CPUSplit {
	part := func(of func(*CPUSplit) *float64) *float64 {
		return medianOf(rounds, func(o *Round) *float64 {
			if o.CPU == nil {
				return nil
			}
			return of(o.CPU)
		})
	}
	if rounds[0].CPU == nil {
		return nil
	}
	return &CPUSplit{
		Dispatchers: part(func(c *CPUSplit) *float64 { return c.Dispatchers }), Front: part(func(c *CPUSplit) *float64 { return c.Front }),
		Broker: part(func(c *CPUSplit) *float64 { return c.Broker }), Fake: part(func(c *CPUSplit) *float64 { return c.Fake }),
	}
}

func medianMeasures(rounds []Round) []Measure {
	list := slices.Clone(rounds[0].Measures)
	for i := range list {
		list[i].Value = medianOf(rounds, func(o *Round) *float64 { return (&Run{Extras: o.Extras}).measure(list[i].Name) })
	}
	return list
}

// extent returns the least and the most that the rounds had of a column; ok is
// false of a run without rounds, and of a figure that they do not know.
func (c *column) extent(r *Run) (low, high float64, ok bool) {
	v := c.value(r)
	if len(r.Rounds) < 2 || v == nil {
		return 0, 0, false
	}
	low, high = *v, *v // a fault may be of a run that is no round
	for i := range r.Rounds {
		o := &r.Rounds[i]
		v := c.value(&Run{Figures: o.Figures, Extras: o.Extras})
		if v == nil {
			return 0, 0, false
		}
		low, high = min(low, *v), max(high, *v)
	}
	return low, high, true
}

// enough is how many rounds of each side a comparison of their ranges takes.
// Those of two sides that are equal stay apart by chance in 2 of 252 comparisons
// of five rounds each, in 2 of 70 of four, and in 2 of 20 of three.
const enough = 4

// isTie reports whether two runs are equal in a column. Runs of one round differ
// by less than two equal ones were seen to. Of several rounds the ranges overlap;
// where these are few, that or the other.
func (c *column) isTie(a, b *Run) bool {
	v, w := *c.value(a), *c.value(b)
	if c.format(v) == c.format(w) {
		return true
	}
	low, high, ok := c.extent(a)
	under, over, also := c.extent(b)
	if !ok || !also {
		return c.tie(v, w)
	}
	return low <= over && under <= high || min(len(a.Rounds), len(b.Rounds)) < enough && c.tie(v, w)
}

// rangeText is the run's range as people read it; empty where its ends read the
// same.
func (c *column) rangeText(r *Run) string {
	low, high, ok := c.extent(r)
	if !ok || c.format(low) == c.format(high) {
		return ""
	}
	from, to := c.format(low), c.format(high)
	if i := strings.LastIndexByte(from, ' '); i >= 0 && strings.HasSuffix(to, from[i:]) {
		from = from[:i] // the unit once
	}
	return from + " to " + to
}

// spreadNote says how often runs ran; empty where each ran once.
func spreadNote(r *Report) string {
	least, most := math.MaxInt, 0
	for i := range r.Runs {
		if n := len(r.Runs[i].Rounds); n > 1 {
			least, most = min(least, n), max(most, n)
		}
	}
	if most == 0 {
		return ""
	}
	times := fmt.Sprint(most)
	if least < most {
		times = fmt.Sprintf("%d to %d", least, most)
	}
	return "Each figure is the median of " + times + " runs, in which the strategies alternated, with the range in brackets where they differ. " +
		"Of lost, duplicated, unexpected and dead it is the most of any run."
}
