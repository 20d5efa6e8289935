package scenario

import (
	"errors"
	"flag"
	"time"

	"chatclub/loadtest/load"
	"chatclub/loadtest/report"
	"chatclub/loadtest/trial"
)

func smallLimits() Scenario {
	return Scenario{
		Name: "small-limits", Title: "Pages at nine tenths of a small limit, message after message",
		Source:   "whoever divides a limit, or asks for it, pays for that on pages that stay below it",
		defaults: Common{Limit: 30},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			pages := fs.Int("pages", 10, "pages")
			used := fs.Float64("used", .9, "demand on each page, as a share of its limit")
			return func(c Common) (Set, error) {
				if err := errors.Join(between("pages", float64(*pages), 1, 1000), between("used", *used, .1, .95)); err != nil {
					return Set{}, err
				}
				return Set{
					Parts: []Part{
						{Label: "a tenth of it", Plan: trial.Plan{Streams: inTurn(c, *pages, *used/10)}, Baseline: true},
						{Plan: trial.Plan{Streams: inTurn(c, *pages, *used)}},
					},
					Expect: pair(isolated, "nine tenths of the load", func(r *report.Run) []report.Expectation {
						return []report.Expectation{refusals(r, .01)}
					}),
				}, nil
			}
		},
	}
}

// inTurn is a demand of a share of the limit on each page: a message of one page
// after the other, at equal distances.
func inTurn(c Common, pages int, used float64) []trial.Stream {
	perSecond := used * float64(c.Limit)
	list := make([]trial.Stream, pages)
	for i := range list {
		list[i] = trial.Stream{
			Group: trial.Cold, Pages: trial.Pages(firstCold+i, 1), People: people(c, trial.DefaultPeople),
			Segments: []load.Segment{
				{For: time.Duration(float64(i) / perSecond / float64(pages) * float64(time.Second))},
				{Rate: perSecond, For: c.Duration},
			},
		}
	}
	return list
}
