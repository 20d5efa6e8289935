package scenario

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"chatclub/loadtest/report"
	"chatclub/loadtest/trial"
)

// longestSilence is how long nothing of the hot page was accepted, at most.
const longestSilence = "longest silence"

func rollingRestart() Scenario {
	return Scenario{
		Name: "rolling-restart", Title: "Every dispatcher is restarted, one after another, under load",
		Source:   "README, a clean stop: nothing is lost and nothing doubled, as in every rollout of a new version",
		defaults: Common{Duration: 40 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			times := timesFlag(fs)
			pages := fs.Int("cold-pages", 50, "other pages")
			rate := fs.Float64("cold-rate", 100, "messages a second of the other pages together")
			return func(c Common) (Set, error) {
				if err := errors.Join(checkTimes(*times), between("cold-pages", float64(*pages), 1, 1_000_000), between("cold-rate", *rate, 1, 100_000)); err != nil {
					return Set{}, err
				}
				var script []trial.Step
				for i := range c.Replicas {
					script = append(script, trial.Step{
						At: c.Duration/4 + c.Duration/2*time.Duration(i)/time.Duration(c.Replicas), Name: fmt.Sprintf("restart %d of %d", i+1, c.Replicas),
						Do: func(ctx context.Context, s *trial.Controls) error { return s.Restart(ctx) },
					})
				}
				return Set{
					Parts: []Part{{Plan: trial.Plan{
						Streams: []trial.Stream{cold(c, *pages, *rate), saturating(c, *times, 1)}, Script: script, Finish: silence,
					}}},
					Expect: each(0, func(r *report.Run) []report.Expectation {
						// For up to 0.8 s of each restart of its sender the
						// page is silent, as in scale.
						return []report.Expectation{
							quota(r, .78), refusals(r, .02), atMost(r, longestSilence, measure(r, longestSilence), mostSilent, " s"),
							atMost(r, "cold p99", r.ColdP99MS, 1000*mostSilent, " ms"),
						}
					}),
				}, nil
			}
		},
	}
}

// mostSilent is how long a page may be silent, in seconds: for 0.8 s its calls are
// waited for when its dispatcher is stopped, and another second is for a busy
// machine.
const mostSilent = 1.8

// silence measures it, from the first message to the end of the load.
func silence(run *report.Run, f trial.Found) {
	tenths := f.Tenths[trial.Hot]
	longest, now, begun := 0, 0, false
	for i := range min(len(tenths), int(f.Length/(100*time.Millisecond))) {
		begun = begun || tenths[i] > 0
		if now++; tenths[i] > 0 || !begun {
			now = 0
		}
		longest = max(longest, now)
	}
	if begun {
		run.Measures = append(run.Measures, report.Measure{Name: longestSilence, Unit: "s", Better: report.Lower, Value: new(float64(longest) / 10)})
	}
}
