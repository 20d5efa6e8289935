package report

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Merge joins the reports of each scenario into one, in the order in which the
// scenarios come. Runs keep their order; a run that comes again, equal in all
// its figures, is the same run and is dropped. What a later report did in
// another way than the first (settings, command, seed, versions, machine) is
// told in a note of the runs that came from it, because a comparison between
// them may not be fair. The reports given are not changed.
func Merge(reports ...*Report) []*Report {
	var out []*Report
	for _, r := range reports {
		i := slices.IndexFunc(out, func(o *Report) bool { return o.Scenario == r.Scenario })
		if i < 0 {
			c := *r
			c.Runs = slices.Clone(r.Runs)
			c.Expectations = slices.Clone(r.Expectations)
			c.Notes = slices.Clone(r.Notes)
			out = append(out, &c)
			continue
		}
		out[i].join(r)
	}
	return out
}

func (r *Report) join(o *Report) {
	other := differences(r, o)
	for _, run := range o.Runs {
		if slices.ContainsFunc(r.Runs, func(have Run) bool { return same(&have, &run) }) {
			continue
		}
		if other != "" {
			run.Notes = append(slices.Clone(run.Notes), other)
		}
		r.Runs = append(r.Runs, run)
	}
	r.Unfinished = cmp.Or(r.Unfinished, o.Unfinished)
	for _, e := range o.Expectations {
		if !slices.ContainsFunc(r.Expectations, func(have Expectation) bool { return reflect.DeepEqual(have, e) }) {
			r.Expectations = append(r.Expectations, e)
		}
	}
	for _, n := range o.Notes {
		if !slices.Contains(r.Notes, n) {
			r.Notes = append(r.Notes, n)
		}
	}
}

// same reports whether two runs are one: equal but for what Merge has noted.
func same(a, b *Run) bool {
	x, y := *a, *b
	x.Notes, y.Notes = nil, nil
	return reflect.DeepEqual(x, y)
}

// differences lists in what o was made otherwise than r.
func differences(r, o *Report) string {
	var d []string
	had := facts(r)
	for _, f := range facts(o) {
		if f.Name != "started" && !slices.Contains(had, f) {
			d = append(d, f.Name+" "+f.Value)
		}
	}
	for _, f := range had {
		if !slices.ContainsFunc(facts(o), func(g Parameter) bool { return g.Name == f.Name }) {
			d = append(d, "no "+f.Name)
		}
	}
	if o.Command != r.Command {
		d = append(d, "command "+o.Command)
	}
	if len(d) == 0 {
		return ""
	}
	return fmt.Sprintf("from another report: %s", strings.Join(d, "; "))
}
