package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"chatclub/loadtest/report"
)

// named puts a run's label in front of what is expected of it.
func named(run *report.Run, text string) string {
	if run.Label == "" {
		return text
	}
	return strings.TrimPrefix(run.Label, Own+", ") + ": " + text
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
	return ifSound(run, e)
}

// ifSound takes the verdict back where the run proves nothing, good or bad: a
// generator that is late makes every limit easy to keep.
func ifSound(run *report.Run, e report.Expectation) report.Expectation {
	if e.Met == nil {
		return e
	}
	switch run.Status {
	case report.Complete:
	case report.Interrupted:
		e.Met = nil
		e.Got += ", but the run was stopped early"
	case report.Inconclusive, report.Failed:
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
	return number(run, fmt.Sprintf("%s at most %.4g%s", what, most, unit), v, v != nil && *v <= most, unit)
}

// atLeast expects a number not to be below a bound.
func atLeast(run *report.Run, what string, v *float64, least float64, unit string) report.Expectation {
	return number(run, fmt.Sprintf("%s at least %.4g%s", what, least, unit), v, v != nil && *v >= least, unit)
}

// number is an expectation of one, which may be unknown, and whether it is met.
func number(run *report.Run, text string, v *float64, isMet bool, unit string) report.Expectation {
	e := report.Expectation{Of: Own, Got: "unknown", Text: named(run, text)}
	if v != nil {
		e.Met, e.Got = new(isMet), fmt.Sprintf("%.4g%s", *v, unit)
	}
	return ifSound(run, e)
}

// sound is what is expected of every run: nothing is lost, nothing comes that
// nobody was to get, nothing is doubled but, for each dispatcher that is
// killed, what is in its calls, and nothing dies.
func sound(run *report.Run, killed int) []report.Expectation {
	return append(delivered(run, killed), none(run, "nothing dead-lettered", run.Dead))
}

// soundTogether is sound of our own runs among many, in one sum.
func soundTogether(runs []report.Run) []report.Expectation {
	var lost, duplicated, unexpected, dead int64
	status := report.Complete
	for i := range runs {
		r := &runs[i]
		if r.Strategy != Own || r.Lost == nil || r.Duplicated == nil || r.Unexpected == nil || r.Dead == nil {
			continue
		}
		if r.Status != report.Complete {
			status = r.Status
		}
		lost += *r.Lost
		duplicated += *r.Duplicated
		unexpected += *r.Unexpected
		dead += *r.Dead
	}
	all := report.Run{Figures: report.Figures{Lost: &lost, Duplicated: &duplicated, Unexpected: &unexpected, Dead: &dead}}
	all.Label, all.Status = "all runs", status
	return sound(&all, 0)
}

// count expects a count not to be above a bound. More than that is a fault
// whatever else the run proves.
func count(run *report.Run, text string, n *int64, most int64) report.Expectation {
	e := report.Expectation{Of: Own, Got: "unknown", Text: named(run, text)}
	if n == nil {
		return e
	}
	e.Met, e.Got = new(*n <= most), strconv.FormatInt(*n, 10)
	if !*e.Met {
		return e
	}
	return ifSound(run, e)
}

func none(run *report.Run, text string, n *int64) report.Expectation { return count(run, text, n, 0) }

// delivered is sound where messages may die of their age.
func delivered(run *report.Run, killed int) []report.Expectation {
	duplicated := none(run, "nothing duplicated", run.Duplicated)
	if most := int64(killed) * inFlight; most > 0 {
		duplicated = count(run, fmt.Sprintf("at most %d duplicated, what the killed have in calls", most), run.Duplicated, most)
	}
	return []report.Expectation{
		none(run, "nothing lost", run.Lost),
		duplicated,
		none(run, "nothing sent that nobody was to get", run.Unexpected),
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
