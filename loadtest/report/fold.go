package report

import (
	"fmt"
	"math"
	"slices"
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
// The figures are the medians of the sound turns, which are its Rounds; one that a
// round does not know is not known. What counts something wrong is the most of any
// turn, also of one that the machine disturbed: that excuses how fast it was, and not
// what it lost. Series and latency are those of the round that is nearest to the median
// in the first figure that all know.
//
// The run is Inconclusive, Interrupted or Failed where fewer turns were sound than were
// wanted.
func Fold(turns []Turn, wanted int) Run {
	last := turns[len(turns)-1].Run
	if wanted == 1 && len(turns) == 1 {
		return last
	}
	sound := slices.DeleteFunc(slices.Clone(turns), func(t Turn) bool { return t.Run.Status != Complete })
	folded := last
	if len(sound) > 0 {
		folded = median(sound)
	}
	folded.Notes = nil
	if folded.Figures == nil {
		folded.Figures = make(Figures)
	}
	for _, t := range turns {
		notes := slices.Clone(t.Run.Notes)
		if t.Run.Status == Inconclusive {
			notes = append(notes, "left out: "+t.Run.Reason)
		}
		for _, n := range notes {
			if !slices.Contains(folded.Notes, n) {
				folded.Notes = append(folded.Notes, n)
			}
		}
		for name, v := range t.Run.Figures {
			if name.kind().fault {
				folded.Figures[name] = max(folded.Figures[name], v)
			}
		}
	}
	if len(sound) < wanted {
		folded.Status, folded.Reason = last.Status, fmt.Sprintf("%d of %d runs are sound", len(sound), wanted)
		if last.Reason != "" {
			folded.Reason += "; the last: " + last.Reason
		}
		if last.Status == Complete && len(turns) < wanted { // others are still to run
			folded.Status = Interrupted
		} else if last.Status == Complete {
			folded.Status = Inconclusive
		}
	}
	return folded
}

// median is the run with the median of each figure that all turns know.
func median(turns []Turn) Run {
	var rounds []Round
	var all []Figures
	for _, t := range turns {
		rounds, all = append(rounds, Round{t.Seed, t.Run.Figures}), append(all, t.Run.Figures)
	}
	figures, nearest := make(Figures), -1
	for _, name := range Names(all...) {
		m, known := medianOf(all, name)
		if !known {
			continue
		}
		figures[name] = m
		if nearest < 0 {
			nearest = slices.IndexFunc(all, func(f Figures) bool {
				return !slices.ContainsFunc(all, func(o Figures) bool { return math.Abs(o[name]-m) < math.Abs(f[name]-m) })
			})
		}
	}
	r := turns[max(0, nearest)].Run
	r.Figures, r.Rounds = figures, rounds
	return r
}

// medianOf is not known unless all know the figure.
func medianOf(all []Figures, name Figure) (m float64, known bool) {
	var list []float64
	for _, f := range all {
		if v, known := f[name]; known {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	n := len(list)
	if n < len(all) || n == 0 {
		return 0, false
	}
	return (list[(n-1)/2] + list[n/2]) / 2, true
}

// extent returns the least and the most that the rounds had of a figure; ok is
// false of a run without rounds, and of a figure that they do not know.
func (r *Run) extent(name Figure) (low, high float64, ok bool) {
	low, ok = r.Figures[name]
	if len(r.Rounds) < 2 || !ok {
		return 0, 0, false
	}
	high = low // a fault may be of a run that is no round
	for _, o := range r.Rounds {
		v, known := o.Figures[name]
		if !known {
			return 0, 0, false
		}
		low, high = min(low, v), max(high, v)
	}
	return low, high, true
}
