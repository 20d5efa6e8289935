package scenario

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"time"

	"chatclub/internal/fleet"
	"chatclub/internal/load"
	"chatclub/internal/report"
	"chatclub/internal/trial"
)

// ceiling compares the processor time of a message in the dispatcher with that
// in a bare loop. The sides run in turn, A B B A: a machine that grows slower or
// faster meets both alike, and where a side runs twice in a row the two should
// be equal, which they are as far as the machine is quiet.
func ceiling() Scenario {
	return Scenario{
		Name: "ceiling", Title: "What a message costs in the dispatcher, and in a bare loop that consumes, decodes, sends, acknowledges",
		Source:   "the loop has this project's codec and sender, and no gate, lanes or lines; two otherwise equal runs differ by up to 2 ×, so they are paired",
		OwnOnly:  true,
		unused:   []string{"duration", "warm", "drain"},
		defaults: Common{Limit: 1_000_000, Latency: "none", Replicas: 1},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			pairs := fs.Int("pairs", 9, "how often each side runs")
			messages := fs.Int("messages", 40_000, "of each run; of a few thousand a good part is the cost of beginning")
			pages := fs.Int("pages", 200, "over which they are spread, so that no limit plays a part")
			most := fs.Float64("most", 1.3, "the ratio that is expected not to be exceeded; only in processes on RabbitMQ")
			return func(c Common) (Set, error) {
				if err := errors.Join(between("pairs", float64(*pairs), 2, 1000), between("messages", float64(*messages), 100, 1e7),
					between("pages", float64(*pages), 1, 1e6), between("most", *most, 1, 100)); err != nil {
					return Set{}, err
				}
				plan := trial.Plan{
					Length: 100 * time.Millisecond, Warm: -1, Drain: time.Minute,
					Streams: []trial.Stream{{
						Group: trial.Cold, Pages: trial.Pages(hotPage, *pages), People: people(c, trial.DefaultPeople),
						Backlog: true, Segments: []load.Segment{{Burst: *messages, For: 100 * time.Millisecond}},
					}},
				}
				var set Set
				for i := range *pairs {
					sides := []string{"", fleet.Bare}
					if i%2 == 1 {
						slices.Reverse(sides)
					}
					for _, side := range sides {
						set.Parts = append(set.Parts, Part{Label: fmt.Sprintf("pair %d", i+1), Plan: plan, Strategy: side, Baseline: side == fleet.Bare})
					}
				}
				set.Expect = func(runs []report.Run) []report.Expectation { return costs(runs, *most) }
				return set, nil
			}
		},
	}
}

// costs judges the pairs: the median of their ratios against the bound, give or
// take what runs of the same side differ by. A pair of which a run proves
// nothing is left out. In one process there is no verdict: the fake's and the
// generator's cost on both sides would hide whatever the dispatcher's is.
func costs(runs []report.Run, most float64) []report.Expectation {
	list := soundTogether(runs)
	var ratios, control []float64
	for i := 0; i+1 < len(runs); i++ {
		a, b := cost(&runs[i]), cost(&runs[i+1])
		switch {
		case a == 0 || b == 0 || runs[i].Status != report.Complete || runs[i+1].Status != report.Complete:
		case runs[i].Strategy == runs[i+1].Strategy:
			control = append(control, math.Abs(math.Log(a/b)))
		case i%2 == 0 && runs[i].Strategy == Own:
			ratios = append(ratios, a/b)
		case i%2 == 0:
			ratios = append(ratios, b/a)
		}
	}
	e := report.Expectation{Of: Own, Text: fmt.Sprintf("processor time of a message at most %g × the bare loop's", most), Got: "unknown"}
	if len(ratios) == 0 || len(control) == 0 {
		e.Got += ": too few runs prove anything"
		return append(list, e)
	}
	ratio, noise := median(ratios), math.Exp(median(control))
	e.Got = fmt.Sprintf("%.2f ×, median of %d pairs, give or take the %.0f %% by which two runs of one side differ", ratio, len(ratios), 100*(noise-1))
	switch {
	case slices.ContainsFunc(runs, oneProcess):
		e.Got += ": no verdict, because the fake and the generator are in the cost of both"
	case ratio*noise <= most:
		e.Met = new(true)
	case ratio/noise > most:
		e.Met = new(false)
	default:
		e.Got += ": inconclusive, the bound lies within"
	}
	return append(list, e)
}

// oneProcess tells that a run's cost is that of the whole process.
func oneProcess(r report.Run) bool { return r.CPU == nil || r.CPU.Dispatchers == nil }

// cost is the dispatchers' own, where that is known.
func cost(r *report.Run) float64 {
	switch {
	case r.CPU != nil && r.CPU.Dispatchers != nil:
		return *r.CPU.Dispatchers
	case r.CPUUSPerSent != nil:
		return *r.CPUUSPerSent
	}
	return 0
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
