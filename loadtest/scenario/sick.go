package scenario

import (
	"errors"
	"flag"
	"strconv"
	"time"

	"chatclub/internal/queue"
	"chatclub/loadtest/load"
	"chatclub/loadtest/report"
	"chatclub/loadtest/situation"
	"chatclub/loadtest/trial"
)

// What is wrong with calls to the sick: each is a part of the scenario.
const (
	serverError = "2"         // Messenger's "unexpected error", with HTTP 500
	hangsFor    = time.Minute // longer than any sensible client waits
)

// illnesses are the parts of a scenario about what is sick: nothing is, and each
// way of being so.
func illnesses(people int, plan func(*trial.Sickness) trial.Plan) []Part {
	return []Part{
		{Label: "all are well", Plan: plan(nil), Baseline: true},
		{Label: "calls are answered 500", Plan: plan(&trial.Sickness{People: people, Code: serverError})},
		{Label: "calls hang", Plan: plan(&trial.Sickness{People: people, Hang: hangsFor})},
	}
}

// othersArrived is the share of the copies for others than the sick that arrived.
const othersArrived = "others arrived"

// countOthers measures what became of those that nothing is wrong with.
func countOthers(run *report.Run, f trial.Found) {
	var arrived, waiting int64
	for name, g := range f.Groups {
		if name != trial.Sick {
			arrived += g.Copies.TotalCount()
			waiting += g.Waiting.TotalCount()
		}
	}
	if arrived+waiting > 0 {
		run.Measures = append(run.Measures, report.Measure{
			Name: othersArrived, Unit: "%", Better: report.Higher, Value: new(100 * float64(arrived) / float64(arrived+waiting)),
		})
	}
}

// wellBeside judges runs beside something sick: what is not sick arrives, in its
// time, and of what is nothing is lost or doubled.
func wellBeside(beside slower) func([]report.Run) []report.Expectation {
	return func(runs []report.Run) []report.Expectation {
		list := sound(&runs[0], 0)
		for i := range runs[1:] {
			r := &runs[1+i]
			list = append(list, delivered(r, 0)...)
			list = append(list, refusals(r, .02), atLeast(r, othersArrived, measure(r, othersArrived), 100, " %"))
			list = append(list, beside(&runs[0], r, "the sick")...)
		}
		return list
	}
}

func sickMember() Scenario {
	return Scenario{
		Name: "sick-member", Title: "One member of a busy room cannot be sent to",
		Source:   "README, guarantee of isolation: a person who cannot be sent to delays no other person",
		unused:   []string{"warm", "via"},
		defaults: Common{Room: fullRoom, Duration: 30 * time.Second, Drain: 5 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			people := fs.Int("sick", 1, "members who cannot be sent to")
			return func(c Common) (Set, error) {
				if err := errors.Join(needsRoom(c), between("sick", float64(*people), 1, float64(c.Room-1))); err != nil {
					return Set{}, err
				}
				plan := func(s *trial.Sickness) trial.Plan {
					return trial.Plan{
						Streams: []trial.Stream{{
							Group: trial.Cold, Pages: trial.Pages(hotPage, 1), People: c.Room, Sickness: s,
							Segments: []load.Segment{{Rate: float64(c.Room-1) / situation.SickMemberEvery.Seconds(), For: c.Duration}},
						}},
						Finish: countOthers,
					}
				}
				return Set{Parts: illnesses(*people, plan), Expect: wellBeside(beside)}, nil
			}
		},
	}
}

func sickPage() Scenario {
	return Scenario{
		Name: "sick-page", Title: "Every call of one page fails; other pages must not notice",
		Source:   "README, guarantee of isolation: a page that is sick delays no other page",
		unused:   []string{"warm", "via"},
		defaults: Common{Duration: 30 * time.Second, Drain: 5 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			pages := fs.Int("cold-pages", 50, "other pages, beside one that is busy")
			return func(c Common) (Set, error) {
				if err := between("cold-pages", float64(*pages), 1, 100_000); err != nil {
					return Set{}, err
				}
				every := func(group string, first, pages int, gap time.Duration) trial.Stream {
					return trial.Stream{
						Group: group, Pages: trial.Pages(first, pages), People: manyPeople,
						Segments: []load.Segment{{Rate: float64(pages) / gap.Seconds(), For: c.Duration}},
					}
				}
				plan := func(s *trial.Sickness) trial.Plan {
					ill := every(trial.Sick, hotPage, 1, situation.SickPageEvery)
					ill.Sickness = s
					return trial.Plan{
						Streams: []trial.Stream{ill, every(trial.Cold, firstCold, *pages, situation.QuietPageEvery), every(trial.Cold, firstCold+*pages, 1, situation.BusyPageEvery)},
						Finish:  countOthers,
					}
				}
				return Set{Parts: illnesses(0, plan), Expect: wellBeside(isolated)}, nil
			}
		},
	}
}

// manyPeople are so many that hardly anybody gets a message before the answer to
// the one before: what a page's messages wait for is then not themselves.
const manyPeople = 20_000

// sharing returns a page of another one's partition.
func sharing(page string, partitions int) string {
	t := queue.Topology{Partitions: partitions}
	for n := firstCold; ; n++ {
		if id := strconv.Itoa(n); t.PartitionOf(id) == t.PartitionOf(page) {
			return id
		}
	}
}

func laneNeighbour() Scenario {
	return Scenario{
		Name: "lane-neighbour", Title: "A page in excess beside one at rest, in the same partition",
		Source:   "README, guarantee of isolation: pages of one partition share its queue and its sender",
		defaults: Common{Room: situation.NeighbourRoom, Duration: 30 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			times := fs.Float64("times", situation.NeighbourTimes, "demand on the page in excess, as a multiple of its limit")
			return func(c Common) (Set, error) {
				if err := errors.Join(needsRoom(c), checkTimes(*times)); err != nil {
					return Set{}, err
				}
				rest := trial.Stream{
					Group: trial.Cold, Pages: []trial.Page{{ID: sharing(strconv.Itoa(hotPage), c.Partitions), Weight: 1}}, People: c.Room,
					Segments: []load.Segment{{Rate: float64(c.Room-1) / situation.NeighbourEvery.Seconds(), For: c.Duration}},
				}
				return Set{
					Parts: []Part{
						{Label: "without the page in excess", Plan: trial.Plan{Streams: []trial.Stream{rest}}, Baseline: true},
						{Plan: trial.Plan{Streams: []trial.Stream{rest, saturating(c, *times, 1)}}},
					},
					Expect: pair(beside, "the page in excess", func(r *report.Run) []report.Expectation {
						return []report.Expectation{quota(r, fullQuota), refusals(r, .02)}
					}),
				}, nil
			}
		},
	}
}
