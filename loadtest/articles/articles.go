// Package articles plays the experiments of the articles that chatclub was made from,
// and of the field's other ways against overload, in virtual time. Each says what its
// article says, what was found here, and in which bounds that is expected.
//
// What an experiment judges is the real thing: the limiters, maps and strategies of the
// product and of the load test, and fakeapi as the platform. All take the time as a
// parameter, so a plain loop of events is their clock, and equal seeds give equal
// figures. What stands around them is as small as may be: a queue, threads, and people
// who wait.
package articles

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"chatclub/loadtest/report"
)

// Experiment is a row of the table of experiments.
type Experiment struct {
	Name  string // the article, a dash, and what it is about
	Title string // what it shows, in a line
	Run   func(seed uint64) Result
}

// Result is the result of an experiment.
type Result struct {
	Rows   []Row
	Charts []report.Chart
	Runs   []report.Run // of those that are compared in several columns
	Notes  []string
}

// Row is a figure of an article beside ours.
type Row struct {
	What, Article string
	Here          float64
	Unit          string  // behind the number; "%": Here is a share
	Least, Most   float64 // bounds in which Here is expected
}

// text is a value as people read it.
func (r Row) text(v float64) string {
	if r.Unit == "%" {
		return report.Quota.Text(v) // it is a share, too
	}
	return strings.TrimSpace(report.Figure(r.Unit).Text(v) + " " + r.Unit)
}

// All returns the table of experiments.
func All() []Experiment {
	return slices.Concat(chatclub(), pushwoosh(), azure(), mindbox(), overload())
}

// Find returns the experiments whose names begin so; "" begins all.
func Find(name string) []Experiment {
	return slices.DeleteFunc(All(), func(e Experiment) bool { return !strings.HasPrefix(e.Name, name) })
}

// Play plays experiments, and returns one report of all.
func Play(list []Experiment, seed uint64) *report.Report {
	title := "The articles' experiments in virtual time"
	if len(list) == 1 {
		title = list[0].Title
	}
	r := report.New("articles", title, seed)
	for _, e := range list {
		got := e.Run(seed)
		r.Charts, r.Runs = append(r.Charts, got.Charts...), append(r.Runs, got.Runs...)
		for _, n := range got.Notes {
			r.Notes = append(r.Notes, e.Name+": "+n)
		}
		for _, row := range got.Rows {
			here := row.text(row.Here)
			r.Beside = append(r.Beside, report.Beside{What: e.Name + ": " + row.What, There: row.Article, Here: here})
			r.Expectations = append(r.Expectations, report.Expectation{
				Text: fmt.Sprintf("%s: %s is %s to %s", e.Name, row.What, row.text(row.Least), row.text(row.Most)),
				Met:  new(row.Here >= row.Least && row.Here <= row.Most), Got: here,
			})
		}
	}
	return r
}

// random returns the numbers of a seed, of a stream that no other part of the load test has.
func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 39)) }

// must stops the program where an experiment's own settings are wrong.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// hot begins the ids of pages that have more to send than their limit. fakeapi wants digits.
const hot = "1"
