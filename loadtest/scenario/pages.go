package scenario

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"strconv"
	"time"

	"chatclub/loadtest/load"
	"chatclub/loadtest/report"
	"chatclub/loadtest/trial"
)

// firstCold numbers the cold pages, apart from the hot ones.
const firstCold = 1001

// cold is a stream over pages that stay below their limits.
func cold(c Common, pages int, perSecond float64) trial.Stream {
	return trial.Stream{
		Group: trial.Cold, Pages: trial.Pages(firstCold, pages), Poisson: true, People: people(c, 100),
		Segments: []load.Segment{{Rate: perSecond, For: c.Duration}},
	}
}

func chatclubRoom() Scenario {
	return Scenario{
		Name: "chatclub-room", Title: "A club of full rooms writes at the page's limit",
		Source:   "ChatClub's article: rooms of 100, 3 messages a second, and the first second at the limit",
		unused:   []string{"warm"},
		defaults: Common{Via: trial.ViaWebhook, Room: 100, Drain: 15 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			rate := fs.Float64("rate", 3, "messages a second that are written in the rooms together")
			rooms := fs.Int("rooms", 2, "rooms on the page")
			inTime := fs.Duration("in-time", 5*time.Second, "within which every copy must have arrived")
			return func(c Common) (Set, error) {
				if err := needsRoom(c); err != nil {
					return Set{}, err
				}
				if *rate <= 0 || *rate > 1000 {
					return Set{}, fmt.Errorf("-rate: %g must be above 0 and at most 1000", *rate)
				}
				if *rooms < 1 || *rooms > 1000 {
					return Set{}, fmt.Errorf("-rooms: %d must be 1 to 1000", *rooms)
				}
				copies := *rate * float64(c.Room-1)
				over := copies > .98*float64(c.Limit)
				return Set{
					Parts: []Part{{Plan: trial.Plan{
						Streams: []trial.Stream{{
							Group: trial.Hot, Pages: trial.Pages(hotPage, 1), People: *rooms * c.Room,
							Segments: []load.Segment{{Rate: copies, For: c.Duration}},
						}},
						InTime: *inTime,
						Finish: noQuota, // what is offered is less than the limit
					}}},
					Expect: each(0, func(r *report.Run) []report.Expectation {
						list := []report.Expectation{refusals(r, .02)}
						if !over || copies*c.Duration.Seconds()/(.98*float64(c.Limit)) < (c.Duration+*inTime).Seconds() {
							list = append(list, complete(r, .99))
						}
						return list
					}),
				}, nil
			}
		},
	}
}

// noQuota leaves the share of the quota out, where there is not always
// something to send.
func noQuota(run *report.Run, _ trial.Found) { run.QuotaUse = nil }

// complete expects a share of the rooms to be complete in time.
func complete(r *report.Run, least float64) report.Expectation {
	var v *float64
	if r.Rooms != nil && r.CompleteRooms != nil && *r.Rooms > 0 {
		v = new(float64(*r.CompleteRooms) / float64(*r.Rooms))
	}
	return share(r, "room messages complete in time", v, least, infinite)
}

func neighbour() Scenario {
	return Scenario{
		Name: "neighbour", Title: "A backlog of one page lands before many others",
		Source: "README, guarantee of isolation; a public project's hours of delay behind one throttled user",
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			backlog := fs.Int("backlog", 30_000, "messages of one page that land at once")
			pages := fs.Int("cold-pages", 1000, "other pages")
			rate := fs.Float64("cold-rate", 200, "messages a second of the other pages together")
			return func(c Common) (Set, error) {
				if err := errors.Join(
					between("backlog", float64(*backlog), 1, 10_000_000), between("cold-pages", float64(*pages), 1, 1_000_000),
					between("cold-rate", *rate, 1, 100_000)); err != nil {
					return Set{}, err
				}
				others := cold(c, *pages, *rate)
				// It lands after a second, when the others flow.
				hot := trial.Stream{Group: trial.Hot, Pages: trial.Pages(hotPage, 1), People: people(c, trial.DefaultPeople), Backlog: true, Segments: []load.Segment{
					{For: time.Second}, {Burst: *backlog, For: c.Duration - time.Second},
				}}
				return Set{
					Parts: []Part{
						{Label: "without backlog", Plan: trial.Plan{Streams: []trial.Stream{others}}, Baseline: true},
						{Plan: trial.Plan{
							Streams: []trial.Stream{others, hot},
							Finish:  noQuota, // whoever joins texts has sent the backlog before the load ends
						}},
					},
					Expect: pair(isolated, "the backlog", func(r *report.Run) []report.Expectation {
						return []report.Expectation{refusals(r, .01)}
					}),
				}, nil
			}
		},
	}
}

// slower expects those beside what is loud to be hardly slower than in the quiet
// run, which is without it.
type slower func(quiet, loud *report.Run, without string) []report.Expectation

// pair judges a quiet run and a loud one, with what is expected of the loud one
// alone.
func pair(beside slower, without string, expect func(loud *report.Run) []report.Expectation) func([]report.Run) []report.Expectation {
	return func(runs []report.Run) []report.Expectation {
		quiet, loud := &runs[0], &runs[1]
		list := append(sound(quiet, 0), sound(loud, 0)...)
		list = append(list, expect(loud)...)
		return append(list, beside(quiet, loud, without)...)
	}
}

// isolated expects the cold pages to be hardly slower than in a run without
// what the hot ones do: twice is what the README guarantees of a backlog that
// lands at once, and 2 ms are what the generator may be late by for its own
// reasons.
func isolated(quiet, loud *report.Run, without string) []report.Expectation {
	if quiet.ColdP99MS == nil {
		return nil
	}
	e := atMost(loud, "cold p99", loud.ColdP99MS, 2**quiet.ColdP99MS+2, " ms")
	e.Text += fmt.Sprintf(", which is twice the %.4g ms without %s, and 2 ms", *quiet.ColdP99MS, without)
	return []report.Expectation{ifSound(quiet, e)}
}

// between checks a flag's value.
func between(flag string, v, low, high float64) error {
	if v < low || v > high || math.IsNaN(v) {
		return fmt.Errorf("-%s: %g must be %g to %g", flag, v, low, high)
	}
	return nil
}

func zipf() Scenario {
	return Scenario{
		Name: "zipf", Title: "Pages of very different size, the largest beyond their limits",
		Source:   "README, guarantee of isolation; sizes of pages by Zipf's law, as of most things that people choose",
		defaults: Common{Limit: 50},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			pages := fs.Int("pages", 200, "pages")
			rate := fs.Float64("rate", 900, "messages a second of all pages together")
			exponent := fs.Float64("exponent", 1.1, "the n-th page has 1/n to this power of the demand")
			return func(c Common) (Set, error) {
				if err := errors.Join(between("pages", float64(*pages), 2, 1_000_000), between("rate", *rate, 1, 1e6),
					between("exponent", *exponent, .1, 5)); err != nil {
					return Set{}, err
				}
				streams, err := zipfStreams(c, *pages, *rate, *exponent)
				if err != nil {
					return Set{}, err
				}
				return Set{
					Parts: []Part{
						{Label: "without the hot pages", Plan: trial.Plan{Streams: streams[:len(streams)-1]}, Baseline: true},
						{Plan: trial.Plan{Streams: streams}},
					},
					Expect: pair(isolated, "the hot pages", func(r *report.Run) []report.Expectation {
						return []report.Expectation{quota(r, .93), refusals(r, .02)}
					}),
				}, nil
			}
		},
	}
}

// zipfStreams splits the pages at their limit, the hot ones last. Cold are those
// below half of it, which hardly ever wait by themselves. Pages near the limit
// belong to neither: their demand is there, but whether they are hot is a
// matter of luck.
func zipfStreams(c Common, pages int, rate, exponent float64) ([]trial.Stream, error) {
	weights := make([]float64, pages)
	total := 0.0
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -exponent)
		total += weights[i]
	}
	groups := map[string]*trial.Stream{}
	rates := map[string]float64{}
	for i, w := range weights {
		own := rate * w / total
		name := "near the limit"
		switch {
		case own > 1.2*float64(c.Limit):
			name = trial.Hot
		case own < .5*float64(c.Limit):
			name = trial.Cold
		}
		s := groups[name]
		if s == nil {
			s = &trial.Stream{Group: name, Poisson: true, People: people(c, 200)}
			groups[name] = s
		}
		s.Pages = append(s.Pages, trial.Page{ID: strconv.Itoa(hotPage + i), Weight: w})
		rates[name] += own
	}
	if groups[trial.Hot] == nil || groups[trial.Cold] == nil {
		return nil, errors.New("-rate, -pages, -exponent: no page is above the limit, or none below it")
	}
	var list []trial.Stream
	for _, name := range []string{trial.Cold, "near the limit", trial.Hot} {
		if s := groups[name]; s != nil {
			s.Segments = []load.Segment{{Rate: rates[name], For: c.Duration}}
			list = append(list, *s)
		}
	}
	return list, nil
}

func bursts() Scenario {
	return Scenario{
		Name: "bursts", Title: "Something happens in several rooms of a page at once, every few seconds",
		Source:   "ChatClub's article: a message to a room is a hundred calls at once; other pages must not notice",
		unused:   []string{"warm"},
		defaults: Common{Room: 100, Drain: 15 * time.Second, Duration: 24 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			events := fs.Int("events", 10, "messages of a burst")
			every := fs.Duration("every", 6*time.Second, "between two bursts")
			inTime := fs.Duration("in-time", 5*time.Second, "within which every copy must have arrived")
			pages := fs.Int("cold-pages", 50, "other pages, with a full room each")
			rate := fs.Float64("cold-rate", 2, "messages a second in the rooms of the other pages together")
			return func(c Common) (Set, error) {
				if err := errors.Join(needsRoom(c), between("events", float64(*events), 1, 10_000), between("every", every.Seconds(), .1, 3600),
					between("cold-pages", float64(*pages), 1, 100_000), between("cold-rate", *rate, .01, 10_000)); err != nil {
					return Set{}, err
				}
				copies := c.Room - 1
				var segments []load.Segment
				for at := time.Duration(0); at+*every <= c.Duration; at += *every {
					segments = append(segments, load.Segment{Burst: *events * copies, For: *every})
				}
				if segments == nil {
					return Set{}, errors.New("-every: longer than -duration")
				}
				others := cold(c, *pages, *rate*float64(copies))
				others.People = c.Room
				return Set{
					Parts: []Part{{Plan: trial.Plan{
						InTime: *inTime,
						Finish: noQuota,
						Streams: []trial.Stream{others, {
							Group: trial.Hot, Pages: trial.Pages(hotPage, 1), People: 4 * c.Room, Segments: segments,
						}},
					}}},
					Expect: each(0, func(r *report.Run) []report.Expectation {
						list := []report.Expectation{refusals(r, .01)}
						if (float64(*events*copies) / (.98 * float64(c.Limit))) < inTime.Seconds()-1 {
							list = append(list, complete(r, .99))
						}
						return list
					}),
				}, nil
			}
		},
	}
}
