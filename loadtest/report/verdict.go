package report

import (
	"cmp"
	"fmt"
)

// Outcome is the proof of a report about this project's own dispatcher.
type Outcome string

// The outcomes.
const (
	Pass      Outcome = "PASS"       // all that was expected was seen
	Fail      Outcome = "FAIL"       // something else was seen, or messages were lost
	NoVerdict Outcome = "NO VERDICT" // it proves neither
)

// Verdict is an outcome and its reason, in one line.
type Verdict struct {
	Outcome Outcome
	Reason  string
}

// String is the verdict in one line.
func (v Verdict) String() string { return string(v.Outcome) + ": " + v.Reason }

// Verdict judges the report by its expectations. A loss of another strategy is its
// figure. Whatever was seen to be wrong is a failure, however doubtful the rest
// is; otherwise the runs must be there and their expectations known.
func (r *Report) Verdict() Verdict {
	var wrong, open []string
	for _, e := range r.Expectations {
		switch {
		case e.Met == nil:
			open = append(open, e.String())
		case !*e.Met:
			wrong = append(wrong, e.String())
		}
	}
	for i := range r.Runs {
		if run := &r.Runs[i]; len(wrong) == 0 && run.Strategy == Own && run.Figures[Lost] > 0 { // nobody judged it
			wrong = append(wrong, fmt.Sprintf("%s lost %s messages", run.Name(), count(run.Figures[Lost])))
		}
	}
	run := r.doubtful()
	switch {
	case len(wrong) == 1:
		return Verdict{Fail, wrong[0]}
	case len(wrong) > 1:
		return Verdict{Fail, fmt.Sprintf("%s, and %d more", wrong[0], len(wrong)-1)}
	case run != nil && run.Status == Failed:
		return Verdict{NoVerdict, doubt(run)}
	case r.Unfinished != "":
		return Verdict{NoVerdict, r.Unfinished}
	case run != nil && open != nil:
		return Verdict{NoVerdict, doubt(run)}
	case open != nil:
		return Verdict{NoVerdict, open[0]}
	case r.Expectations == nil:
		return Verdict{NoVerdict, "nothing was expected: only runs of " + Own + " are judged"}
	}
	return Verdict{Pass, fmt.Sprintf("%d of %[1]d expectations met", len(r.Expectations))}
}

// doubtful returns the first run that failed, or else the first of ours that
// is not complete.
func (r *Report) doubtful() (first *Run) {
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Status == Failed {
			return run
		}
		if first == nil && run.Strategy == Own && run.Status != Complete {
			first = run
		}
	}
	return first
}

// doubt says why a run proves nothing.
func doubt(run *Run) string {
	text := cmp.Or(run.Reason, "the run is "+string(run.Status))
	if run.Label != "" || run.Status == Failed {
		text = run.Name() + ": " + text
	}
	if run.Status == Inconclusive {
		text += ". Try again on a quiet machine."
	}
	return text
}
