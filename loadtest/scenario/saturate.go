package scenario

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"

	"chatclub/fakeapi/limit"
	"chatclub/loadtest/load"
	"chatclub/loadtest/report"
	"chatclub/loadtest/trial"
)

// inFlight is how many messages in calls of a killed dispatcher may be doubled.
// A saturated page has 240 calls at the platform's latency, 300/s × 0.8 s; twice
// as many are allowed for. Each carries some four messages.
const inFlight = 2 * 240 * 4

// hotPage is the page that is saturated.
const hotPage = 1

// saturating is a demand of a number of times the limit on pages.
func saturating(c Common, times float64, pages int) trial.Stream {
	return trial.Stream{
		Group: trial.Hot, Pages: trial.Pages(hotPage, pages), Poisson: true, People: people(c, trial.DefaultPeople),
		Segments: []load.Segment{{Rate: times * float64(c.Limit) * float64(pages), For: c.Duration}},
	}
}

// people bounds how many join where they must.
func people(c Common, n int) int {
	if c.Via == trial.ViaWebhook {
		return min(n, 2*c.Room)
	}
	return n
}

func timesFlag(fs *flag.FlagSet) *float64 {
	return fs.Float64("times", 3, "demand on the hot page, as a multiple of its limit")
}

// checkTimes wants a demand that saturates: at 1.2 × the limit hardly any chance
// of random arrivals leaves the page without a message to send.
func checkTimes(times float64) error { return between("times", times, 1.2, 100) }

// The quota that is expected in saturation. The README guarantees 98 %,
// which is what the dispatcher asks for: over the few seconds of a run, calls
// that land just behind their second may take half a percent of it away.
const (
	fullQuota  = .975
	anyLimiter = .97 // guaranteed whatever the limiter's algorithm is
)

func saturate() Scenario {
	return Scenario{
		Name: "saturate", Title: "One page with more to send than its limit",
		Source: "README, guarantee of flow: the quota is used and hardly a call refused, at any number of dispatchers",
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			times := timesFlag(fs)
			pages := fs.Int("hot-pages", 1, "pages that are saturated")
			return func(c Common) (Set, error) {
				if *pages < 1 || *pages > 1000 {
					return Set{}, fmt.Errorf("-hot-pages: %d must be 1 to 1000", *pages)
				}
				least := fullQuota
				if c.Algorithm != string(limit.FixedWindow) {
					least = anyLimiter
				}
				return Set{
					Parts: []Part{{Plan: trial.Plan{Streams: []trial.Stream{saturating(c, *times, *pages)}}}},
					Expect: each(0, func(r *report.Run) []report.Expectation {
						return []report.Expectation{quota(r, least), refusals(r, .01)} // refusals from the start on
					}),
				}, checkTimes(*times)
			}
		},
	}
}

func scale() Scenario {
	return Scenario{
		Name: "scale", Title: "Dispatchers join, leave and are killed while a page is saturated",
		Source:   "README, guarantee of no coordination; what a static split cannot do",
		defaults: Common{Duration: 40 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			times := timesFlag(fs)
			return func(c Common) (Set, error) {
				n, d := c.Replicas, c.Duration
				kills := max(1, n/2)
				return Set{
					Parts: []Part{{Plan: trial.Plan{
						Streams: []trial.Stream{saturating(c, *times, 1)},
						Script: []trial.Step{
							{At: d / 4, Name: "the dispatchers double", Do: func(ctx context.Context, s *trial.Controls) error { return s.Join(ctx, n) }},
							{At: d / 2, Name: "as many leave, the oldest but one first", Do: func(ctx context.Context, s *trial.Controls) error { return s.Leave(ctx, n) }},
							{At: 3 * d / 4, Name: "half of them are killed, and one is left at least", Do: func(ctx context.Context, s *trial.Controls) error {
								if n == 1 {
									if err := s.Join(ctx, 1); err != nil {
										return err
									}
								}
								return s.Kill(ctx, kills)
							}},
						},
					}}},
					Expect: each(kills, func(r *report.Run) []report.Expectation {
						// A sender that leaves waits for its page's calls, and the
						// next begins with what it learns: some two seconds at
						// the platform's latency, each time the page moves.
						return []report.Expectation{quota(r, .78), refusals(r, .02)}
					}),
				}, checkTimes(*times)
			}
		},
	}
}

func limitChange() Scenario {
	return Scenario{
		Name: "limit-change", Title: "The platform halves a saturated page's limit, and raises it again",
		Source:   "the limit is not published and may change; the dispatchers are not told",
		defaults: Common{Duration: 40 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			times := timesFlag(fs)
			to := fs.Float64("to", .5, "the lower limit, as a share of -limit")
			return func(c Common) (Set, error) {
				if *to <= 0 || *to >= 1 {
					return Set{}, fmt.Errorf("-to: %g must be between 0 and 1", *to)
				}
				if lower := *to * float64(c.Limit); lower < 1 {
					return Set{}, fmt.Errorf("-to: %g of -limit %d is %g messages a second, less than 1", *to, c.Limit, lower)
				}
				set := func(perSecond float64) func(context.Context, *trial.Controls) error {
					return func(ctx context.Context, s *trial.Controls) error { return s.SetLimit(ctx, perSecond) }
				}
				full := float64(c.Limit)
				return Set{
					Parts: []Part{{Plan: trial.Plan{
						Streams: []trial.Stream{saturating(c, *times, 1)},
						Script: []trial.Step{
							{At: c.Duration / 4, Name: "the limit is lowered", Do: set(*to * full)},
							{At: c.Duration / 2, Name: "the limit is raised again", Do: set(full)},
						},
					}}},
					Expect: each(0, func(r *report.Run) []report.Expectation {
						// The way back is found step by step: for seconds
						// after the raise the pace is below it.
						return []report.Expectation{quota(r, .78), refusals(r, .02)}
					}),
				}, checkTimes(*times)
			}
		},
	}
}

func sharedLimit() Scenario {
	return Scenario{
		Name: "shared-limit", Title: "Another app takes a part of a saturated page's limit",
		Source:   "other apps that send for a page share its limit",
		defaults: Common{Duration: 30 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			times := timesFlag(fs)
			part := fs.Float64("foreign", 1.0/3, "calls of the other app, as a share of -limit")
			return func(c Common) (Set, error) {
				if *part <= 0 || *part >= 1 {
					return Set{}, fmt.Errorf("-foreign: %g must be between 0 and 1", *part)
				}
				return Set{
					Parts: []Part{{Plan: trial.Plan{
						Streams: []trial.Stream{saturating(c, *times, 1)},
						Foreign: []trial.Foreign{{Page: strconv.Itoa(hotPage), Segments: []load.Segment{
							{For: c.Duration / 4}, {Rate: *part * float64(c.Limit), For: c.Duration * 3 / 4},
						}}},
					}}},
					Expect: each(0, func(r *report.Run) []report.Expectation {
						return []report.Expectation{quota(r, .87), refusals(r, .03)}
					}),
				}, checkTimes(*times)
			}
		},
	}
}
