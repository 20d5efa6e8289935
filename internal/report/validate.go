package report

import (
	"errors"
	"fmt"
	"math"
)

// validate returns every fault of the report, each with the field's path as
// JSON names it.
func (r *Report) validate() error {
	var f faults
	if r.Schema != Schema {
		f.add("schema is %d, want %d", r.Schema, Schema)
	}
	if r.Scenario == "" {
		f.add("scenario is empty")
	}
	for i := range r.Runs {
		r.Runs[i].validate(&f, fmt.Sprintf("runs[%d]", i))
	}
	return errors.Join(f...)
}

// faults are what is wrong with a report.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// figure checks a figure that may be unknown.
func (f *faults) figure(path string, v *float64) {
	if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0) || *v < 0) {
		f.add("%s is %v, want a number from 0 on, or null", path, *v)
	}
}

func (f *faults) count(path string, v *int64) {
	if v != nil && *v < 0 {
		f.add("%s is %d, want 0 or more, or null", path, *v)
	}
}

func (r *Run) validate(f *faults, at string) {
	if r.Strategy == "" {
		f.add("%s.strategy is empty", at)
	}
	switch r.Status {
	case Complete, Interrupted, Inconclusive, Failed:
	default:
		f.add("%s.status is %q, want %q, %q, %q or none", at, r.Status, Interrupted, Inconclusive, Failed)
	}
	f.figure(at+".seconds", &r.Seconds)
	for _, c := range columns {
		f.figure(at+"."+c.field, c.value(r))
	}
	for i, m := range r.Measures {
		path := fmt.Sprintf("%s.measures[%d]", at, i)
		if m.Name == "" {
			f.add("%s.name is empty", path)
		}
		switch m.Better {
		case Neither, Lower, Higher:
		default:
			f.add("%s.better is %q, want %q, %q or none", path, m.Better, Lower, Higher)
		}
		if m.Value != nil && (math.IsNaN(*m.Value) || math.IsInf(*m.Value, 0)) {
			f.add("%s.value is %v, want a number or null", path, *m.Value)
		}
	}
	for i := range r.Series {
		r.Series[i].validate(f, fmt.Sprintf("%s.series[%d]", at, i))
	}
	for i := range r.Latency {
		r.Latency[i].validate(f, fmt.Sprintf("%s.latency[%d]", at, i))
	}
	if r.Curve != nil {
		r.Curve.validate(f, at+".curve")
	}
}

func (s *Series) validate(f *faults, at string) {
	if s.StepMS <= 0 {
		f.add("%s.step_ms is %d, want more than 0", at, s.StepMS)
	}
	for _, o := range []struct {
		name string
		n    int
	}{{"refused", len(s.Refused)}, {"limit", len(s.Limit)}} {
		if o.n != 0 && o.n != len(s.Sent) {
			f.add("%s.%s has %d steps, sent has %d", at, o.name, o.n, len(s.Sent))
		}
	}
	for i := range s.Sent {
		f.count(fmt.Sprintf("%s.sent[%d]", at, i), &s.Sent[i])
	}
	for i := range s.Refused {
		f.count(fmt.Sprintf("%s.refused[%d]", at, i), &s.Refused[i])
	}
	for i := range s.Limit {
		f.figure(fmt.Sprintf("%s.limit[%d]", at, i), &s.Limit[i])
	}
}

func (l *Latency) validate(f *faults, at string) {
	if l.Class == "" {
		f.add("%s.class is empty", at)
	}
	for i := range l.Percentiles {
		p := &l.Percentiles[i]
		path := fmt.Sprintf("%s.percentiles[%d]", at, i)
		if !(p.Percent >= 0 && p.Percent <= 100) {
			f.add("%s.percent is %v, want 0 to 100", path, p.Percent)
		}
		f.figure(path+".ms", &p.MS)
		if i > 0 && (p.Percent <= l.Percentiles[i-1].Percent || p.MS < l.Percentiles[i-1].MS) {
			f.add("%s is below the one before", path)
		}
	}
}

func (c *Curve) validate(f *faults, at string) {
	f.figure(at+".capacity_per_s", c.CapacityPerS)
	for i := range c.Points {
		p := &c.Points[i]
		path := fmt.Sprintf("%s.points[%d]", at, i)
		f.figure(path+".offered_per_s", &p.OfferedPerS)
		f.figure(path+".goodput_per_s", p.GoodputPerS)
		f.figure(path+".p50_ms", p.P50MS)
		f.figure(path+".p99_ms", p.P99MS)
	}
}
