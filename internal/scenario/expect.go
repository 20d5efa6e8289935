package scenario

import (
	"fmt"
	"strconv"

	"chatclub/internal/report"
)

// named puts a run's label in front of what is expected of it.
func named(run *report.Run, text string) string {
	if run.Label == "" {
		return text
	}
	return run.Label + ": " + text
}

// share expects a ratio to be at least, or at most, so much.
func share(run *report.Run, what string, v *float64, low, high float64) report.Expectation {
	e := report.Expectation{Of: Own, Got: "unknown"}
	switch {
	case low > 0:
		e.Text = named(run, fmt.Sprintf("%s at least %.4g %%", what, 100*low))
	default:
		e.Text = named(run, fmt.Sprintf("%s at most %.4g %%", what, 100*high))
	}
	if v != nil {
		e.Met, e.Got = new(*v >= low && *v <= high), fmt.Sprintf("%.4g %%", 100**v)
	}
	return inconclusive(run, e)
}

// inconclusive takes the verdict back where the run proves nothing.
func inconclusive(run *report.Run, e report.Expectation) report.Expectation {
	if run.Status == report.Inconclusive && e.Met != nil && !*e.Met {
		e.Met = nil
		e.Got += ", but the run proves nothing"
	}
	return e
}

const infinite = 1e18

func quota(run *report.Run, least float64) report.Expectation {
	return share(run, "quota used", run.QuotaUse, least, infinite)
}

func refusals(run *report.Run, most float64) report.Expectation {
	return share(run, "refused per sent", run.RefusedPerSent, 0, most)
}

// atMost expects a number not to be above a bound.
func atMost(run *report.Run, what string, v *float64, most float64, unit string) report.Expectation {
	e := report.Expectation{Of: Own, Got: "unknown", Text: named(run, fmt.Sprintf("%s at most %.4g%s", what, most, unit))}
	if v != nil {
		e.Met, e.Got = new(*v <= most), fmt.Sprintf("%.4g%s", *v, unit)
	}
	return inconclusive(run, e)
}

// atLeast expects a number not to be below a bound.
func atLeast(run *report.Run, what string, v *float64, least float64, unit string) report.Expectation {
	e := report.Expectation{Of: Own, Got: "unknown", Text: named(run, fmt.Sprintf("%s at least %.4g%s", what, least, unit))}
	if v != nil {
		e.Met, e.Got = new(*v >= least), fmt.Sprintf("%.4g%s", *v, unit)
	}
	return inconclusive(run, e)
}

// sound is what is expected of every run: nothing is lost, nothing comes that
// nobody was to get, nothing is doubled but, for each dispatcher that is
// killed, its calls in flight, and nothing dies.
func sound(run *report.Run, killed int) []report.Expectation {
	return append(delivered(run, killed), count(run, "dead", run.Dead, 0))
}

// soundTogether is sound of our own runs among many, in one sum.
func soundTogether(runs []report.Run) []report.Expectation {
	var lost, duplicated, unexpected, dead int64
	for i := range runs {
		r := &runs[i]
		if r.Strategy != Own || r.Lost == nil || r.Duplicated == nil || r.Unexpected == nil || r.Dead == nil {
			continue
		}
		lost += *r.Lost
		duplicated += *r.Duplicated
		unexpected += *r.Unexpected
		dead += *r.Dead
	}
	all := report.Run{Figures: report.Figures{Lost: &lost, Duplicated: &duplicated, Unexpected: &unexpected, Dead: &dead}}
	all.Label = "all runs"
	return sound(&all, 0)
}

// count expects a count not to be above a bound, whatever else the run proves.
func count(run *report.Run, what string, n *int64, most int64) report.Expectation {
	e := report.Expectation{Of: Own, Got: "unknown", Text: named(run, fmt.Sprintf("%s at most %d", what, most))}
	if n != nil {
		e.Met, e.Got = new(*n <= most), strconv.FormatInt(*n, 10)
	}
	return e
}

// delivered is sound where messages may die of their age.
func delivered(run *report.Run, killed int) []report.Expectation {
	return []report.Expectation{
		count(run, "lost", run.Lost, 0),
		count(run, "duplicated", run.Duplicated, int64(killed)*inFlight),
		count(run, "unexpected", run.Unexpected, 0),
	}
}

// each judges every run on its own.
func each(killed int, expect func(run *report.Run) []report.Expectation) func([]report.Run) []report.Expectation {
	return func(runs []report.Run) []report.Expectation {
		var list []report.Expectation
		for i := range runs {
			list = append(list, sound(&runs[i], killed)...)
			list = append(list, expect(&runs[i])...)
		}
		return list
	}
}
