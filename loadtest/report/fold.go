package report

import (
	"fmt"
	"slices"
)

// Fold makes one run of a strategy's turns, which are in the order in which they
// ran and of which so many sound ones were wanted. There must be one turn at
// least; one that was the only one wanted is returned as it is.
//
// The figures are the medians of the sound turns, which are its Rounds; one that a
// round does not know is not known. What counts something wrong is the most of any
// turn, also of one that the machine disturbed: that excuses how fast it was, and not
// what it lost. Series and latency are those of the first sound turn.
//
// The run is Inconclusive, Interrupted or Failed where fewer turns were sound than were
// wanted.
func Fold(turns []Run, wanted int) Run {
	last := turns[len(turns)-1]
	if wanted == 1 && len(turns) == 1 {
		return last
	}
	folded, notes := last, []string(nil)
	for i, t := range slices.Backward(turns) {
		if t.Status == Complete {
			folded = turns[i]
		}
	}
	folded.Figures = make(Figures)
	for _, t := range turns {
		if t.Status == Complete {
			folded.Rounds = append(folded.Rounds, t.Figures)
		}
		if notes = append(notes, t.Notes...); t.Status == Inconclusive {
			notes = append(notes, "left out: "+t.Reason)
		}
	}
	for _, name := range Names(folded.Rounds...) {
		if list := valuesOf(folded.Rounds, name); list != nil {
			folded.Figures[name] = (list[(len(list)-1)/2] + list[len(list)/2]) / 2
		}
	}
	for _, t := range turns {
		for name, v := range t.Figures {
			if name.kind().fault {
				folded.Figures[name] = max(folded.Figures[name], v)
			}
		}
	}
	slices.Sort(notes)
	folded.Notes = slices.Compact(notes)
	if len(folded.Rounds) == wanted {
		return folded
	}
	folded.Status, folded.Reason = last.Status, fmt.Sprintf("%d of %d runs are sound", len(folded.Rounds), wanted)
	if last.Reason != "" {
		folded.Reason += "; the last: " + last.Reason
	}
	if last.Status == Complete && len(turns) < wanted { // others are still to run
		folded.Status = Interrupted
	} else if last.Status == Complete {
		folded.Status = Inconclusive
	}
	return folded
}

// valuesOf lists a figure's values in order; nil unless all know it.
func valuesOf(rounds []Figures, name Figure) (list []float64) {
	for _, f := range rounds {
		v, known := f[name]
		if !known {
			return nil
		}
		list = append(list, v)
	}
	slices.Sort(list)
	return list
}
