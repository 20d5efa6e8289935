package report

import (
	"fmt"
	"slices"
	"strings"
)

// headline is what the figures say, as a sentence: of this project's own runs
// the worst, and of the others the one that is far worse still. Where the figures
// have no sentence, it is what was expected last, if it was met: the scenario's own
// question. It is empty where none of ours ran.
func headline(r *Report) string {
	var own, others []Run
	for _, run := range r.Runs {
		switch {
		case run.Baseline || run.Sent == nil:
		case run.Strategy == Own:
			own = append(own, run)
		default:
			others = append(others, run)
		}
	}
	said := slices.Concat(flow(own), drained(own), overloaded(own), particular(own))
	switch all := r.Expectations; {
	case len(said) > 0:
		said = append(said, beside(own, others)...)
	case len(own) > 0 && len(all) > 0 && r.Verdict().Outcome == Pass:
		said = []string{expectation(all[len(all)-1])}
	}
	return plain(strings.Join(said, "; "))
}

// flow is about the limit, and the pages that stay below it.
func flow(own []Run) (said []string) {
	used, ok := worst(own, "quota_use")
	if !ok {
		return nil
	}
	text := fmt.Sprintf("%s used %s of the limit", Own, percent(used.value))
	if refused, ok := worst(own, "refused_per_sent"); ok && refused.value == 0 {
		text += " with no refused call"
	} else if ok {
		text += fmt.Sprintf(" with %s refused calls for every 100 sent", number(100*refused.value))
	}
	said = append(said, text)
	if cold, ok := worst(own, "cold_p99_ms"); ok {
		said = append(said, fmt.Sprintf("pages below their limit waited %s (p99)", latency(cold.value)))
	}
	return said
}

// drained is about a backlog that was waited for.
func drained(own []Run) []string {
	took, ok := worst(own, "drain_s")
	if !ok || own[0].IdealDrainS == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s sent all of it within %s, where the limit alone takes %s", Own, seconds(took.value), seconds(*own[0].IdealDrainS))}
}

// overloaded is about the most that was offered.
func overloaded(own []Run) (said []string) {
	for _, run := range own {
		if run.Curve == nil || len(run.Curve.Points) == 0 {
			continue
		}
		most := slices.MaxFunc(run.Curve.Points, func(a, b CurvePoint) int { return int(a.OfferedPerS - b.OfferedPerS) })
		if most.GoodputPerS != nil {
			said = append(said, fmt.Sprintf("%s delivered %s a second in time, of %s offered", run.Name(), number(*most.GoodputPerS), number(most.OfferedPerS)))
		}
	}
	return said
}

// particular is what only this scenario has.
func particular(own []Run) []string {
	var list []string
	for _, c := range measures(own) {
		if c.better != Neither {
			list = append(list, c.title+" "+c.unit(nil)(worstBy(own, c).value))
		}
	}
	switch {
	case len(list) == 0:
		return nil
	case len(own) > 1:
		return []string{Own + ", at worst: " + strings.Join(list, ", ")}
	}
	return []string{Own + ": " + strings.Join(list, ", ")}
}

// beside is in what another way is far worse: the calls that it needs, how long
// it keeps other pages waiting, or what it leaves unused. The published algorithm
// comes before those that nobody proposes.
func beside(own, others []Run) []string {
	first := slices.DeleteFunc(slices.Clone(others), func(r Run) bool { return r.Strategy != published })
	for _, of := range []struct {
		field    string
		farWorse func(ours, theirs float64) bool
		say      func(theirs figure) string
	}{
		{"calls_per_record", func(a, b float64) bool { return b > 1.5*a }, func(f figure) string { return fmt.Sprintf("%s needed %s calls a message", f.way(), number(f.value)) }},
		{"cold_p99_ms", func(a, b float64) bool { return b > 2*a }, func(f figure) string { return fmt.Sprintf("with %s they waited %s", f.way(), latency(f.value)) }},
		{"quota_use", func(a, b float64) bool { return b < a-.02 }, func(f figure) string { return fmt.Sprintf("%s used %s", f.way(), percent(f.value)) }},
	} {
		ours, known := worst(own, of.field)
		for _, some := range [][]Run{first, others} {
			theirs, compared := worst(some, of.field)
			if known && compared && of.farWorse(ours.value, theirs.value) {
				return []string{of.say(theirs)}
			}
		}
	}
	return nil
}

// figure is one run's.
type figure struct {
	name  string
	value float64
}

// way is what to call the run in a sentence.
func (f figure) way() string {
	if f.name == published {
		return "the article's way"
	}
	return f.name
}

// worst returns the worst figure of the runs that know it, by its field.
func worst(runs []Run, field string) (figure, bool) {
	f := worstBy(runs, columnOf(field))
	return f, f.name != ""
}

func worstBy(runs []Run, c column) (f figure) {
	for i := range runs {
		v := c.value(&runs[i])
		if v != nil && (f.name == "" || c.better == Lower && *v > f.value || c.better == Higher && *v < f.value) {
			f = figure{runs[i].Name(), *v}
		}
	}
	return f
}

// columnOf returns the column of a field that there is.
func columnOf(field string) column {
	return columns[slices.IndexFunc(columns, func(c column) bool { return c.field == field })]
}
