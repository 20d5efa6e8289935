package scenario

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"chatclub/loadtest/fleet"
	"chatclub/loadtest/load"
	"chatclub/loadtest/paired"
	"chatclub/loadtest/report"
	"chatclub/loadtest/trial"
)

// ceiling compares the processor time of a message in the dispatcher with that
// in a bare loop, in pairs.
func ceiling() Scenario {
	return Scenario{
		Name: "ceiling", Title: "What a message costs in the dispatcher, and in a bare loop that consumes, posts, acknowledges",
		Source:   "the loop is what one writes without thinking of limits; two otherwise equal runs differ by up to 2 ×, so they are paired",
		OwnOnly:  true,
		Paired:   true,
		unused:   []string{"duration", "warm", "drain", "via", "room"},
		defaults: Common{Limit: 1_000_000, Latency: "none", Replicas: 1},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			pairs := fs.Int("pairs", 9, "how often each side runs; at least 7 for a verdict")
			messages := fs.Int("messages", 40_000, "of each run; of a few thousand a good part is the cost of beginning")
			pages := fs.Int("pages", 200, "over which they are spread, so that no limit plays a part")
			workers := fs.Int("workers", 64, "calls in flight at most, on both sides")
			rate := fs.Int("rate", 0, "messages a second; 0: all at once")
			most := fs.Float64("most", 1.3, "the ratio that is expected not to be exceeded; only in processes on RabbitMQ")
			return func(c Common) (Set, error) {
				if err := errors.Join(between("pairs", float64(*pairs), 2, 1000), between("messages", float64(*messages), 100, 1e7),
					between("pages", float64(*pages), 1, 1e6), between("workers", float64(*workers), 1, fleet.MaxInFlight),
					between("rate", float64(*rate), 0, 1e6), between("most", *most, 1, 100)); err != nil {
					return Set{}, err
				}
				demand := load.Segment{Burst: *messages, For: 100 * time.Millisecond}
				if *rate > 0 {
					demand = load.Segment{Rate: float64(*rate), For: time.Duration(*messages) * time.Second / time.Duration(*rate)}
				}
				ours := trial.Plan{
					Length: demand.For, Warm: -1, Drain: time.Minute,
					Streams: []trial.Stream{{
						Group: trial.Cold, Pages: trial.Pages(hotPage, *pages), People: trial.DefaultPeople,
						Backlog: *rate == 0, Segments: []load.Segment{demand},
					}},
					Options: fleet.Options{MaxInFlight: *workers},
				}
				side, base := Part{Plan: ours}, Part{Plan: ours, Baseline: true, Strategy: fleet.Bare}
				var set Set
				for i := range *pairs {
					for _, part := range paired.Order(i, side, base) {
						part.Label = fmt.Sprintf("pair %d", i+1)
						set.Parts = append(set.Parts, part)
					}
				}
				set.Expect = func(runs []report.Run) []report.Expectation { return costs(runs, *most) }
				return set, nil
			}
		},
	}
}

// costs judges the pairs, as package paired says, of which those are left out
// that prove nothing. In one process there is no verdict: the fake's and the
// generator's cost on both sides would hide whatever the dispatcher's is.
func costs(runs []report.Run, most float64) []report.Expectation {
	list := soundTogether(runs)
	turns := make([]paired.Run, len(runs))
	for i := range runs {
		turns[i].Base = paired.Order(i/2, false, true)[i%2]
		if runs[i].Status == report.Complete {
			turns[i].Cost = cost(&runs[i])
		}
	}
	c := paired.Compare(turns)
	e := report.Expectation{Of: Own, Text: fmt.Sprintf("processor time of a message at most %g × the other side's", most), Got: "unknown"}
	if len(c.Ratios) == 0 {
		e.Got += ": too few runs prove anything"
		return append(list, e)
	}
	e.Got = fmt.Sprintf("%.2f ×, median of %d pairs", paired.Median(c.Ratios), len(c.Ratios))
	verdict := c.Judge(most)
	if verdict != paired.Few {
		low, high := paired.Interval(c.Ratios)
		below, above := paired.Interval(c.Controls)
		e.Got += fmt.Sprintf(", 95 %% interval %.2f to %.2f, control (the same side twice) %.2f to %.2f", low, high, below, above)
	}
	switch {
	case slices.ContainsFunc(runs, oneProcess):
		e.Got += ": no verdict, because the fake and the generator are in the cost of both"
	case verdict == paired.Met, verdict == paired.Missed:
		e.Met = new(verdict == paired.Met)
	default:
		e.Got += ": " + string(verdict)
	}
	return append(list, e)
}

// oneProcess reports whether a run's cost is that of the whole process.
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
